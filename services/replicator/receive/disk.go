package receive

import (
	"context"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// ErrDiskStalled says that the disk did not answer for longer than it is waited for.
var ErrDiskStalled = pulse.ErrStalled

// watched is a landing that is waited for as long as its disk answers. A call that does not return is left behind: if it returns after
// all, what is there is kept, and nothing of it appears. Until then nobody may use the landing.
type watched struct {
	Landing
	ctx   context.Context // of whoever waits
	watch *pulse.Watch
	do    pulse.Do // of the goroutine that lands
}

// watch has what lands in the end be waited for as long as its disk answers, also when the ground has moved meanwhile; not for much longer
// once ctx has ended.
func (c Config) watch(ctx context.Context, env Env) Config {
	watch := &pulse.Watch{Log: env.Log, Path: c.Path, Patience: c.DiskPatience, Left: c.Left}
	find, open := c.Find, c.Open
	if find != nil {
		c.Find = func(inner context.Context, info object.Info) (Landing, error) {
			return awaitLanding(ctx, watch, "find out whether it is there", func() (Landing, error) { return find(pulse.In(inner, &watch.Pulse), info) })
		}
	}
	c.Open = func(inner context.Context, info object.Info) (Landing, error) {
		return awaitLanding(ctx, watch, "open it, and read what is there of it", func() (Landing, error) { return open(pulse.In(inner, &watch.Pulse), info) })
	}
	return c
}

// awaitLanding waits until a landing is open; nil stays nil.
func awaitLanding(ctx context.Context, watch *pulse.Watch, what string, open func() (Landing, error)) (Landing, error) {
	var landing Landing
	err := watch.Await(ctx, what, func() error {
		opened, err := open()
		if err == nil { // else it may be a pointer to nothing
			landing = opened
		}
		return err
	}, func() {
		if landing != nil {
			_ = landing.Keep()
		}
	})
	if watch.Err() != nil || landing == nil {
		return nil, err
	}
	return &watched{Landing: landing, ctx: ctx, watch: watch}, err
}

func (w *watched) await(what string, call func() error) error {
	return w.watch.Await(w.ctx, what, call, w.leave)
}

func (w *watched) leave() { _ = w.Landing.Keep() }

// landing has a goroutine run in which all lands. If it is left behind, nothing lands any more.
func (w *watched) landing(run func() error) error {
	return w.watch.Follow(w.ctx, func(do pulse.Do) error {
		w.do = do
		return run()
	}, w.leave)
}

func (w *watched) Write(p []byte) (n int, err error) {
	err = w.do("write", func() (err error) {
		n, err = w.Landing.Write(p)
		return err
	})
	return n, err
}

func (w *watched) Zeros(count uint64) error {
	return w.do("write zeros", func() error { return w.Landing.Zeros(count) })
}

func (w *watched) Ahead(offset uint64, p []byte) (taken bool, err error) {
	err = w.do("write", func() (err error) {
		taken, err = w.Landing.Ahead(offset, p)
		return err
	})
	return taken, err
}

func (w *watched) Adopt(count uint64) error {
	return w.do("read again what was written", func() error { return w.Landing.Adopt(count) })
}

func (w *watched) Complete(length uint64, root object.Root, durable bool) error {
	return w.await("have all be on disk", func() error {
		err := w.Landing.Complete(length, root, durable)
		if replacing, is := w.Landing.(interface{ Left() error }); is && replacing.Left() != nil {
			w.watch.Log.Warn("not all of the directory that was replaced can be removed", "error", replacing.Left())
		}
		if err == nil {
			w.tellUnnoted()
		}
		return err
	})
}

// tellUnnoted tells what a landing could not note for a later one.
func (w *watched) tellUnnoted() {
	if noting, is := w.Landing.(interface{ Unnoted() error }); is && noting.Unnoted() != nil {
		w.watch.Log.Warn("not all that is there is noted: the next time more of it is sent", "path", w.watch.Path, "error", noting.Unnoted())
	}
}

func (w *watched) Keep() error {
	return w.end("keep what is there", func() error {
		err := w.Landing.Keep()
		w.tellUnnoted()
		return err
	})
}

func (w *watched) Remove() error {
	return w.end("remove what is there", w.Landing.Remove)
}

// end ends the landing, unless it is left behind: then it ends when its disk answers.
func (w *watched) end(what string, call func() error) error {
	if w.watch.Err() != nil {
		return nil
	}
	return w.await(what, call)
}

// unlocked is a landing that gives up its user's lock while bytes land: that may take long, and others have to go on.
type unlocked struct {
	Landing
	lock *sync.Mutex
}

func (u unlocked) Write(p []byte) (int, error) {
	u.lock.Unlock()
	defer u.lock.Lock()
	return u.Landing.Write(p)
}

func (u unlocked) Zeros(count uint64) error {
	u.lock.Unlock()
	defer u.lock.Lock()
	return u.Landing.Zeros(count)
}

func (u unlocked) Ahead(offset uint64, p []byte) (bool, error) {
	u.lock.Unlock()
	defer u.lock.Lock()
	return u.Landing.Ahead(offset, p)
}

func (u unlocked) Adopt(count uint64) error {
	u.lock.Unlock()
	defer u.lock.Lock()
	return u.Landing.Adopt(count)
}

// isHeldUp reports whether nothing is taken from the network, for the disk has not taken yet what came. The caller has the lock.
func (r *replica) isHeldUp() bool {
	return r.disk.watch.HoldsUp() && r.rules != nil && r.rules.State() == wire.Receiving
}

// standstill is for how long nobody may have looked for the replica itself to have stood still, as when its process was stopped.
const standstill = time.Second

// silence is for how long nothing was heard of the sender. While the disk holds up the replica, or it stands still, nobody listens. The caller
// has the lock, and asks every joinEvery.
func (r *replica) silence(now time.Time) time.Duration {
	if stood := now.Sub(r.looked); !r.looked.IsZero() && stood > standstill {
		r.pollHeard = moment.Soonest(r.pollHeard.Add(stood), now) // it may have been heard since
	}
	r.looked = now
	if r.isHeldUp() {
		r.pollHeard = now
	}
	return now.Sub(r.pollHeard)
}

// aliveEvery is how often a replica that its disk holds up says that it is there: the sender would give it up after a minute for its
// silence, or after 10 s for nothing getting to it. Each time the sender waits for it only for a moment.
const aliveEvery = 5 * time.Second

// stay says now and then that this replica is there although its disk holds it up. The caller has the lock.
func (r *replica) stay(now time.Time) {
	if r.isHeldUp() && now.Sub(r.toldAlive) > aliveEvery {
		r.toldAlive = now
		r.rules.Enter(wire.Receiving, wire.NoReason, object.Root{}, now)
	}
}

// hasTold reports whether a replica that has failed has told that for long enough: its sender is not there. The caller has the lock.
func (r *replica) hasTold(silent time.Duration) bool {
	return !r.failedAt.IsZero() && min(silent, time.Since(r.failedAt)) > goneAfter
}
