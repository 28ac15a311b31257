package replicator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/linkspeed"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// gathering is how long replicas are waited for: those that are not there by then hear
// nothing, and the others do not wait for them.
const gathering = 5 * time.Second

// leg is the part of a replication that goes to one LAN. Other LANs go on without it.
type leg struct {
	task     *replicav1.Leg
	progress send.Progress
	nobody   bool
	refused  bool  // by all
	failed   error // what its network did not carry
	isIdle   bool  // it serves nobody: who comes back, or late, is served while others are
}

// isOut reports whether what the others have is not asked of this one.
func (l *leg) isOut() bool { return l.nobody || l.refused || l.failed != nil }

// send sends to all LANs at once, until all have it, or the task is withdrawn.
func (w *worker) send(ctx context.Context, j *job, key []byte, task *replicav1.SendTask) {
	legs := make([]*leg, len(task.GetLegs()))
	sending, inner := errgroup.WithContext(ctx)
	for i, one := range task.GetLegs() {
		legs[i] = &leg{task: one}
	}
	for i := range legs {
		sending.Go(func() error {
			if err := w.sendTo(inner, j, legs, i, key, task); err != nil {
				return &send.BrokenOffError{Err: err}
			}
			return nil
		})
	}
	err := sending.Wait()
	if ctx.Err() != nil {
		return // withdrawn
	}
	w.note(true, func() { j.ends(legs, err) })
	if err != nil {
		w.log.Warn("a replication cannot be sent", "replication", j.sending.GetReplication(), "error", err)
	}
}

// ends says that nothing is sent any more, and why if it is not done. A network that takes nothing is none that reaches somebody: session
// agents may go another way, which a source that cannot be read has not. The caller has the worker's lock.
func (j *job) ends(legs []*leg, err error) {
	nobody, failed := len(legs) > 0, error(nil) // of the first LAN whose network failed
	for _, l := range legs {
		nobody = nobody && (l.nobody || l.failed != nil)
		failed = cmp.Or(failed, l.failed)
	}
	said := j.sending
	said.Ended = true
	switch {
	case err != nil:
		said.Reason, said.Detail = "source_failed", printable.OneLine(err.Error())
	case nobody:
		said.Reason = "no_multicast"
		if failed != nil {
			said.Detail = printable.OneLine(failed.Error())
		}
	}
}

// sendTo sends to one LAN.
func (w *worker) sendTo(ctx context.Context, j *job, legs []*leg, i int, key []byte, task *replicav1.SendTask) error {
	l := legs[i]
	from, err := w.source(ctx, j.sending.GetReplication(), task)
	if err != nil {
		return opening(task.GetPath(), err)
	}
	defer func() { _ = from.Close() }()
	w.note(true, func() {
		j.sending.Announcing, j.sending.Name, j.sending.Length = true, from.Info().Name, from.Info().Length
	})
	place, err := w.place(w.config.wayOut, l.task.GetLan(), l.task.GetGroup())
	if errors.Is(err, errAway) { // what is replicated is told: session agents may carry it
		w.leave(j, legs, i, err)
		return nil
	}
	if err != nil {
		return err
	}
	slow := algo.Pace
	if task.GetSlow() == replicav1.SlowReplica_SLOW_REPLICA_DETACH {
		slow = algo.Detach
	}
	result, err := send.Run(ctx, send.Env{
		Log:      w.log.With("replication", j.sending.GetReplication(), "lan", l.task.GetLan()),
		Progress: func(p send.Progress) { w.sent(j, legs, i, p) },
	}, send.Config{
		Place: place, Key: key, NameKey: func(name string) []byte { return w.nameKey(j, task, name) }, Turn: func() send.Turn { return w.turn(j) }, Source: from, Receivers: int(l.task.GetAwaited()), Wait: gathering,
		Ceiling: w.ceiling(place.Interface, task.GetMaxBytesPerSecond()), Slow: slow, Patience: silence, Leaves: true,
		Stay: func() time.Time { return w.stays(j, legs, i) },
	})
	w.giveUp(j, legs, func() { l.isIdle = true })
	if errors.Is(err, send.ErrNobody) {
		w.giveUp(j, legs, func() { l.nobody = true }) // the managers say so to each replica
		return nil
	}
	if refused := new(send.RefusedError); errors.As(err, &refused) {
		w.giveUp(j, legs, func() { l.refused = true })
		return nil // each has told the managers why
	}
	if err != nil {
		err = fmt.Errorf("send %s to LAN %s: %w", task.GetPath(), l.task.GetLan(), err)
	}
	if lost := new(send.NetworkError); errors.As(err, &lost) && ctx.Err() == nil {
		w.leave(j, legs, i, err)
		return nil // the others have their own
	}
	if err != nil {
		return err
	}
	w.sent(j, legs, i, send.Progress{
		Sent: result.Sent, Length: from.Info().Length, Members: result.Members, Root: result.Root, Counts: result.Counts, Offload: result.Offload,
	})
	return w.compare(j, l.task.GetLan(), result.Root)
}

// compare says if a LAN was sent something else than the managers were told: what the first one was sent.
func (w *worker) compare(j *job, lan string, root object.Root) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if root == (object.Root{}) || bytes.Equal(j.sending.GetRoot(), root[:]) {
		return nil
	}
	return fmt.Errorf("the source changed: LAN %s was sent something else than another LAN", lan)
}

// opening says that a path could not be opened, and names it once.
func opening(path string, err error) error {
	if at := new(fs.PathError); errors.As(err, &at) && at.Path == path && at.Error() == err.Error() {
		err = at.Err
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// nameKey returns the key by which a replica has to prove its name: nil if it cannot, for it is of an earlier version, or the
// managers are.
func (w *worker) nameKey(j *job, task *replicav1.SendTask, name string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(task.GetNameSecret()) == 0 || slices.Contains(j.unproven, name) {
		return nil
	}
	return wire.NameKey(task.GetNameSecret(), name)
}

// turn returns what the managers have changed last for a job.
func (w *worker) turn(j *job) send.Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return j.turn
}

// expect notes to which LANs replicas were added: their senders stay until those have come. The caller
// has the lock.
func (j *job) expect(task *replicav1.SendTask) {
	j.unproven = task.GetUnproven()
	for _, leg := range task.GetLegs() {
		if known, is := j.replicas[leg.GetLan()]; is && leg.GetReplicas() > known {
			j.stay[leg.GetLan()] = time.Now().Add(gathering)
		}
		j.replicas[leg.GetLan()] = leg.GetReplicas()
	}
}

// stays returns until when a leg does not end although it serves nobody: while replicas may come that were added there, and as long
// as others are served, for the managers wait for who is away there, too.
func (w *worker) stays(j *job, legs []*leg, i int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	legs[i].isIdle = true
	if slices.ContainsFunc(legs, func(l *leg) bool { return !l.isIdle }) {
		return time.Now().Add(time.Second)
	}
	return j.stay[legs[i].task.GetLan()]
}

// sent notes how far a leg is, and what that makes of the whole.
func (w *worker) sent(j *job, legs []*leg, i int, p send.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.metrics.sent(legs[i].task.GetLan(), legs[i].progress, p)
	w.metrics.uses("segment", p.Offload.Segment)
	legs[i].progress = p
	legs[i].isIdle = !slices.ContainsFunc(p.Members, func(m send.Receipt) bool { return m.Outcome == algo.Running })
	w.sum(j, legs)
}

// leave gives up a LAN whose network takes nothing.
func (w *worker) leave(j *job, legs []*leg, i int, err error) {
	l := legs[i]
	w.log.Warn("a LAN is given up", "replication", j.sending.GetReplication(), "lan", l.task.GetLan(), "error", err)
	w.giveUp(j, legs, func() { l.failed, l.isIdle = err, true })
}

// giveUp notes that one LAN is out of it, which may be all that the whole waited for.
func (w *worker) giveUp(j *job, legs []*leg, out func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out()
	w.sum(j, legs)
}

// sum says how far the LANs are that have begun and are not out of it, and what they get as soon as that is known of one:
// the managers confirm replicas by it, and the LANs do not wait for each other. The caller has the lock.
func (w *worker) sum(j *job, legs []*leg) {
	said := j.sending
	sent, root := uint64(math.MaxUint64), object.Root{}
	said.Members = nil
	for _, l := range legs {
		if l.isOut() {
			continue
		}
		if l.progress.Sent > 0 {
			sent = min(sent, l.progress.Sent)
		}
		root = cmp.Or(root, l.progress.Root)
		for _, member := range l.progress.Members {
			said.Members = append(said.Members, &replicav1.SendMember{
				Name: member.Name, Lost: member.Lost, Detached: member.Detached, Reason: givenUp(member),
			})
		}
	}
	if sent != math.MaxUint64 {
		said.SentBytes = sent
	}
	if len(said.GetRoot()) == 0 && root != (object.Root{}) {
		said.Root = root[:]
		w.poke()
	}
}

// givenUp says why the sender serves a replica no more.
func givenUp(member send.Receipt) string {
	if member.Outcome == algo.Unknown {
		return "silent"
	}
	return ""
}

// ceiling is the most bytes per second: the least of what was asked for, what is configured,
// and what the interface can.
func (w *worker) ceiling(device string, asked uint64) float64 {
	most := linkspeed.Presumed
	if stated := linkspeed.Stated(linkspeed.Interfaces, device); stated > 0 {
		most = float64(stated)
	}
	for _, bound := range []float64{float64(asked), float64(w.config.Rate)} {
		if bound > 0 {
			most = min(most, bound)
		}
	}
	return most
}
