package object

import (
	"bytes"
	"os"
)

// page is what file systems mostly give room by.
const page = 4 << 10

var zeroPage [page]byte

// put writes bytes of a file where none were before. If the source has holes, it leaves one where a page, or what is here of it, is zeros:
// the sender tells of holes of many pages alone, but the room for all was not asked for.
func (l *Landing) put(file *os.File, p []byte, position uint64) (written int, err error) {
	if l.info.Zeros == 0 {
		return file.WriteAt(p, int64(position))
	}
	endsWithHole := false
	for written < len(p) && err == nil {
		var n int
		at := position + uint64(written)
		if n, endsWithHole = stretch(p[written:], at); !endsWithHole {
			n, err = file.WriteAt(p[written:written+n], int64(at))
		}
		written += n
	}
	if endsWithHole || err != nil {
		if err := extend(file, position+uint64(written)); err != nil {
			return 0, err
		}
	}
	return written, err
}

// stretch is how many of the first bytes lie in pages that are all zeros, or in pages that are not.
func stretch(p []byte, position uint64) (length int, isZeros bool) {
	for length < len(p) {
		part := p[length:min(len(p), length+page-int((position+uint64(length))%page))]
		is := bytes.Equal(part, zeroPage[:len(part)])
		if length > 0 && is != isZeros {
			break
		}
		length, isZeros = length+len(part), is
	}
	return length, isZeros
}

// extend has a file end no earlier than at a position, with a hole before that.
func extend(file *os.File, position uint64) error {
	info, err := file.Stat()
	if err == nil && info.Size() < int64(position) {
		err = file.Truncate(int64(position))
	}
	return err
}
