// Package filelock keeps a file to one user, in this process or another.
package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrHeld says that somebody else has the lock.
var ErrHeld = errors.New("locked by another user")

// Take locks an open file until Release, or until this process ends.
func Take(file *os.File) error {
	for {
		switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		}
	}
}

// Release unlocks a file and closes it. Closing alone is not enough: a process that is being started has a copy of
// the descriptor, and with it the lock, until it runs its program.
func Release(file *os.File) error {
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // it fails only if the file is closed, and then Close says so
	return file.Close()
}
