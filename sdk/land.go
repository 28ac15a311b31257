package sdk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/pulse"
)

// alreadyHere finds out whether the object is at its place already. It can tell once the sender has hashed the object, which is long
// before all of it is sent, but long after this has hashed what is here where the source is slower: until then it takes nothing, as
// whoever has the object is sent nothing.
func (r *receiving) alreadyHere(ctx context.Context) (one Arrived, is bool) {
	found, err := object.Find(pulse.In(ctx, &r.reading), r.options.Into, r.info)
	if err != nil || found == nil {
		return Arrived{}, false
	}
	defer found.Close()
	found.Recall(r.seen) // another delivery of the object may have landed meanwhile, and this be asked again
	root, there, err := found.Root(ctx)
	if err != nil || !there {
		return Arrived{}, false
	}
	r.seen = found.Seen(root)
	assignment, err := r.awaitHash(ctx)
	if err != nil || !assignment.GetSealed() || object.Root(assignment.GetRoot()) != root {
		return Arrived{}, false
	}
	if err := found.Confirm(r.isDurable()); err != nil { // whoever put it there may not have synced it
		return Arrived{}, false
	}
	r.root = root[:]
	_ = r.Landed(r.info.Length)
	r.place().found(r.created, root)
	r.removeUnfinished(ctx) // as of a landing that was killed when it had put this here, with what it had replaced
	return r.arrived(), true
}

// hashBeat is how often a member says that it waits for the sender's hash.
const hashBeat = 5 * time.Second

// awaitHash waits until the sender has hashed the object, to compare that with what is here. Meanwhile this counts as reading that, or
// managers would fail the delivery after a minute in which nobody took anything: the sender stops when its agent's cache is full.
func (r *receiving) awaitHash(ctx context.Context) (assignment *groupv1.Assignment, err error) {
	for {
		until, done := context.WithTimeout(ctx, hashBeat)
		assignment, err = r.awaitSeal(until)
		done()
		if err == nil || ctx.Err() != nil {
			return assignment, err
		}
		r.reading.Beat()
	}
}

// awaitSeal waits until the managers have the object's root, or the delivery has ended here.
func (r *receiving) awaitSeal(ctx context.Context) (*groupv1.Assignment, error) {
	return r.session.attendance.await(ctx, r.id, func(a *groupv1.Assignment) bool { return a == nil || a.GetSealed() || a.GetEnded() })
}

// begin begins to land the object. If there is no room, it removes what nobody goes on with of what has come under its name, and at last
// what has come of it: nothing is left in the way.
func (r *receiving) begin(ctx context.Context) (*object.Landing, error) {
	ctx = object.Leaving(pulse.In(ctx, &r.reading), r.options.Reserve)
	landing, err := object.Land(ctx, r.options.Into, r.info)
	if !noroom.Is(err) {
		return landing, err
	}
	_ = object.RemoveSuperseded(ctx, r.options.Into, r.info) // Sweep removes what is left
	landing, err = object.Land(ctx, r.options.Into, r.info)
	if noroom.Is(err) {
		r.removeUnfinished(ctx)
	}
	return landing, err
}

// beginInTurn begins to land the object once no other delivery of the same does, and reports whether it has waited for one.
func (r *receiving) beginInTurn(ctx context.Context) (landing *object.Landing, waited bool, err error) {
	for {
		ended := r.place().landing.begin(r)
		landing, err = r.begin(ctx)
		ended()
		if !errors.Is(err, object.ErrBusy) || ctx.Err() != nil {
			return landing, waited, err
		}
		if err := r.letLand(ctx); err != nil {
			return nil, false, err
		}
		waited = true
	}
}

// busyPause is how often to look whether another delivery of the same object is done.
const busyPause = 200 * time.Millisecond

// letLand waits a while for another delivery of the same object to land, and returns why this one has ended if it has. While that other
// gets on, this counts as reading what is here: else managers would fail it after a minute, as nothing comes to it.
func (r *receiving) letLand(ctx context.Context) error {
	if r.place().landing.ask(r.created) {
		r.reading.Beat()
	}
	ctx, done := context.WithTimeout(ctx, busyPause)
	defer done()
	assignment, err := r.session.attendance.await(ctx, r.id, isOver)
	if err != nil {
		return nil // it goes on, and may have its turn
	}
	return endedEarly(assignment)
}

// removeUnfinished removes what has come under the object's name and is of no use any more, but for what is landing.
func (r *receiving) removeUnfinished(ctx context.Context) {
	if err := object.RemoveUnfinished(pulse.In(ctx, &r.reading), r.options.Into, r.info); err != nil {
		r.session.client.log.Info("not all that has come of an object earlier can be removed", "name", r.info.Name, "error", err)
	}
}

// arrived returns what is here whole.
func (r *receiving) arrived() Arrived {
	return Arrived{Incoming: r.incoming, Path: r.path(), Bytes: r.info.Length, Root: r.root}
}

// land takes the object from whoever feeds it, and puts it into its place once it is whole and verified. What has come may turn out to be
// damaged, by an agent, or in a partial copy from earlier: then all has to be taken again.
func (r *receiving) land(ctx context.Context, landing *object.Landing) (one Arrived, again bool) {
	resumed := landing.Offset() > 0
	r.reading.Beat() // managers know from now on that this member says how it gets on
	r.update(func() { r.end = nil })
	_ = r.Landed(landing.Offset())
	taking, release := r.place().landing.take(ctx, r)
	defer release()
	err := r.takeInto(taking, landing)
	if errors.Is(context.Cause(taking), errYielded) && ctx.Err() == nil {
		err = landing.Keep()
		pause.For(ctx, 2*busyPause) // let the other one be first
		return r.failed(reasonOf(err), errors.Join(errYielded, err)), err == nil
	}
	if err == nil {
		one, err = r.complete(ctx, landing)
	}
	if err == nil {
		return one, false
	}
	one = r.leave(landing, err)
	return one, reasonOf(err) == "damaged" && (resumed || r.awaitsAnother(ctx))
}

// takeInto lands what is sent, or, of a directory with hashes, what this member lacks of it.
func (r *receiving) takeInto(ctx context.Context, landing *object.Landing) error {
	store := &landingStore{receiving: r, landing: landing}
	if r.spec.GetHashed() {
		return (&lackingStore{landingStore: store}).takeLacking(ctx)
	}
	return r.takeAll(ctx, store, store.scattered)
}

// complete puts the object into its place, once the managers have its root.
func (r *receiving) complete(ctx context.Context, landing *object.Landing) (Arrived, error) {
	assignment, err := r.awaitSeal(ctx)
	if err != nil {
		return Arrived{}, err
	}
	if !assignment.GetSealed() {
		return Arrived{}, endedEarly(assignment)
	}
	r.root = assignment.GetRoot()
	root := object.Root(r.root)
	err = r.place().put(r.created, root, func() error {
		return landing.Complete(assignment.GetLength(), root, r.isDurable())
	})
	if left := landing.Left(); left != nil {
		r.session.client.log.Warn("not all of the directory that was replaced can be removed", "name", r.info.Name, "error", left)
	}
	if err != nil {
		return Arrived{}, err
	}
	r.removeUnfinished(ctx) // of its earlier states
	return r.arrived(), nil
}

// isDurable reports whether what arrives has to be on disk before it counts as complete.
func (r *receiving) isDurable() bool {
	level := r.spec.GetAckLevel()
	return level != groupv1.AckLevel_ACK_LEVEL_RECEIVED && level != groupv1.AckLevel_ACK_LEVEL_RELAYED
}

// path is where the object appears, and place notes which delivery has put one there.
func (r *receiving) path() string  { return filepath.Join(r.options.Into, r.info.Name) }
func (r *receiving) place() *place { return r.session.client.placed.at(r.path()) }

// leave ends a landing that did not succeed, and says why. What has come is kept in case the same comes again, unless it is of no use or in
// the way.
func (r *receiving) leave(landing *object.Landing, cause error) Arrived {
	reason := reasonOf(cause)
	var err error
	if reason == "damaged" && r.fedBy != "" {
		cause = fmt.Errorf("%w: it came from %s", cause, r.fedBy)
	}
	if reason == "no_room" || reason == "damaged" || reason == "superseded" {
		err = landing.Remove()
	} else {
		err = landing.Keep()
	}
	var known *DeliveryError
	if errors.As(cause, &known) {
		cause = errors.New(known.Detail)
	}
	return r.failed(reason, errors.Join(cause, err))
}
