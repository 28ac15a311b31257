// Package noroom is about disks that are full, and quotas that are used up.
package noroom

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Err says that there is no room, whatever bound is reached.
var Err = errors.New("no room on disk")

// Is reports whether an error says that there is no room, or that a disk or a quota is full.
func Is(err error) bool {
	return errors.Is(err, Err) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// Named turns an error for which Is is true into an Err that says what it said, and leaves others as they are.
func Named(err error) error {
	if errors.Is(err, Err) || !Is(err) {
		return err
	}
	return named{err}
}

type named struct{ error }

func (n named) Unwrap() []error { return []error{Err, n.error} }
