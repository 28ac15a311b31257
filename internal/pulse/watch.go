package pulse

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime"
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

// Do makes a call.
type Do func(what string, call func() error) error

// Await makes a call, and returns when that has, or ErrStalled when the disk has been given up: then the call is left behind, and
// after is called once it returns. Nothing that the call uses may be used again, and no other call is made.
func (w *Watch) Await(ctx context.Context, what string, call func() error, after func()) error {
	return w.Follow(ctx, func(do Do) error { return do(what, call) }, after)
}

// Follow has a goroutine run that makes many calls, and else waits for no disk. It returns as Await does. A goroutine that is left behind
// with a call ends where it stands when that returns: what it had deferred is done, and then after. That costs less than an Await for each
// call: bytes that were just made are not handed to another processor.
func (w *Watch) Follow(ctx context.Context, run func(do Do) error, after func()) error {
	if err := w.Err(); err != nil {
		return err
	}
	f := &followed{watch: w, left: make(chan func(), 1)}
	returned := make(chan error, 1)
	go func() {
		defer func() {
			if f.isLeft() {
				answers := <-f.left
				after()
				answers()
			}
		}()
		returned <- run(f.do)
	}()
	defer w.taken.Store(0)
	return f.wait(ctx, returned)
}

// followed is a goroutine that makes calls.
type followed struct {
	watch *Watch
	what  atomic.Pointer[string] // of its last call
	calls atomic.Uint64          // how many have begun and returned: odd while one is under way
	left  chan func()            // what is done when the call that it is left behind with has returned
}

// behind is the number of calls of a goroutine that is left behind.
const behind = math.MaxUint64

func (f *followed) isLeft() bool { return f.calls.Load() == behind }

func (f *followed) do(what string, call func() error) error {
	if err := f.watch.Err(); err != nil {
		return err
	}
	f.what.Store(&what)
	number := f.calls.Add(1)
	err := call()
	if !f.calls.CompareAndSwap(number, number+1) {
		runtime.Goexit()
	}
	return err
}

// wait waits until a goroutine has ended, or is left behind with a call in which there was no beat for too long. Time counts only while
// this process runs: while it is stopped, or its machine sleeps, it does not wait.
func (f *followed) wait(ctx context.Context, returned <-chan error) error {
	w, every := f.watch, lookEvery
	if w.Patience > 0 {
		every = min(every, w.Patience/8)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	under := underWay{number: 1, beats: w.beats.Load()} // the first may have begun already
	for last := time.Now(); ; {
		select {
		case err := <-returned:
			under.end(w)
			return err
		case <-ticker.C:
		}
		now := time.Now()
		step := min(now.Sub(last), 2*every)
		last = now
		number := f.calls.Load()
		if number != under.number {
			under.end(w)
			under = underWay{number: number, beats: w.beats.Load()}
			continue
		}
		if number%2 == 0 {
			continue
		}
		what := *f.what.Load()
		under.step(w, what, step)
		if limit := w.limit(ctx); limit > 0 && under.dead >= limit && f.calls.CompareAndSwap(number, behind) {
			return w.giveUp(what, under.dead, f.left)
		}
	}
}

// underWay is a call that has not returned, or that there is none.
type underWay struct {
	number             uint64
	taken, quiet, dead time.Duration // by the call; without a beat; without anything that the disk has done
	beats, seen        uint64
	isWarned           bool
}

// step notes that some time has passed.
func (u *underWay) step(w *Watch, what string, step time.Duration) {
	u.taken, u.quiet, u.dead = u.taken+step, u.quiet+step, u.dead+step
	if heard := w.beats.Load(); heard != u.beats {
		u.beats, u.quiet, u.dead, u.isWarned = heard, 0, 0, false
	} else if done := w.activity(); done != u.seen {
		u.seen, u.dead = done, 0
	}
	w.taken.Store(int64(u.taken))
	if u.quiet >= warnAfter && !u.isWarned {
		u.isWarned = true
		w.Log.Warn("a disk does not answer", "path", w.Path, "what", what, "waited_for", w.Patience)
	}
}

// end notes that the call has returned.
func (u *underWay) end(w *Watch) {
	if u.taken > 0 {
		w.taken.Store(0)
	}
	if u.isWarned {
		w.Log.Info("a disk answers again", "path", w.Path, "after", u.taken.Round(time.Second))
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
