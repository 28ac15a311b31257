package pulse

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often it is looked whether a disk has done something.
	lookEvery = time.Second
	// warnAfter is after how long without a beat it is logged that the disk does not answer.
	warnAfter = 10 * time.Second
	// leavePatience is how long a disk may not answer when nobody asks any more how it went: whoever stops the service waits for it.
	leavePatience = 20 * time.Second
	// holdsUpAfter is how long a call takes that holds up its caller.
	holdsUpAfter = time.Second
)

// Watch waits for calls of a disk, one at a time, for as long as it answers.
type Watch struct {
	Pulse
	Log *slog.Logger
	// Path is what users call that which is on the disk. Which disk that is, the call notes by On: until then, what a disk does for others
	// does not count.
	Path string
	// Patience is how long it may not answer; zero is for ever.
	Patience time.Duration
	// Left is told which call stands when its disk is given up, and since when. The function that it returns is called if the call returns
	// after all. Left may be nil.
	Left func(disk Disk, what string, since time.Time) (answers func())

	activityOf func(Disk) uint64 // nil is Disk.Activity
	taken      atomic.Int64      // how long the call that is under way has taken
}

// HoldsUp reports whether a call has taken so long that its caller has done nothing else for a while, be the disk slow or dead.
func (w *Watch) HoldsUp() bool { return time.Duration(w.taken.Load()) >= holdsUpAfter }

// Await makes a call, and returns when that has, or ErrStalled when the disk has been given up: then the call is left behind, and
// after is called once it returns. Nothing that the call uses may be used again, and no other call is made.
func (w *Watch) Await(ctx context.Context, what string, call func() error, after func()) error {
	if err := w.Err(); err != nil {
		return err
	}
	var isDecided atomic.Bool
	returned, left := make(chan error, 1), make(chan func(), 1)
	go func() {
		err := call()
		if isDecided.CompareAndSwap(false, true) {
			returned <- err
			return
		}
		answers := <-left
		after()
		answers()
	}()
	waited, err := w.wait(ctx, what, returned)
	w.taken.Store(0)
	switch {
	case waited == 0:
		return err
	case !isDecided.CompareAndSwap(false, true): // in the last moment
		return <-returned
	}
	return w.giveUp(what, waited, left)
}

// wait waits until a call has returned, or there was no beat for too long: then it returns how long that was. Time counts only while this
// process runs: while it is stopped, or its machine sleeps, it does not wait.
func (w *Watch) wait(ctx context.Context, what string, returned <-chan error) (waited time.Duration, err error) {
	every := lookEvery
	if w.Patience > 0 {
		every = min(every, w.Patience/8)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	began, beats, isWarned := time.Now(), w.beats.Load(), false
	var taken, quiet, dead time.Duration // by the call; without a beat; without anything that the disk has done
	var seen uint64
	for last := began; ; {
		select {
		case err := <-returned:
			if isWarned {
				w.Log.Info("a disk answers again", "path", w.Path, "what", what, "after", time.Since(began).Round(time.Second))
			}
			return 0, err
		case <-ticker.C:
		}
		now := time.Now()
		step := min(now.Sub(last), 2*every)
		taken, quiet, dead, last = taken+step, quiet+step, dead+step, now
		if heard := w.beats.Load(); heard != beats {
			beats, quiet, dead, isWarned = heard, 0, 0, false
		} else if done := w.activity(); done != seen {
			seen, dead = done, 0
		}
		w.taken.Store(int64(taken))
		if quiet >= warnAfter && !isWarned {
			isWarned = true
			w.Log.Warn("a disk does not answer", "path", w.Path, "what", what, "waited_for", w.Patience)
		}
		if limit := w.limit(ctx); limit > 0 && dead >= limit {
			return dead, nil
		}
	}
}

// activity counts what the disk does for whomever: as long as that grows a call is waited for.
func (w *Watch) activity() uint64 {
	disk := w.disk.Load()
	switch {
	case disk == nil:
		return 0
	case w.activityOf != nil:
		return w.activityOf(*disk)
	}
	return disk.Activity()
}

// limit is how long the disk may not answer now.
func (w *Watch) limit(ctx context.Context) time.Duration {
	if ctx.Err() != nil && (w.Patience == 0 || w.Patience > leavePatience) {
		return leavePatience
	}
	return w.Patience
}

// giveUp leaves a call behind.
func (w *Watch) giveUp(what string, waited time.Duration, left chan<- func()) error {
	err := fmt.Errorf("%w: %s, nothing for %v (%s): see that its server or device is there (dmesg, mount), and replicate again: it goes on from what is kept", ErrStalled, w.Path, waited.Round(100*time.Millisecond), what)
	w.stalled.Store(&err)
	answers := func() {}
	if w.Left != nil {
		answers = w.Left(*cmp.Or(w.disk.Load(), &Disk{At: w.Path}), what, time.Now().Add(-waited))
	}
	left <- answers
	return err
}
