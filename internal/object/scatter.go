package object

import (
	"fmt"
	"os"
)

// Content returns the file that takes a plain file's bytes at the offsets that they have,
// for one who gets them in any order, and says with Landed how far they have come. It
// is open until the landing ends.
func (l *Landing) Content() (*os.File, error) {
	now, err := l.usable()
	if err != nil {
		return nil, err
	}
	if l.info.Kind != File {
		return nil, fmt.Errorf("land %s: the bytes of a %v come in their order", l.info.Name, l.info.Kind)
	}
	if l.info.Length == 0 {
		return nil, fmt.Errorf("land %s: it has no bytes", l.info.Name)
	}
	file, _, _, err := l.writer.at(now.layout, 0)
	if err != nil {
		return nil, l.fail(err)
	}
	return file, nil
}

// Landed says that all bytes before an offset were written into Content. They are read
// back to be hashed, mostly out of memory.
func (l *Landing) Landed(upTo uint64) error {
	now, err := l.usable()
	if err != nil {
		return err
	}
	if upTo > l.info.Length {
		return fmt.Errorf("land %s: %d bytes beyond the end", l.info.Name, upTo-l.info.Length)
	}
	back := newRehash(cursor{open: l.openLanded}, l.pulse)
	defer func() { _ = back.close() }() // it only reads
	for back.offset = now.landed; back.offset < upTo; {
		part, err := back.next(now.layout, upTo)
		if err != nil {
			return l.fail(err)
		}
		if err := l.advance(now, part); err != nil {
			return err
		}
		back.offset += uint64(len(part))
		now.landed = back.offset
	}
	return nil
}
