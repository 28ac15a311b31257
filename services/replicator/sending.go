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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/linkspeed"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/pulse"
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
	isIdle   bool  // it serves nobody: a replica that comes back, or late, is served while others are
}

// isOut reports whether what the others have is not asked of this one.
func (l *leg) isOut() bool { return l.nobody || l.refused || l.failed != nil }

// sending is a replication that is sent, to all its LANs at once.
type sending struct {
	*worker
	job  *job
	key  []byte
	task *replicav1.SendTask
	legs []*leg

	opening sync.Mutex
	opened  send.Opened // the source, once one of the LANs has needed it
	opener  *pulse.Watch
}

func newSending(w *worker, j *job, key []byte, task *replicav1.SendTask) *sending {
	s := &sending{worker: w, job: j, key: key, task: task}
	for _, one := range task.GetLegs() {
		s.legs = append(s.legs, &leg{task: one})
	}
	return s
}

// send sends to all LANs at once, until all have it, or the task is withdrawn.
func (w *worker) send(ctx context.Context, j *job, key []byte, task *replicav1.SendTask) {
	s := newSending(w, j, key, task)
	sending, inner := errgroup.WithContext(ctx)
	for _, l := range s.legs {
		sending.Go(func() error {
			if err := s.sendTo(inner, l); err != nil {
				return &send.BrokenOffError{Err: err}
			}
			return nil
		})
	}
	err := sending.Wait()
	s.close(err != nil)
	if ctx.Err() != nil {
		return // withdrawn
	}
	w.note(true, func() { s.ends(err) })
	if err != nil {
		w.log.Warn("a replication cannot be sent", "replication", j.sending.GetReplication(), "error", err)
	}
}

// close closes the source. After an error its disk may not answer, and nobody waits for it.
func (s *sending) close(failed bool) {
	switch {
	case s.opened == nil:
	case failed:
		go func() { _ = s.opened.Close() }()
	default:
		_ = s.opened.Close()
	}
}

// ends says that nothing is sent any more, and why if it is not done. A network that takes nothing counts as one on which nobody was
// reached: session agents may still get there. If the source cannot be read, nobody can. The caller has the worker's lock.
func (s *sending) ends(err error) {
	nobody, failed := len(s.legs) > 0, error(nil) // of the first LAN whose network failed
	for _, l := range s.legs {
		nobody = nobody && (l.nobody || l.failed != nil)
		failed = cmp.Or(failed, l.failed)
	}
	said := s.job.sending
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
func (s *sending) sendTo(ctx context.Context, l *leg) error {
	defer s.ceases(l)
	j, path := s.job, s.task.GetPath()
	from, err := s.from(ctx)
	if err != nil {
		return opening(path, err)
	}
	defer func() { _ = from.Close() }()
	s.note(true, func() {
		j.sending.Announcing, j.sending.Name, j.sending.Length = true, from.Info().Name, from.Info().Length
	})
	place, err := s.place(s.config.wayOut, l.task.GetLan(), l.task.GetGroup())
	if errors.Is(err, errAway) { // the managers are told what is replicated: session agents may carry it
		s.abandon(l, err)
		return nil
	}
	if err != nil {
		return err
	}
	slow := algo.Pace
	if s.task.GetSlow() == replicav1.SlowReplica_SLOW_REPLICA_DETACH {
		slow = algo.Detach
	}
	result, err := send.Run(ctx, send.Env{
		Log:      s.log.With("replication", j.sending.GetReplication(), "lan", l.task.GetLan()),
		Progress: func(p send.Progress) { s.sent(l, p) },
	}, send.Config{
		Place: place, Key: s.key, NameKey: nameKey(s.task), Unproven: func(name string) bool { return s.isUnproven(j, name) }, Turn: func() send.Turn { return s.turn(j) }, Source: from, Receivers: int(l.task.GetAwaited()), Wait: gathering,
		Ceiling: s.ceiling(place.Interface, s.task.GetMaxBytesPerSecond()), Slow: slow, Patience: silence, Leaves: true,
		Stay: func() time.Time { return s.stays(l) },
	})
	s.updateLeg(func() { l.isIdle = true })
	if errors.Is(err, send.ErrNobody) {
		s.updateLeg(func() { l.nobody = true }) // the managers say so to each replica
		return nil
	}
	if refused := new(send.RefusedError); errors.As(err, &refused) {
		s.updateLeg(func() { l.refused = true })
		return nil // each has told the managers why
	}
	if err != nil {
		err = fmt.Errorf("send %s to LAN %s: %w", path, l.task.GetLan(), err)
	}
	if lost := new(send.NetworkError); errors.As(err, &lost) && ctx.Err() == nil {
		s.abandon(l, err)
		return nil // the others have their own
	}
	if err != nil {
		return err
	}
	s.sent(l, send.Progress{
		Sent: result.Sent, Length: from.Info().Length, Members: result.Members, Root: result.Root, Counts: result.Counts, Offload: result.Offload,
	})
	return s.compare(l.task.GetLan(), result.Root)
}

// from returns the source. It is opened once for all LANs: a tree of a million files is read for minutes, and takes hundreds of megabytes.
func (s *sending) from(ctx context.Context) (send.Opened, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	watch := s.watch(s.job.sending.GetReplication(), s.task.GetPath())
	if s.opened == nil {
		opened, err := s.source(ctx, watch, s.task)
		if err != nil {
			return nil, err
		}
		s.opened, s.opener = opened, watch
		watch = s.watch(s.job.sending.GetReplication(), s.task.GetPath())
	}
	watch.Like(&s.opener.Pulse)
	return send.Await(ctx, watch, s.opened.Beside(pulse.In(ctx, &watch.Pulse))), nil
}

// compare says if a LAN was sent something else than the managers were told: what the first one was sent.
func (s *sending) compare(lan string, root object.Root) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if root == (object.Root{}) || bytes.Equal(s.job.sending.GetRoot(), root[:]) {
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

// nameKey returns the keys by which replicas prove their names: nil if the managers, of an earlier version, know of none.
func nameKey(task *replicav1.SendTask) func(name string) []byte {
	if len(task.GetNameSecret()) == 0 {
		return nil
	}
	return func(name string) []byte { return wire.NameKey(task.GetNameSecret(), name) }
}

// isUnproven reports whether the managers take a replica for one of an earlier version, which proves nothing. They may be wrong: while
// they are upgraded, a replica can have registered with one that did not know of proofs.
func (w *worker) isUnproven(j *job, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(j.unproven, name)
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
// as other legs serve some, for the managers wait for replicas that are away in this one, too.
func (s *sending) stays(l *leg) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.isIdle = true
	if slices.ContainsFunc(s.legs, func(l *leg) bool { return !l.isIdle }) {
		return time.Now().Add(time.Second)
	}
	return s.job.stay[l.task.GetLan()]
}

// sent notes how far a leg is, and what that makes of the whole.
func (s *sending) sent(l *leg, p send.Progress) {
	s.updateLeg(func() {
		s.metrics.sent(l.task.GetLan(), l.progress, p)
		s.metrics.uses("segment", p.Offload.Segment)
		l.progress = p
		l.isIdle = !slices.ContainsFunc(p.Members, func(m send.Receipt) bool { return m.Outcome == algo.Running })
	})
}

// ceases notes that nothing of a leg is on its way any more, however it ended.
func (s *sending) ceases(l *leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := l.progress
	l.progress.Window = 0
	s.metrics.sent(l.task.GetLan(), before, l.progress)
}

// abandon gives up a LAN whose network takes nothing.
func (s *sending) abandon(l *leg, err error) {
	s.log.Warn("a LAN is given up", "replication", s.job.sending.GetReplication(), "lan", l.task.GetLan(), "error", err)
	s.updateLeg(func() { l.failed, l.isIdle = err, true })
}

// updateLeg changes what is known of a leg, which may be all that the whole waited for.
func (s *sending) updateLeg(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.sum()
}

// sum says how far the LANs are that have begun and are not out of it, and what they get as soon as that is known of one:
// the managers confirm replicas by it, and the LANs do not wait for each other. The caller has the lock.
func (s *sending) sum() {
	said := s.job.sending
	sent, root := uint64(math.MaxUint64), object.Root{}
	said.Members = nil
	for _, l := range s.legs {
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
		s.poke()
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
