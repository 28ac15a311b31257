package roster

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
)

// What is wrong with the disk, other than that it is full.
var (
	ErrDisk       = errors.New("the gatherer cannot keep what comes")
	ErrUnwritable = errors.New("nothing can be written to the gatherer's store")
)

// told returns an error in the words for a client, which has a disk of its own: that it is the gatherer's disk that fails, and where
// below the store, but not where the store is.
func (r *Roster) told(err error) error {
	if err == nil {
		return nil
	}
	if isOfDisk(err) {
		err = r.named(err)
	}
	if !strings.Contains(err.Error(), r.Dir) {
		return err
	}
	return &below{err, strings.NewReplacer(r.Dir+"/", "", r.Dir, "the store").Replace(err.Error())}
}

// isOfDisk reports whether the system failed in a way that is not the client's fault, and that waiting does not mend.
func isOfDisk(err error) bool {
	switch {
	case noroom.Is(err), isScarce(err), object.IsRefused(err), errors.Is(err, object.ErrDamaged), errors.Is(err, unix.ENAMETOOLONG):
		return false
	}
	var failed syscall.Errno
	return errors.As(err, &failed)
}

// isScarce reports whether the gatherer has no more descriptors, or no more memory, for now.
func isScarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// named says of a disk's error that it is the gatherer's, and whether another upload would fare better.
func (r *Roster) named(err error) error {
	switch {
	case unix.Access(r.Dir, unix.W_OK) != nil:
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	case errors.Is(err, ErrDisk):
		return err
	}
	return fmt.Errorf("%w: %w", ErrDisk, err)
}

// below is an error that does not say where the store is.
type below struct {
	error
	text string
}

func (b *below) Error() string { return b.text }
func (b *below) Unwrap() error { return b.error }
