package receive

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/device"
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
	if errors.Is(err, ErrDiskStalled) {
		return reason
	}
	if kernel := syscall.Errno(0); reason == wire.Disk && !errors.As(err, &kernel) {
		return wire.Refused
	}
	return reason
}

// Word is what replications say of an error of Run.
func Word(err error) string {
	switch {
	case errors.Is(err, ErrDiskStalled):
		return "disk_stalled"
	case errors.Is(err, noroom.Err):
		return "no_room"
	case errors.Is(err, ErrDamaged), errors.Is(err, object.ErrDamaged):
		return "damaged"
	case errors.Is(err, device.ErrRefused), errors.Is(err, object.ErrBusy), object.IsRefused(err):
		return "refused"
	case errors.Is(err, ErrSenderGone):
		return "sender_lost"
	case errors.Is(err, ErrSenderFailed):
		return "source_failed"
	case errors.Is(err, ErrNotHeard), errors.Is(err, ErrTooLarge), errors.Is(err, ErrNoNetwork):
		return "no_multicast"
	}
	return "disk"
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
