package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/supply"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// Outgoing is a delivery that a session sends. It goes on until it has ended at all members, it is canceled, or the session is closed.
// The context that it was begun with only bounds its beginning.
type Outgoing struct {
	session *Session
	id      string
	done    chan struct{} // closed when all of it has ended

	mu      sync.Mutex
	latest  Delivery
	told    time.Time        // when the managers told the latest
	stripes *groupv1.Stripes // of the last link; nil before there is one
	trouble error            // why the first agent is not fed
	err     error
	outlet  outlet
	changed chan struct{} // closed when the latest changes

	looking atomic.Bool // whether the source is what it was
}

// Send delivers a file, or a directory as one object, to the members of the session's group that receive. ctx bounds how long it takes to look
// at all of it (see OpenSource) and to begin. The delivery goes on without ctx: Outgoing.Cancel ends it.
func (s *Session) Send(ctx context.Context, path string, options SendOptions) (*Outgoing, error) {
	source, err := OpenSource(ctx, path)
	if err != nil {
		return nil, err
	}
	return s.SendSource(ctx, source, options)
}

// SendSource delivers a source to the members of the session's group that receive. It closes the source once that was sent, or cannot
// be. As with Send, the delivery goes on without ctx.
func (s *Session) SendSource(ctx context.Context, source *Source, options SendOptions) (*Outgoing, error) {
	out, err := s.beginObject(ctx, source.object.Info(), options)
	if err != nil {
		source.Close()
		return nil, err
	}
	out.run(func(ctx context.Context) {
		defer source.Close()
		out.sendObject(ctx, source)
	})
	return out, nil
}

// beginObject has the managers begin a delivery of an object.
func (s *Session) beginObject(ctx context.Context, info object.Info, options SendOptions) (*Outgoing, error) {
	spec, err := options.spec()
	if err != nil {
		return nil, err
	}
	describe(spec, info)
	return s.begin(ctx, spec)
}

// describe fills in what is sent, as far as the options do not say.
func describe(spec *groupv1.DeliverySpec, info object.Info) {
	if spec.Name == "" {
		spec.Name = info.Name
	}
	spec.Kind = groupv1.DeliveryKind_DELIVERY_KIND_FILE
	if info.Kind == object.Directory {
		spec.Kind = groupv1.DeliveryKind_DELIVERY_KIND_DIRECTORY
	}
	spec.Length, spec.Mode, spec.SourceTime = info.Length, uint32(info.Mode.Perm()), timestamppb.New(info.Time)
	spec.Hashed = info.Hashed
}

// begin has the managers begin a delivery.
func (s *Session) begin(ctx context.Context, spec *groupv1.DeliverySpec) (*Outgoing, error) {
	if err := object.CheckName(spec.GetName()); err != nil {
		return nil, &Error{Code: InvalidArgument, Message: err.Error(), cause: err}
	}
	s.awaitDistances(ctx)
	if s.keeping.Err() != nil || ctx.Err() != nil {
		return nil, s.whyDone(ctx)
	}
	request := &groupv1.CreateDeliveryRequest{
		Group: s.member.Group, Sender: s.member.Name, Incarnation: s.member.Incarnation, Spec: spec, RequestId: requestID(),
	}
	var asked peer.Peer
	answer, err := s.client.deliveries.CreateDelivery(ctx, request, grpc.Peer(&asked))
	if err != nil {
		if err = wrap(err); mayHaveBegun(ctx, err, asked) {
			go s.disown(request)
		}
		return nil, err
	}
	return &Outgoing{
		session: s, id: answer.GetDelivery().GetId(), latest: newDelivery(answer.GetDelivery()),
		done: make(chan struct{}), changed: make(chan struct{}),
	}, nil
}

// disownTime is how long it may take to end a delivery that nobody sends.
const disownTime = 10 * time.Second

// disown ends a delivery that the managers may have begun without this side knowing: nobody would send it. It tries once: asked again
// later, they might only then begin it.
func (s *Session) disown(request *groupv1.CreateDeliveryRequest) {
	ctx, cancel := context.WithTimeout(s.keeping, disownTime)
	defer cancel()
	answer, err := s.client.deliveries.CreateDelivery(ctx, request) // it returns the same one, if it was begun
	if err == nil {
		_, err = s.client.deliveries.CancelDelivery(ctx, &groupv1.CancelDeliveryRequest{Delivery: answer.GetDelivery().GetId()})
	}
	if err != nil {
		s.client.log.Debug("what was not sent could not be ended", "name", request.GetSpec().GetName(), "error", err)
	}
}

// run sends until the delivery has ended, or the session is closed.
func (o *Outgoing) run(send func(ctx context.Context)) {
	ctx, stop := context.WithCancel(o.session.keeping)
	var sending sync.WaitGroup
	sending.Go(func() { send(ctx) })
	sending.Go(func() {
		defer stop() // a delivery that has ended needs nothing more
		for delivery, err := range o.session.client.WatchDelivery(ctx, o.id) {
			if err != nil && ctx.Err() != nil {
				err = o.session.whyDone(ctx)
			}
			o.note(delivery, err)
		}
	})
	go func() {
		sending.Wait()
		o.session.attendance.forget(o.id)
		close(o.done)
	}()
}

func (o *Outgoing) note(delivery Delivery, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
	} else {
		o.latest, o.told = delivery, time.Now()
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// ID returns the delivery's id.
func (o *Outgoing) ID() string { return o.id }

// Trouble returns what keeps this side from sending to its agent; nil if nothing does. It goes on trying.
func (o *Outgoing) Trouble() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trouble
}

// noteTrouble notes what keeps this side from sending.
func (o *Outgoing) noteTrouble(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trouble = err
}

// Progress yields the delivery as it is, and again as it changes, until it has ended
// or ctx is done.
func (o *Outgoing) Progress(ctx context.Context) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		for {
			o.mu.Lock()
			latest, err, changed := o.latest, o.err, o.changed
			o.mu.Unlock()
			if err != nil || !yield(latest, nil) || latest.State != DeliveryRunning {
				if err != nil {
					yield(Delivery{}, err)
				}
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(Delivery{}, ctx.Err())
				return
			}
		}
	}
}

// Wait returns the delivery when it has ended. Its State says how, and its Receipts say who has it: an error says that neither is known.
// A member that is gone is waited for a minute, and is ReceiptUnknown then. SendOptions.Deadline bounds all of that.
func (o *Outgoing) Wait(ctx context.Context) (Delivery, error) {
	var last Delivery
	for delivery, err := range o.Progress(ctx) {
		if err != nil {
			return last, err
		}
		last = delivery
	}
	select {
	case <-o.done:
	case <-ctx.Done():
	}
	return last, nil
}

// Cancel ends the delivery.
func (o *Outgoing) Cancel(ctx context.Context) error {
	_, err := o.session.client.CancelDelivery(ctx, o.id)
	return err
}

// sendObject hashes an object and feeds it to the first agent.
func (o *Outgoing) sendObject(ctx context.Context, sent *Source) {
	source := sent.object
	from := supply.NewObject(source)
	defer from.Close()
	var hashing sync.WaitGroup
	hashing.Go(func() {
		root, err := source.Root(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, object.ErrChanged):
			o.fail(ctx, "source_changed", err)
		case err != nil:
			o.fail(ctx, "failed", err)
		default:
			from.Known(root)
			o.seal(ctx, &groupv1.SealDeliveryRequest{Length: source.Info().Length, Root: root[:]})
		}
	})
	o.feed(ctx, objectSupply{from, sent.reading})
	hashing.Wait()
}

// feed feeds the delivery's first agent, whichever that is, until ctx is done.
func (o *Outgoing) feed(ctx context.Context, from supplier) {
	o.keepOffering(ctx, func(report *groupv1.DeliveryReport) {
		report.Bytes, report.Stripes, report.Reads = from.sentUpTo(), o.lastStripes(), from.reads()
		report.Fed = o.outletReport(from.Carried())
	},
		func(linked context.Context, assignment *groupv1.Assignment, child *groupv1.Neighbour, opened func()) error {
			wasOpen := false
			err := o.offer(linked, assignment, child, from, func() {
				wasOpen = true
				opened()
			})
			if wasOpen && err != nil && !link.IsElsewhere(err) {
				return cmp.Or(o.look(ctx, from), err) // a source that has shrunk breaks the link, too
			}
			return err
		})
}

// offering dials the first agent and feeds it. It returns nil when the agent has all, and an error when the link ends before that. It
// calls opened when the link is open.
type offering func(ctx context.Context, assignment *groupv1.Assignment, child *groupv1.Neighbour, opened func()) error

// keepOffering feeds the delivery's first agent, whichever that is, until ctx is done, and has the managers told how that stands.
func (o *Outgoing) keepOffering(ctx context.Context, standing func(*groupv1.DeliveryReport), offer offering) {
	attendance := o.session.attendance
	var lost atomic.Value
	lost.Store("")
	attendance.attend(o.id, func() *groupv1.DeliveryReport {
		assignment, _ := attendance.assignment(o.id)
		report := &groupv1.DeliveryReport{Delivery: o.id, TreeVersion: assignment.GetTreeVersion(), Lost: lost.Load().(string)}
		standing(report)
		return report
	})
	attendance.reportNow()
	wait := newBackoff()
	told := 0 // how often in a row the agent was told from where the stream is kept, so that it asks from there
	for {
		assignment, err := attendance.await(ctx, o.id, func(a *groupv1.Assignment) bool { return len(a.GetChildren()) > 0 })
		if err != nil {
			return
		}
		child := assignment.GetChildren()[0]
		linked, release := attendance.while(ctx, o.id, func(a *groupv1.Assignment) bool {
			return len(a.GetChildren()) > 0 && link.SameNeighbour(a.GetChildren()[0], child)
		})
		opened := false
		err = offer(linked, assignment, child, func() {
			opened = true
			lost.Store("")
			o.noteTrouble(nil)
		})
		if _, isNotKept := link.NotKept(err); isNotKept {
			told++
		} else {
			told = 0
		}
		switch {
		case errors.Is(err, object.ErrChanged):
			release()
			o.fail(ctx, "source_changed", err)
			return
		case link.IsElsewhere(err):
			pause.For(linked, elsewherePause)
		case told > 0 && told <= mostTold:
			pause.For(linked, link.FirstPause)
		case err == nil:
			lost.Store("")
			o.noteTrouble(nil)
			attendance.reportNow()
			pause.For(linked, doneCheck) // it has all, unless it asks again
		case linked.Err() == nil:
			lost.Store(child.GetName())
			if opened { // the error of a link that was not opened says who was dialled
				err = fmt.Errorf("the link to %s/%s ended: %w", child.GetRole(), child.GetName(), err)
			}
			o.noteTrouble(err)
			attendance.reportNow()
			pause.For(linked, wait.next())
		default: // another agent is first now
			wait = newBackoff()
		}
		release()
	}
}

// mostTold is how often an agent is told from where a stream is kept before it counts as one that cannot be fed. Less may be kept by the
// time that it asks again; and an agent of an earlier version does not heed what it is told.
const mostTold = 3

// elsewherePause is how long an agent that asks from elsewhere has to be ready for that.
const elsewherePause = 5 * time.Millisecond

// doneCheck is how often the first agent is asked whether it needs something again.
const doneCheck = 2 * time.Second

// offer dials the first agent and feeds it.
func (o *Outgoing) offer(ctx context.Context, assignment *groupv1.Assignment, child *groupv1.Neighbour, from supplier, opened func()) error {
	bounds := stripesOf(assignment.GetSpec())
	open := func(ctx context.Context, stripe int, join bool) (*link.Conn, relay.Welcome, error) {
		hello := relay.Hello{Offer: true, Join: join, Stripe: uint8(stripe), Stripes: uint8(bounds.Most)}
		conn, welcome, err := dialNeighbour(ctx, o.session, assignment, child, hello, link.Answer{})
		if err == nil {
			o.tune(conn, assignment.GetSpec())
		}
		return conn, welcome, err
	}
	conn, welcome, err := open(ctx, 0, false)
	var refusal *relay.Refusal
	if errors.As(err, &refusal) && refusal.Reason == relay.Done {
		return nil
	}
	if err != nil {
		return err
	}
	opened()
	from.begin(assignment.GetTreeVersion(), welcome.From)
	o.noteOutlet(child.GetName(), from.Carried())
	feeding := link.NewFeeding(ctx, welcome.From, from, link.Options{
		Bounds: bounds, Earlier: int(o.lastStripes().GetCount()), Chosen: o.chosen,
		Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
			conn, _, err := open(ctx, stripe, true)
			return conn, err
		},
	})
	err = feeding.Run(conn)
	sent, landed := feeding.Carried()
	o.session.client.log.Debug("a link was used", "member", o.session.member.Name, "delivery", o.id, "child", child.GetName(), "sent_bytes", sent, "landed_bytes", landed, "end", err)
	return err
}

// outlet is which agent the sender feeds, and what the links to it have carried.
type outlet struct {
	to     string
	begun  uint64            // what all links had carried when this one began
	before map[string]uint64 // what earlier links to an agent have carried
}

// noteOutlet notes that a link to an agent begins, when all links have carried so many bytes.
func (o *Outgoing) noteOutlet(agent string, carried uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.outlet.before == nil {
		o.outlet.before = make(map[string]uint64)
	}
	o.outlet.before[o.outlet.to] += carried - o.outlet.begun
	o.outlet.to, o.outlet.begun = agent, carried
}

// outletReport returns what the links to the agent that is fed have carried: less than the agent has, if it had a part before.
func (o *Outgoing) outletReport(carried uint64) *groupv1.ChildReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.outlet.to == "" {
		return nil
	}
	return &groupv1.ChildReport{Name: o.outlet.to, SentBytes: o.outlet.before[o.outlet.to] + carried - o.outlet.begun}
}

// stripesOf returns how many connections may feed the first agent. A rate that must not be
// exceeded is kept by one alone.
func stripesOf(spec *groupv1.DeliverySpec) parallel.Bounds {
	if spec.GetMaxBytesPerSecond() > 0 {
		return parallel.Bounds{Least: 1, Most: 1}
	}
	return parallel.Bounds{Least: 1, Most: parallel.Most}
}

// chosen notes how many connections do well, for when the link has to be made again.
func (o *Outgoing) chosen(choice parallel.Choice) {
	o.mu.Lock()
	o.stripes = &groupv1.Stripes{Count: uint32(choice.Stripes), Reason: string(choice.Reason), Why: choice.Explain()}
	o.mu.Unlock()
	o.session.client.log.Debug("the link to the first agent has another number of stripes",
		"stripes", choice.Stripes, "buffer", choice.Buffer, "reason", string(choice.Reason), "why", choice.Explain())
}

func (o *Outgoing) lastStripes() *groupv1.Stripes {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stripes
}

// tune sets up a connection as the delivery wants it, as far as the machine can.
func (o *Outgoing) tune(conn *link.Conn, spec *groupv1.DeliverySpec) {
	if name := name[string](spec.GetCongestion()); name != "" {
		if err := conn.SetCongestion(name); err != nil {
			o.session.client.log.Warn("the congestion control is not there; the machine's default is used", "congestion", name, "error", err)
		}
	}
	if rate := spec.GetMaxBytesPerSecond(); rate > 0 {
		_ = conn.SetMaxRate(rate)
	}
}

// dialNeighbour opens a link to one of a neighbour's addresses, or a further stripe of it: then the capability that the link began with may
// have been renewed long ago. A receiver sends its first answer along, which says how much it takes.
func dialNeighbour(ctx context.Context, session *Session, assignment *groupv1.Assignment, to *groupv1.Neighbour, hello relay.Hello, first link.Answer) (*link.Conn, relay.Welcome, error) {
	if latest, _ := session.attendance.assignment(assignment.GetDelivery()); len(latest.GetCapability()) > 0 {
		assignment = latest
	}
	id, err := parseDeliveryID(assignment.GetDelivery())
	if err != nil {
		return nil, relay.Welcome{}, err
	}
	hello.Stripes, hello.Delivery, hello.TreeVersion = max(1, hello.Stripes), id, assignment.GetTreeVersion()
	hello.Capability = assignment.GetCapability()
	// Datagrams are sealed whatever the data plane is: with a secret that the link's TLS gives.
	hello.Plaintext = !hello.Datagrams && assignment.GetSpec().GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT
	failed := fmt.Errorf("%s has no address", to.GetName())
	for _, address := range to.GetAddresses() {
		conn, welcome, err := session.client.contacts.Ask(ctx, address, identity.Named(to), hello, first)
		if err == nil {
			return conn, welcome, nil
		}
		failed = err
	}
	return nil, relay.Welcome{}, failed
}
