package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// earlyTime bounds each part of connecting to a parent before any child has asked: dialling it, and then waiting for a
// child. Both take one of the few places that there are for this, earlyMost.
const earlyTime = time.Second

// keepFed keeps a link to the parent while there is something to get from it.
func (d *delivery) keepFed() {
	wait := link.FirstPause
	for d.ctx.Err() == nil {
		parent, changed := d.dialledParent()
		if parent == nil {
			select {
			case <-changed:
			case <-d.ctx.Done():
			}
			continue
		}
		if err := d.askParent(parent); err == nil {
			d.hub.renewContact(parent)
			wait = link.FirstPause
			continue
		}
		// A new parent is asked at once; the old one, after a while.
		timer := time.NewTimer(wait)
		for again := false; !again; {
			now, changed := d.dialledParent()
			if !link.SameNeighbour(now, parent) {
				wait = link.FirstPause / 2
				break
			}
			select {
			case <-timer.C:
				again = true
			case <-changed:
			case <-d.ctx.Done():
				again = true
			}
		}
		timer.Stop()
		wait = min(2*wait, link.LongPause)
	}
}

// dialledParent returns the parent to dial, if there is one, and something to get from it now or soon.
func (d *delivery) dialledParent() (*groupv1.Neighbour, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	parent := d.assignment.GetParent()
	if !d.wanted && !d.early || len(parent.GetAddresses()) == 0 || d.answer().Done || d.gone || d.begin != nil || d.isOver() {
		parent = nil
	}
	return parent, d.changed
}

// askParent dials a parent and takes what it sends until that ends.
func (d *delivery) askParent(parent *groupv1.Neighbour) error {
	if why := d.unfit(); why != nil {
		return why
	}
	ctx, release, err := d.inlet.take(d.ctx)
	if err != nil {
		return err
	}
	defer release()
	contact := d.connectEarly(ctx, parent)
	// From here on a change of parents ends this link; before, the disk may have taken its time.
	switch now, _ := d.dialledParent(); {
	case now == nil:
		d.hub.Contacts.Keep(contact)
		return nil
	case !link.SameNeighbour(now, parent):
		d.hub.Contacts.Keep(contact)
		return errMoved
	}
	conn, from, err := d.dial(ctx, parent, contact, wire.Hello{})
	question := d.isBehind(from)
	if err == nil {
		d.update(func() { d.lost = "" })
		err = d.take(ctx, conn, parent.GetName(), from, link.Options{
			Bounds: d.hub.Stripes,
			Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
				conn, _, err := d.dial(ctx, parent, nil, wire.Hello{Stripe: uint8(stripe), Join: true})
				return conn, err
			},
		})
	}
	if d.forgo(err, from, question) || errors.Is(context.Cause(ctx), link.ErrElsewhere) {
		return nil
	}
	if err != nil && ctx.Err() == nil {
		if !isOwn(err) { // otherwise it is this agent that cannot go on
			d.log.Info("the parent is lost", "parent", parent.GetName(), "error", err)
			d.lose(parent)
		}
		d.hub.Report()
	}
	return err
}

// lose has it reported that a parent cannot be reached, unless the tree has another one here, or none, meanwhile.
func (d *delivery) lose(parent *groupv1.Neighbour) {
	d.update(func() {
		if link.SameNeighbour(d.assignment.GetParent(), parent) {
			d.lost = parent.GetName()
		}
	})
}

// errMoved says that a parent was not asked, because it is not the parent any more.
var errMoved = errors.New("this is not the parent any more")

// renewContact makes a contact to a parent for the next delivery: this one may have used up the contact that there was.
func (h *Hub) renewContact(parent *groupv1.Neighbour) {
	if peer := identity.Named(parent); peer.Role == identity.Agent {
		h.links.Go(func() { h.Contacts.Renew(h.running, parent.GetAddresses()[0], peer) })
	}
}

// connectEarly connects to the parent while children are still on their way here: in a deep tree agents do so at once,
// and not one after the other. What is asked for, and from where, depends on the children.
func (d *delivery) connectEarly(ctx context.Context, parent *groupv1.Neighbour) *link.Contact {
	d.mu.Lock()
	early := d.early && !d.wanted
	d.early = false
	d.mu.Unlock()
	if !early || !d.hub.early.TryAcquire(1) {
		return nil
	}
	defer d.hub.early.Release(1)
	soon, cancel := context.WithTimeout(ctx, earlyTime)
	defer cancel()
	contact, err := d.hub.Contacts.Connect(soon, parent.GetAddresses()[0], identity.Named(parent))
	if err != nil {
		return nil // if it still fails when it is needed, that is early enough to say so
	}
	timer := time.NewTimer(earlyTime)
	defer timer.Stop()
	for {
		d.mu.Lock()
		wanted, changed := d.wanted, d.changed
		d.mu.Unlock()
		if wanted {
			return contact
		}
		select {
		case <-changed:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		d.hub.Contacts.Keep(contact)
		return nil
	}
}

// dial opens a link to a parent, or one more stripe of the link that there is. A contact, if any, takes the place of the first address.
func (d *delivery) dial(ctx context.Context, parent *groupv1.Neighbour, contact *link.Contact, hello wire.Hello) (*link.Conn, uint64, error) {
	var first link.Answer
	d.mu.Lock()
	hello.Stripes, hello.Delivery = uint8(d.hub.Stripes.Most), d.id
	hello.TreeVersion, hello.From = d.assignment.GetTreeVersion(), d.account.Offset()
	hello.Plaintext = d.assignment.GetSpec().GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT
	hello.Capability = d.assignment.GetCapability()
	if !hello.Join {
		hello.From, first, d.asking = d.from(), d.answer(), true
		if hello.From < d.account.Offset() {
			first = d.question(hello.From)
		}
	}
	d.mu.Unlock()
	var failed error
	for i, address := range parent.GetAddresses() {
		var conn *link.Conn
		var welcome wire.Welcome
		var err error
		if contact != nil && i == 0 {
			conn, welcome, err = contact.Ask(ctx, hello, first)
		} else {
			conn, welcome, err = d.hub.Contacts.Ask(ctx, address, identity.Named(parent), hello, first)
		}
		if err == nil && welcome.From != hello.From {
			conn.Close()
			err = fmt.Errorf("%w: welcome from offset %d: want %d", wire.ErrProtocol, welcome.From, hello.From)
		}
		if err == nil {
			return conn, hello.From, nil
		}
		failed = errors.Join(failed, err)
	}
	if !hello.Join {
		d.update(func() { d.asking = false })
	}
	return nil, hello.From, failed
}

// takeOffer takes what the sender offers.
func (d *delivery) takeOffer(asked *link.Asked, name string) {
	if asked.Join {
		d.takeStripe(asked)
		return
	}
	d.inlet.end() // the sender has come again
	waiting, cancel := context.WithTimeout(d.ctx, assignPatience)
	defer cancel()
	ctx, release, err := d.inlet.take(waiting)
	if err != nil {
		asked.Refuse(wire.Stopping, "busy with an earlier link")
		return
	}
	d.mu.Lock()
	from, version, done := d.from(), d.assignment.GetTreeVersion(), d.answer().Done
	d.mu.Unlock()
	if done {
		release()
		asked.Refuse(wire.Done, "")
		return
	}
	if why := d.unfit(); why != nil {
		release()
		asked.Refuse(why.reason, why.text)
		return
	}
	defer release()
	question := d.isBehind(from)
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: version, From: from})
	if err == nil {
		err = d.take(ctx, conn, name, from, link.Options{Bounds: d.hub.Stripes.Within(int(asked.Stripes))})
	}
	if d.forgo(err, from, question) {
		return
	}
	if err != nil && ctx.Err() == nil {
		d.log.Info("the link from the sender ended", "error", err)
		d.hub.Report()
	}
}

// takeStripe takes what the sender offers over one more stripe of the link that there is.
func (d *delivery) takeStripe(asked *link.Asked) {
	d.mu.Lock()
	there := d.intake
	d.mu.Unlock()
	if there == nil || !there.Admits(int(asked.Stripe)) {
		asked.Refuse(wire.Unknown, noLink)
		return
	}
	if conn, err := asked.Welcome(wire.Welcome{TreeVersion: d.version(), From: asked.From}); err == nil {
		_ = there.Join(conn) // the link tells, if it ends
	}
}

// take takes bytes into the cache.
func (d *delivery) take(ctx context.Context, conn *link.Conn, parent string, from uint64, options link.Options) error {
	s := &store{delivery: d}
	if d.isBehind(from) {
		s.asksFrom = &from
	}
	s.full = func() bool { return d.makeRoom(ctx) }
	taking := link.NewTaking(ctx, from, s, options)
	d.update(func() { d.intake, d.asking = taking, false })
	err := taking.Run(conn)
	d.log.Debug("a link was used", "parent", parent, "received_bytes", taking.Carried(), "end", err)
	d.noteLink(err, from)
	return err
}

// store puts what a parent sends into the cache.
type store struct {
	*delivery
	full     func() bool // makes room on the disk
	asksFrom *uint64     // from where the link asks whether there is anything of a stream; nil if it takes what comes next
}

func (s *store) Section(offset uint64) (link.Place, int64, error) {
	if s.asksFrom != nil {
		s.beginAnswered(*s.asksFrom)
		return link.Place{}, 0, errAnswered
	}
	file, at, room, err := s.entry.Section(offset)
	if lacks(err) && s.hub.giveRoom() { // the link cannot wait for children here
		file, at, room, err = s.entry.Section(offset)
	}
	if err != nil {
		return link.Place{}, 0, &link.StorageError{Err: err}
	}
	return link.Place{File: file, At: int64(at), Full: s.full}, int64(room), nil
}

func (s *store) Landed(upTo uint64) error {
	s.update(func() {
		s.hub.Metrics.received.Add(float64(upTo - s.account.Offset()))
		s.came += upTo - s.account.Offset()
		s.account.Arrived(upTo)
	})
	return nil
}

func (s *store) End(end link.End) error {
	if s.asksFrom != nil {
		return fmt.Errorf("%w: the stream ends at %d, and there was more", wire.ErrProtocol, end.Length)
	}
	s.update(func() {
		s.end, s.known = &end, &end
		s.account.End()
	})
	s.hub.Report()
	return nil
}

func (s *store) Answer() link.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asksFrom != nil {
		return s.question(*s.asksFrom)
	}
	return s.answer()
}

// All functions below are called with d.mu held.

// isOver reports whether the delivery ended before it was done: nobody needs the rest.
func (d *delivery) isOver() bool { return d.assignment.GetEnded() && d.assignment.GetReason() != "" }

// answer returns what the parent is to know.
func (d *delivery) answer() link.Answer {
	answer := link.Answer{
		Ack: d.account.Ack(), Level: wire.Relayed, Credit: d.account.Credit(),
		TreeVersion: d.assignment.GetTreeVersion(), Changed: d.changed,
	}
	switch {
	case d.isEndToEnd():
		answer.Level = wire.Received
	case d.isStream():
		answer.Below = d.account.Below()
	}
	_, asks := d.asks()
	answer.Done = d.end != nil && answer.Ack == d.end.Length && !asks
	return answer
}
