package object

import (
	"errors"
	"fmt"
)

// Keep ends the landing and leaves what has landed to a later one.
func (l *Landing) Keep() error {
	if l.ended {
		return nil
	}
	err := l.closeFiles() // which may wait for the disk, by beats
	l.halt()
	if err == nil && l.progress.now().err == nil {
		err = l.claim()
	}
	if l.claimed.offset == 0 { // there is nothing to keep
		err = errors.Join(err, l.partial.remove())
	}
	if err := errors.Join(err, l.end()); err != nil {
		return fmt.Errorf("keep partial of %s: %w", l.info.Name, l.noRoom(err))
	}
	return nil
}

// Remove ends the landing and removes what has landed.
func (l *Landing) Remove() error {
	if l.ended {
		return nil
	}
	l.halt()
	if err := errors.Join(l.closeFiles(), l.partial.remove(), l.end()); err != nil {
		return fmt.Errorf("remove partial of %s: %w", l.info.Name, err)
	}
	return nil
}

// closeFiles closes what is open for writing.
func (l *Landing) closeFiles() error { return errors.Join(l.writer.close(), l.beyond.close()) }

func (l *Landing) end() error {
	l.ended = true
	return l.release()
}

// release closes all descriptors, and with them gives up the lock.
func (l *Landing) release() error { return errors.Join(l.closeTree(), l.partial.close()) }
