// Package pulse tells a disk that is slow from one that does not answer, as a mount whose server is gone: what a call of it brings
// about beats, piece by piece, and only one without a beat for long is given up. Nothing ends a call that stands in the kernel; it
// is left behind.
package pulse

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrStalled says that a disk did not answer for longer than it is waited for.
var ErrStalled = errors.New("the disk does not answer")

// Pulse counts what a disk has done. A nil Pulse counts nothing.
type Pulse struct {
	// Whole has each file be synced by one call, as without a pulse: it says nothing meanwhile, and takes less time.
	Whole   bool
	beats   atomic.Uint64
	stalled atomic.Pointer[error] // why it is given up
	disk    atomic.Pointer[Disk]
}

// On notes which disk is asked from now on.
func (p *Pulse) On(disk Disk) {
	if p != nil {
		p.disk.Store(&disk)
	}
}

// Like notes that the same disk is asked as by another.
func (p *Pulse) Like(other *Pulse) { p.disk.Store(other.disk.Load()) }

// Beat says that the disk has done something, however little.
func (p *Pulse) Beat() {
	if p != nil {
		p.beats.Add(1)
	}
}

// Beats returns how often the disk has done something.
func (p *Pulse) Beats() uint64 { return p.beats.Load() }

// Err says why nobody waits for the disk any more. A call that goes on after that, because the disk answers late, must not change
// anything that others see.
func (p *Pulse) Err() error {
	if p == nil {
		return nil
	}
	if err := p.stalled.Load(); err != nil {
		return *err
	}
	return nil
}

type contextKey struct{}

// In has what is done with a context beat this pulse.
func In(ctx context.Context, p *Pulse) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// Of returns the pulse that is in a context; nil if there is none.
func Of(ctx context.Context) *Pulse {
	p, _ := ctx.Value(contextKey{}).(*Pulse)
	return p
}
