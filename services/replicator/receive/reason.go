package receive

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// reasonOf is what the sender is told of an error.
func reasonOf(err error) wire.Reason {
	switch {
	case errors.Is(err, noroom.Err):
		return wire.NoRoom
	case errors.Is(err, object.ErrDamaged):
		return wire.Damaged
	case object.IsRefused(err):
		return wire.Refused
	}
	return wire.Disk
}

// refusalOf is what the sender is told of an error before anything has landed: what the kernel did not say, this
// machine's user or configuration does not want.
func refusalOf(err error) wire.Reason {
	reason := reasonOf(err)
	if kernel := syscall.Errno(0); reason == wire.Disk && !errors.As(err, &kernel) {
		return wire.Refused
	}
	return reason
}

// reasoned is what the user is told of it.
func reasoned(err error) error {
	if errors.Is(err, object.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func errTooLarge(size, heard int) error {
	return fmt.Errorf("%w: datagrams have %d bytes and the path to this replica carries %d (MTU): have the sender use smaller ones", ErrTooLarge, size, heard)
}
