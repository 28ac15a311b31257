// Package watch is how one delivery or one replication is watched: it is sent as it is, and
// again as it changes, until it has ended.
package watch

import (
	"context"
	"time"

	"github.com/groupcast/groupcast/services/manager/ledger"
)

const (
	// pace is how long changes are collected before it is sent again. An end is sent at once.
	pace = 200 * time.Millisecond
	// heartbeat is how long a watch is silent at most.
	heartbeat = 5 * time.Second
)

// Watched is what is watched. M is the message that is sent.
type Watched[M any] struct {
	// Changed returns a channel that is closed when there is something new; closed already if changes are not told.
	Changed func() <-chan struct{}
	// Show returns it as it is, and whether it has not ended.
	Show func() (now M, running bool, err error)
	// Running is the second half of Show.
	Running func() (bool, error)
	// Ended is closed when changes are no longer known here.
	Ended <-chan struct{}
	// Send sends it; a heartbeat is the zero M.
	Send func(M) error
}

// Run watches until it has ended, ctx is done, or sending fails.
func (w Watched[M]) Run(ctx context.Context) error {
	silence, rest := time.NewTicker(heartbeat), time.NewTimer(pace)
	defer silence.Stop()
	defer rest.Stop()
	for {
		changed := w.Changed()
		now, running, err := w.Show()
		if err != nil {
			return err
		}
		if err := w.Send(now); err != nil || !running {
			return err
		}
		silence.Reset(heartbeat)
		rest.Reset(pace)
		if err := w.await(ctx, changed, silence.C); err != nil {
			return err
		}
		if err := w.collect(ctx, rest.C); err != nil {
			return err
		}
	}
}

// await waits for a change.
func (w Watched[M]) await(ctx context.Context, changed <-chan struct{}, silence <-chan time.Time) error {
	var heartbeat M
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Ended:
			return ledger.ErrNotLeading
		case <-silence:
			if err := w.Send(heartbeat); err != nil {
				return err
			}
		case <-changed:
			return nil
		}
	}
}

// collect waits until the pace allows that it is sent again, or it has ended.
func (w Watched[M]) collect(ctx context.Context, rest <-chan time.Time) error {
	for {
		changed := w.Changed()
		select {
		case <-changed:
			changed = nil // changes are not told
		default:
		}
		if running, err := w.Running(); err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Ended:
			return ledger.ErrNotLeading
		case <-rest:
			return nil
		case <-changed:
		}
	}
}
