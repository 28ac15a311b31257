package relay

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	algo "github.com/groupcast/groupcast/internal/algo/relay"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// childName returns the name by which a child is known here: a member's is its own, and an agent's has its role, as the tree may have both
// an agent and a member of one name here.
func childName(id identity.ID) string {
	if id.Role == identity.Agent {
		return id.String()
	}
	return id.Name
}

// childID returns who has such a name.
func childID(name string) identity.ID {
	if agent, is := strings.CutPrefix(name, string(identity.Agent)+"/"); is {
		return identity.ID{Role: identity.Agent, Name: agent}
	}
	return identity.ID{Role: identity.Member, Name: name}
}

// child is a neighbour that is fed, over however many links one after the other. It belongs
// to its delivery, whose mutex guards it.
type child struct {
	link    *link.Feeding    // nil while it is not connected
	reads   []uint64         // offsets from which bytes are being read from the file
	stripes *groupv1.Stripes // of its latest link; nil if that may have but one
	sent    uint64           // bytes, over all links
	count   uint64           // names the count of them
	sentAt  time.Time        // the last of them
	acked   uint64
	givenUp fault // why no link of it is fed any more, whatever the tree says
	// dismissed has its link end, because the tree no longer has the child, or because it was given up. If the tree has it
	// again, it comes with another link, and says where it is.
	dismissed bool
	// hangs says that at the last look it was not fed any more, and had not taken what was under way to it.
	hangs bool
}

// fault is why a child is given up in this delivery. It has one at most: a child that is given up is not expected any more, and
// nothing that it says counts. A detached child is not given up: it waits, as the account knows, until the others are done.
type fault uint8

const (
	faultless fault = iota
	tooSlow         // by the rule; forgotten when the tree no longer has the child here
	lied            // it acknowledged what it was not sent
)

// newCount names a count of what is sent to a child. Managers add to what they know of a link what is counted anew: no other count of the child
// may have the name, not of an agent that ran before either.
func newCount() uint64 { return uint64(time.Now().UnixNano()) }

func (c *child) isGivenUp() bool { return c.givenUp != faultless }

// farewell returns what a child that is given up is told.
func (c *child) farewell() link.Bye {
	if c.givenUp == lied {
		return link.Bye{Reason: wire.Protocol, Text: "given up: it acknowledged what it was not sent"}
	}
	return link.Bye{Reason: wire.Slow, Text: "given up as too slow"}
}

func (c *child) close() {
	if c.link != nil {
		c.link.Close()
	}
}

// feed feeds a child from where it asks.
func (d *delivery) feed(asked *link.Asked, name string) {
	if asked.Join {
		d.feedStripe(asked, name)
		return
	}
	if farewell := d.unwelcome(asked, name); farewell != nil {
		asked.Part(*farewell)
		return
	}
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: d.version(), From: asked.From})
	if err != nil {
		d.log.Info("a child was not welcomed", "child", name, "error", err)
		return
	}
	d.tune(conn)
	supply := d.attach(name, asked)
	feeding := supply.child.link
	err = feeding.Run(conn)
	d.detach(supply)
	sent, landed := feeding.Carried()
	d.log.Debug("a link was used", "child", name, "sent_bytes", sent, "landed_bytes", landed, "end", err)
	switch {
	case errors.Is(err, algo.ErrNotSent), errors.Is(err, wire.ErrProtocol):
		d.hub.Metrics.refused.WithLabelValues(wire.Protocol.String()).Inc()
		d.log.Warn("a child violates the protocol", "child", name, "error", err)
	case err != nil && d.ctx.Err() == nil:
		d.log.Info("the link to a child ended", "child", name, "error", err)
	}
}

// feedStripe feeds a child over one more stripe of the link that it has.
func (d *delivery) feedStripe(asked *link.Asked, name string) {
	d.mu.Lock()
	var there *link.Feeding
	if c := d.children[name]; c != nil {
		there = c.link
	}
	d.mu.Unlock()
	if there == nil || !there.Admits(int(asked.Stripe)) {
		asked.Refuse(wire.Unknown, noLink)
		return
	}
	if conn, err := asked.Welcome(wire.Welcome{TreeVersion: d.version(), From: asked.From}); err == nil {
		d.tune(conn)
		_ = there.Join(conn) // the link tells, if it ends
	}
}

// noLink is what a stripe is told that comes too late for its link, or is one too many.
const noLink = "there is no link to join"

// unwelcome says why a child is not fed, if it is not.
func (d *delivery) unwelcome(asked *link.Asked, name string) *link.Bye {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.children[name]
	switch {
	case d.gone || d.isOver():
		return &link.Bye{Reason: wire.Canceled, Text: "the delivery has ended"}
	case c != nil && c.isGivenUp():
		farewell := c.farewell()
		return &farewell
	case d.isPast(asked.From):
		return &link.Bye{Reason: wire.Stopping, Text: "it is no longer kept"}
	case d.isGone(asked.From):
		return d.notKept()
	case asked.From > d.length(): // it claims more than there is, and others must not be fed from there
		return &link.Bye{Reason: wire.Protocol, Text: "asks beyond the end"}
	}
	return nil
}

// attach makes a link the child's, in place of an earlier one.
func (d *delivery) attach(name string, asked *link.Asked) *supply {
	from := asked.From
	d.mu.Lock()
	for d.children[name] != nil && d.children[name].link != nil { // the earlier link has to be gone before its place is taken
		d.children[name].close()
		d.quiet.Wait()
	}
	c := d.children[name]
	if c == nil {
		c = &child{count: newCount()}
		d.children[name] = c
	}
	c.dismissed = !d.account.Expects(name)
	supply := &supply{d, c, name}
	c.link = link.NewFeeding(d.ctx, from, supply, link.Options{
		Bounds: d.hub.Stripes.Within(int(asked.Stripes)), Earlier: int(c.stripes.GetCount()),
		Chosen: func(choice parallel.Choice) { d.chosen(supply, choice) }, Granted: d.whenAsked(name),
	})
	d.mu.Unlock()
	d.update(func() {
		if c.dismissed {
			return // the tree has changed: its supply tells it
		}
		served := d.account.Attach(name, from, time.Now())
		d.wanted = d.wanted || from <= d.account.Offset() || d.account.Gathered()
		if served {
			if begin, ahead := d.account.Ahead(d.whileOpening()); ahead {
				d.begin = &begin
			}
			return
		}
		if d.beginsFor(name) {
			d.beginFrom(from)
			return
		}
		d.account.Park(name)
	})
	return supply
}

// chosen notes how many stripes a child's link is to have.
func (d *delivery) chosen(s *supply, choice parallel.Choice) {
	d.mu.Lock()
	s.child.stripes = &groupv1.Stripes{Count: uint32(choice.Stripes), Reason: string(choice.Reason), Why: choice.Explain()}
	d.mu.Unlock()
	d.hub.Metrics.tuned.WithLabelValues(string(choice.Reason)).Inc()
	level := slog.LevelInfo
	if choice.Alone() { // as most are
		level = slog.LevelDebug
	}
	d.log.Log(d.ctx, level, "the link to a child has another number of stripes",
		"child", s.name, "stripes", choice.Stripes, "buffer", choice.Buffer, "reason", string(choice.Reason), "why", choice.Explain())
}

func (d *delivery) detach(s *supply) {
	d.update(func() {
		s.child.link = nil
		d.part(func() { d.account.Detach(s.name) })
		d.quiet.Broadcast()
	})
}

// congestions are the kernel's names.
var congestions = map[groupv1.Congestion]string{
	groupv1.Congestion_CONGESTION_CUBIC: "cubic",
	groupv1.Congestion_CONGESTION_BBR:   "bbr",
	groupv1.Congestion_CONGESTION_RENO:  "reno",
}

// tune chooses the congestion control that the delivery wants.
func (d *delivery) tune(conn *link.Conn) {
	d.mu.Lock()
	name := congestions[d.assignment.GetSpec().GetCongestion()]
	d.mu.Unlock()
	if name == "" {
		return
	}
	if err := conn.SetCongestion(name); err != nil {
		d.log.Warn("the congestion control is not there; the machine's default is used", "congestion", name, "error", err)
	}
}

// supply feeds one link of a child.
type supply struct {
	*delivery
	child *child
	name  string
}

// Next returns what is in the cache for the child.
func (s *supply) Next(offset, most uint64) (link.Portion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		return link.Portion{}, &link.Bye{Reason: wire.Stopping, Text: "the delivery is no longer here"}
	case s.isOver():
		return link.Portion{}, &link.Bye{Reason: wire.Canceled, Text: "the delivery has ended"}
	case s.child.isGivenUp():
		farewell := s.child.farewell()
		return link.Portion{}, &farewell
	case s.child.dismissed:
		return link.Portion{}, &link.Bye{Reason: wire.Moved, Text: "it has another parent now"}
	case s.isGone(offset):
		return link.Portion{}, s.notKept()
	}
	if most > 0 {
		s.account.Ready(s.name)
	}
	portion := link.Portion{Changed: s.changed, TreeVersion: s.assignment.GetTreeVersion()}
	arrived := s.account.Offset()
	switch {
	case s.known != nil && offset == s.known.Length: // it has all, and waits for nobody for whom that comes again
		portion.End = s.known
	case s.begin != nil || !s.account.Serves(s.name):
	case offset < arrived && most > 0:
		file, at, there, err := s.entry.At(offset)
		if err != nil {
			return portion, err
		}
		portion.File, portion.At, portion.Length = file, at, min(most, arrived-offset, there)
		s.child.reads = append(s.child.reads, offset)
		s.account.Sent(s.name, offset+portion.Length)
	}
	return portion, nil
}

// Sent notes that a portion was read.
func (s *supply) Sent(offset uint64, portion link.Portion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child.sent, s.child.sentAt = s.child.sent+portion.Length, time.Now()
	s.hub.Metrics.sent.Add(float64(portion.Length))
	read := slices.Index(s.child.reads, offset)
	s.child.reads = slices.Delete(s.child.reads, read, read+1)
	s.quiet.Broadcast()
}

// Acked notes what the child acknowledges.
func (s *supply) Acked(upTo uint64, level wire.Level) (err error) {
	s.acknowledge(func() {
		if s.child.dismissed {
			return
		}
		if s.tellsBelow(level) {
			s.account.Passed(s.name, upTo)
			return
		}
		if err = s.account.Acked(s.name, upTo); err == nil {
			s.child.acked = max(s.child.acked, upTo)
		} else {
			s.giveUpLiar(s.child)
		}
	})
	return err
}

// All functions below are called with d.mu held.

// tellsBelow reports whether the child acknowledges what the members below it have, and not what it has itself.
func (s *supply) tellsBelow(level wire.Level) bool {
	return level != wire.Relayed && !s.isEndToEnd() && childID(s.name).Role == identity.Agent
}

// isChild reports whether the tree has somebody as a child here.
func (d *delivery) isChild(name string) bool {
	return slices.ContainsFunc(d.assignment.GetChildren(), func(n *groupv1.Neighbour) bool { return childName(identity.Named(n)) == name })
}

// forget forgets a child that the tree no longer has, if it has no link and a report just took along what its links carried; one that is lost takes that with it. If it comes back, it
// says where it is. That it lied is not forgotten. Of a delivery that is sealed or has ended nobody is forgotten: members that have all are no
// longer children here, but a manager that begins to lead is to hear of their links, too; and such a delivery does not go on for ever.
func (d *delivery) forget(name string) {
	isPassing := !d.assignment.GetSealed() && !d.assignment.GetEnded()
	if c := d.children[name]; isPassing && c.link == nil && c.givenUp != lied && !d.isChild(name) {
		delete(d.children, name)
	}
}

// isPast reports whether what follows an offset can no longer be had: the delivery has ended, so that the
// sender brings nothing, and the cache does not hold it.
func (d *delivery) isPast(from uint64) bool {
	if d.ended.IsZero() || d.intake != nil || len(d.assignment.GetParent().GetAddresses()) > 0 {
		return false
	}
	return d.end == nil || from < d.account.Discarded()
}

// beginsFor reports whether the delivery begins again at once for a child for which the cache has nothing. A child that was
// detached before has its turn when the others are done. If nothing has come yet since the delivery began where other children said
// that they are, nothing is lost by beginning earlier: nobody here knows how far a stream is, and what they said may be wrong. A
// stream may never end, so that a child cannot wait for its end; what comes again then is what the sender keeps for this child.
func (d *delivery) beginsFor(name string) bool {
	return !d.account.Waits(name) && (d.isEndToEnd() || d.isStream() || d.account.Bare())
}

// letGo ends the links of children that are not fed any more and have not taken what is under way to them for a
// checkInterval: what is being read for them cannot be given back, so that the others would wait. A child whose disk hangs, or
// whose reader pauses, answers all the time, and its link would stay. It comes back when it reads again, if it is still
// to be fed.
func (d *delivery) letGo() {
	for name, c := range d.children {
		hangs := len(c.reads) > 0 && !d.account.Serves(name)
		if hangs && c.hangs {
			d.log.Info("a child that is not fed any more does not read, and its link is ended", "child", name, "offset", d.account.Offset())
			c.close()
		}
		c.hangs = hangs
	}
}

// giveUpLiar has nobody wait for a child that lied, and has the managers told that it is given up. In plaintext somebody
// on the way may have lied: then the child is not given up, and comes again with another link.
func (d *delivery) giveUpLiar(c *child) {
	if d.assignment.GetSpec().GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT {
		return
	}
	c.givenUp = lied
	d.expectChildren()
	d.hub.Report()
}
