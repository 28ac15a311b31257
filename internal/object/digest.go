package object

import (
	"errors"
	"fmt"
	"io"

	"lukechampine.com/blake3"
)

// piece is how much is read and hashed at once.
const piece = 1 << 20

// digest hashes an object's bytes from the first on.
type digest struct {
	from   cursor
	hasher *blake3.Hasher
	offset uint64 // all before it is hashed
	buffer []byte
}

func newDigest(from cursor) *digest {
	return &digest{from: from, hasher: blake3.New(len(Root{}), nil), buffer: make([]byte, piece)}
}

// advance hashes at most a piece, and nothing from upTo on. It ends where a piece
// of the object does: the hasher is fastest with whole ones.
func (d *digest) advance(l *layout, upTo uint64) error {
	size := min(piece-d.offset%piece, upTo-d.offset)
	buffer := d.buffer[:size]
	for filled := uint64(0); filled < size; {
		file, position, left, err := d.from.at(l, d.offset+filled)
		if err != nil {
			return err
		}
		part := buffer[filled:min(size, filled+left)]
		n, err := file.ReadAt(part, int64(position))
		if n < len(part) {
			return fmt.Errorf("read %s at %d: %w", file.Name(), position, unexpected(err))
		}
		filled += uint64(n)
	}
	_, _ = d.hasher.Write(buffer) // it never fails
	d.offset += size
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// root returns the root of what is hashed so far.
func (d *digest) root() Root { return Root(d.hasher.Sum(nil)) }

func (d *digest) close() error { return d.from.close() }
