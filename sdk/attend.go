package sdk

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/probe"
	"github.com/groupcast/groupcast/internal/uplink"
)

// claimTime is how long a delivery to a member waits for the program to receive it.
const claimTime = 5 * time.Second

// attendance is a session's part in deliveries: what the managers tell it to do in them, and what it tells the managers of how they
// stand.
type attendance struct {
	wake   chan struct{}
	prober *probe.Prober

	mu        sync.Mutex
	current   map[string]*groupv1.Assignment
	standing  map[string]func() *groupv1.DeliveryReport
	changed   chan struct{}   // closed when an assignment changes
	kept      burst           // of deliveries that are kept for late members
	receiving bool            // the program receives
	recorded  map[string]bool // deliveries whose receipt the managers have
	unseen    []Arrived       // those of them that the program was not told, as it had broken off
}

func newAttendance(client *Client) *attendance {
	a := &attendance{
		wake: make(chan struct{}, 1), changed: make(chan struct{}),
		current: make(map[string]*groupv1.Assignment), standing: make(map[string]func() *groupv1.DeliveryReport),
		recorded: make(map[string]bool),
	}
	a.prober = probe.New(client.dialer, client.contacts, client.log, a.reportNow)
	return a
}

// uplink returns the attendance as the uplink wants it.
func (a *attendance) uplink() *uplink.Attendance {
	return &uplink.Attendance{
		Reports: a.report, Assign: a.assign, Wake: a.wake,
		Measure: a.prober.Measure, RoundTrips: a.prober.RoundTrips,
	}
}

func (a *attendance) assign(assignments *groupv1.Assignments) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.current
	if assignments.GetComplete() {
		a.current = make(map[string]*groupv1.Assignment)
	}
	for _, assignment := range assignments.GetCurrent() {
		if known[assignment.GetDelivery()] == nil && assignment.GetLate() {
			a.kept.note(time.Now())
		}
		a.current[assignment.GetDelivery()] = assignment
	}
	for _, id := range assignments.GetDropped() {
		delete(a.current, id)
	}
	maps.DeleteFunc(a.recorded, func(id string, _ bool) bool { return a.current[id] == nil })
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *attendance) report() []*groupv1.DeliveryReport {
	a.mu.Lock()
	standing := slices.Collect(maps.Values(a.standing))
	a.mu.Unlock()
	reports := make([]*groupv1.DeliveryReport, len(standing))
	for i, report := range standing {
		reports[i] = report()
	}
	return reports
}

// attend has the managers told how a delivery stands, until forget is called.
func (a *attendance) attend(id string, standing func() *groupv1.DeliveryReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.standing[id] = standing
}

// forget ends the reports of a delivery.
func (a *attendance) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.standing, id)
}

// reportNow reports without waiting for the next heartbeat.
func (a *attendance) reportNow() {
	select {
	case a.wake <- struct{}{}:
	default: // it is due already
	}
}

// assignment returns what is to be done in a delivery, nil if nothing is, and a channel that is closed when that changes.
func (a *attendance) assignment(id string) (*groupv1.Assignment, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current[id], a.changed
}

// await waits until a delivery's assignment is as wanted, and returns it.
func (a *attendance) await(ctx context.Context, id string, wanted func(*groupv1.Assignment) bool) (*groupv1.Assignment, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		assignment, changed := a.assignment(id)
		if wanted(assignment) {
			return assignment, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// while returns a context that ends when a delivery's assignment is not as wanted any more.
func (a *attendance) while(ctx context.Context, id string, wanted func(*groupv1.Assignment) bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = a.await(ctx, id, func(assignment *groupv1.Assignment) bool { return !wanted(assignment) })
	}()
	return ctx, cancel
}

// burst is when assignments came of deliveries that are kept for late members: these come one by one, in any order.
type burst struct{ first, last time.Time }

const (
	// keptQuiet is how long none may have come before the latest of them is taken to be known.
	keptQuiet = 500 * time.Millisecond
	// keptMost is how long a session waits for that.
	keptMost = 5 * time.Second
)

func (b *burst) note(now time.Time) {
	if now.Sub(b.last) > keptQuiet {
		b.first = now
	}
	b.last = now
}

// left returns how much longer to wait for the end of the burst.
func (b *burst) left(now time.Time) time.Duration {
	return min(keptQuiet-now.Sub(b.last), keptMost-now.Sub(b.first))
}

// unsettled returns for how much longer another kept delivery may be assigned.
func (a *attendance) unsettled() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept.left(time.Now())
}

// noteRecorded notes that the managers have the receipt of a delivery: there is nothing more to do.
func (a *attendance) noteRecorded(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recorded[id] = true
}

// leaveUnseen leaves what has arrived to whoever receives next.
func (a *attendance) leaveUnseen(all ...Arrived) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unseen = append(a.unseen, all...)
}

// takeUnseen returns what has arrived and the program was not told of.
func (a *attendance) takeUnseen() []Arrived {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.unseen
	a.unseen = nil
	return all
}

// toReceive returns the deliveries that this member is to receive and that have no receipt yet, the latest first: the senders of
// those wait.
func (a *attendance) toReceive() ([]*groupv1.Assignment, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*groupv1.Assignment
	for _, assignment := range a.current {
		if assignment.GetDuty() == groupv1.Duty_DUTY_RECEIVE && !a.recorded[assignment.GetDelivery()] {
			all = append(all, assignment)
		}
	}
	slices.SortFunc(all, func(a, b *groupv1.Assignment) int {
		return b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime())
	})
	return all, a.changed
}

// forgetGone drops notes of deliveries that are no longer assigned, once there are more notes than assignments.
func forgetGone[V any](noted map[string]V, assigned []*groupv1.Assignment) {
	if len(noted) <= len(assigned) {
		return
	}
	still := make(map[string]bool, len(assigned))
	for _, assignment := range assigned {
		still[assignment.GetDelivery()] = true
	}
	maps.DeleteFunc(noted, func(id string, _ V) bool { return !still[id] })
}

// distancesTime is how long after joining a sender waits for the managers to learn which agents are near. Without that they might have
// an agent far away begin its delivery.
const distancesTime = time.Second

// awaitDistances waits for that.
func (s *Session) awaitDistances(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, s.joined.Add(distancesTime))
	defer cancel()
	select {
	case <-s.attendance.prober.Settled():
	case <-s.done:
	case <-ctx.Done():
	}
}

// claim notes that the program receives, until it calls release. If it does already, release is nil.
func (a *attendance) claim() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.receiving {
		return nil
	}
	a.receiving = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.receiving = false
	}
}

func (a *attendance) isClaimed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.receiving
}

// refuseUnclaimed refuses deliveries that the program does not receive: their senders learn why, instead of waiting.
func (s *Session) refuseUnclaimed(ctx context.Context) {
	unclaimed := make(map[string]time.Time) // since when each has waited for the program
	refused := make(map[string]bool)
	tick := time.NewTicker(claimTime / 5)
	defer tick.Stop()
	for {
		assigned, changed := s.attendance.toReceive()
		forgetGone(unclaimed, assigned)
		forgetGone(refused, assigned)
		for _, assignment := range assigned {
			id := assignment.GetDelivery()
			switch since, known := unclaimed[id]; {
			case !known || s.attendance.isClaimed():
				unclaimed[id] = time.Now()
				delete(refused, id)
			case !assignment.GetEnded() && !refused[id] && time.Since(since) > claimTime:
				refused[id] = true
				s.refuse(ctx, id, "the member is joined, but does not receive", func() bool { return !s.attendance.isClaimed() })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// refuse has a delivery fail here, unless that is not meant any more before a manager knows.
func (s *Session) refuse(ctx context.Context, id, why string, isMeant func() bool) {
	err := s.client.insist(ctx, func() error {
		if !isMeant() {
			return nil
		}
		return s.tell(ctx, id, outcome{reason: "refused", detail: why})
	})
	if err != nil && ctx.Err() == nil {
		s.client.log.Warn("a delivery that nobody receives could not be refused", "delivery", id, "error", err)
	}
}

// outcome is how a delivery ended here. Without a reason it is complete.
type outcome struct {
	reason, detail string
	bytes          uint64
	root           []byte
	datagrams      *groupv1.DatagramCounts
}

// recordPause is how long to wait before sending a receipt again that no manager took.
const recordPause = time.Second

// record tells the managers how a delivery ended here, until they have it or ctx is done.
func (s *Session) record(ctx context.Context, id string, end outcome) error {
	return s.client.insist(ctx, func() error { return s.tell(ctx, id, end) })
}

// tell tells a manager how a delivery ended here.
func (s *Session) tell(ctx context.Context, id string, end outcome) error {
	request := &groupv1.RecordReceiptRequest{
		Delivery: id, Member: s.member.Name, Incarnation: s.member.Incarnation,
		State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE, Bytes: end.bytes, Root: end.root, Datagrams: end.datagrams,
	}
	if end.reason != "" {
		request.State, request.Reason, request.Detail = groupv1.ReceiptState_RECEIPT_STATE_FAILED, end.reason, printable.OneLine(end.detail)
	}
	if _, err := s.client.deliveries.RecordReceipt(ctx, request); err != nil {
		return wrap(err)
	}
	s.attendance.noteRecorded(id)
	return nil
}

// mayPass reports whether it can help to tell a manager again: whether one took it the first time is not known, or what
// kept it from that is temporary. For receipts and seals even NoRoom is: a store is full for a while, or too much comes at once.
func mayPass(err error) bool {
	var reported *Error
	if errors.As(err, &reported) && reported.Reason == "CONTENTION" {
		return true
	}
	return slices.Contains([]Code{Unavailable, TimedOut, Interrupted, NoRoom}, CodeOf(err))
}

// insist tells the managers something until one takes it, one refuses it, ctx is done, or the client is closed.
func (c *Client) insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if c.uplink.Closed() || !mayPass(err) || !pause.For(ctx, recordPause) {
			return err
		}
	}
}
