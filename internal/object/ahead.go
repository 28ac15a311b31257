package object

import (
	"errors"
	"fmt"
	"os"
)

// Places reports whether it is known where every byte belongs: a directory's head has landed.
func (l *Landing) Places() bool { return l.progress.now().layout.entries != nil }

// Head returns how long a directory's head is, as far as that is known: at first, the beginning of it that says so.
func (l *Landing) Head() uint64 { return l.progress.now().layout.head }

// Ahead writes bytes that are not next where they belong, if that is known already. Nothing is
// claimed of them before Adopt has taken them in: a crash loses them.
func (l *Landing) Ahead(offset uint64, p []byte) (taken bool, err error) {
	now, err := l.usable()
	if err != nil {
		return false, err
	}
	end := offset + uint64(len(p))
	if offset < now.landed || end > l.info.Length || end < offset {
		return false, fmt.Errorf("land %s: %d bytes at %d, with %d of %d landed", l.info.Name, len(p), offset, now.landed, l.info.Length)
	}
	if now.layout.entries == nil {
		return false, nil
	}
	for len(p) > 0 {
		file, position, left, err := l.aheadAt(now.layout, offset)
		if err != nil {
			return false, l.fail(err)
		}
		part := p[:min(uint64(len(p)), left)]
		if _, err := l.put(file, part, position); err != nil {
			return false, fmt.Errorf("land %s: %w", l.info.Name, l.noRoom(err))
		}
		offset, p = offset+uint64(len(part)), p[len(part):]
	}
	return true, nil
}

// aheadAt opens the file with the byte at an offset, which may be the one that is written or a later one.
func (l *Landing) aheadAt(known *layout, offset uint64) (file *os.File, position, left uint64, err error) {
	if index, position, left := known.at(offset); l.writer.file != nil && l.writer.index == index {
		return l.writer.file, position, left, nil
	}
	return l.beyond.at(known, offset)
}

// Adopt takes in the next bytes, which Ahead has written: it reads and hashes them.
func (l *Landing) Adopt(count uint64) error {
	return l.within(count, func(now snapshot, part []byte) error {
		file, position, _, err := l.writer.at(now.layout, now.landed)
		if err != nil {
			return l.fail(err)
		}
		if n, err := file.ReadAt(part, int64(position)); n < len(part) {
			return l.fail(fmt.Errorf("read again at %d: %w", position, unexpected(err)))
		}
		return l.advance(now, part)
	})
}

// Zeros takes zeros as the next bytes. Files have a hole there.
func (l *Landing) Zeros(count uint64) error {
	return l.within(count, func(now snapshot, part []byte) error {
		clear(part)
		file, position, _, err := l.writer.at(now.layout, now.landed)
		if err != nil {
			return l.fail(err)
		}
		if err := extend(file, position+uint64(len(part))); err != nil {
			return l.fail(err)
		}
		return l.advance(now, part)
	})
}

// within does something for the next bytes, piece by piece, none of which is of two files.
func (l *Landing) within(count uint64, do func(now snapshot, part []byte) error) error {
	buffer := make([]byte, min(count, piece))
	for count > 0 {
		now, err := l.usable()
		if err != nil {
			return err
		}
		if now.landed >= now.layout.end {
			return errors.New("land " + l.info.Name + ": bytes beyond the end")
		}
		_, _, left := now.layout.at(now.landed)
		part := buffer[:min(count, left, uint64(len(buffer)))]
		if err := do(now, part); err != nil {
			return err
		}
		count -= uint64(len(part))
	}
	return nil
}
