// Package fault is what can go wrong, as values: each begins, proves that it has
// taken effect, and ends.
//
//	f := &fault.Partition{Link: trunk}
//	err := f.Begin()   // the fault is there
//	err = f.Proof()    // nil: it has bitten
//	err = f.End()      // all is as it was
package fault

import (
	"errors"
	"fmt"
)

// Fault is one thing that goes wrong.
type Fault interface {
	// Begin starts the fault.
	Begin() error
	// Proof is nil once the fault is known to have had an effect: a packet was
	// lost, a write refused, a process seen frozen. Until then it tells what
	// has not been seen yet.
	Proof() error
	// End undoes the fault where it can be undone.
	End() error
	// String names the fault and what it strikes.
	String() string
}

// ErrNoEffect is what Proof wraps as long as nothing has been seen.
var ErrNoEffect = errors.New("no effect seen yet")

func noEffect(f Fault, format string, arguments ...any) error {
	return fmt.Errorf("%s: %w: %s", f, ErrNoEffect, fmt.Sprintf(format, arguments...))
}
