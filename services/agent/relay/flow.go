package relay

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/datagram"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// flow is a delivery in datagrams at this agent. Nothing of it is cached: what comes is
// passed on to the children at once, to each if its link allows it, or never.
type flow struct {
	hub  *Hub
	log  *slog.Logger
	ctx  context.Context
	stop context.CancelFunc

	inlet *inlet
	ready atomic.Bool // the children were waited for
	code  datagram.Code

	mu         sync.Mutex
	assignment *groupv1.Assignment
	changed    chan struct{} // closed when the assignment changes
	rested     bool          // it rests, and a report of that was asked for
	lost       string        // the parent that cannot be reached
	children   map[string]*fed
	seen       algo.Seen
	repair     *datagram.Repair // nil without parity
	bytes      uint64           // that came
}

// fed is a child, over however many links one after the other. What they carried is remembered when they are gone.
type fed struct {
	out     *datagram.Out      // nil while it has no link
	cancel  context.CancelFunc // ends that
	earlier datagram.Use
	count   uint64 // names the count of all that
}

// unlink forgets the link that there is, but not what it carried.
func (c *fed) unlink() {
	if c.out != nil {
		c.cancel()
		c.earlier = c.use()
		c.out, c.cancel = nil, nil
	}
}

// use returns what all its links carried.
func (c *fed) use() (use datagram.Use) {
	if c.out != nil {
		use = c.out.Use()
	}
	use.Add(c.earlier)
	return use
}

func (c *fed) isReady() bool { return c.out != nil && c.out.IsReady() }

func newFlow(h *Hub, assignment *groupv1.Assignment) *flow {
	f := &flow{
		hub: h, log: h.Log.With("delivery", assignment.GetDelivery()),
		changed: make(chan struct{}), children: make(map[string]*fed),
	}
	spec := assignment.GetSpec().GetDatagrams()
	if f.code = (datagram.Code{Data: int(spec.GetParityData()), Parity: int(spec.GetParityShards())}); !f.code.IsNone() {
		f.repair = datagram.NewRepair(f.code)
	}
	f.ctx, f.stop = context.WithCancel(h.running)
	f.inlet = newInlet(f.ctx)
	f.assign(assignment)
	return f
}

// assign gives the flow its place in the tree, and ends links to nodes that are not
// neighbours any more.
func (f *flow) assign(assignment *groupv1.Assignment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.assignment.GetTreeVersion() > assignment.GetTreeVersion() {
		return // an earlier one, overtaken
	}
	before := f.assignment
	f.assignment = assignment
	if !link.SameNeighbour(before.GetParent(), assignment.GetParent()) {
		f.lost = ""
		f.inlet.end()
	}
	for name, child := range f.children {
		if child.out != nil && !f.isChild(name) {
			child.cancel()
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
	f.rest()
}

func (f *flow) expects(id identity.ID, offer bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return isNeighbour(f.assignment, id, offer)
}

func (f *flow) version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.assignment.GetTreeVersion()
}

// arrived takes a datagram from the parent, and passes on what it brings. It runs in the
// port's goroutine.
func (f *flow) arrived(in *datagram.In, whole []byte, from netip.AddrPort, now time.Time) {
	h, payload, err := in.Open(whole, from, now)
	if err != nil {
		f.hub.Metrics.datagramsRefused.Inc()
		return
	}
	f.hub.Metrics.datagramsReceived.Inc()
	f.hub.Metrics.datagramsReceivedBytes.Add(float64(len(payload)))
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case h.Kind == wiredatagram.Data:
		if !f.fresh(h, payload) {
			return // it came by another parent, or was recovered
		}
		f.pass(h, payload, now)
		if f.repair != nil {
			f.passFound(f.repair.Data(h.Sequence, h.Sent, payload), now)
		}
	case f.repair != nil:
		f.passFound(f.repair.Parity(h, payload), now)
	}
}

// report returns how the flow stands, to be told to the managers.
func (f *flow) report() *groupv1.DeliveryReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := &groupv1.DeliveryReport{
		Delivery: f.assignment.GetDelivery(), TreeVersion: f.assignment.GetTreeVersion(), Bytes: f.bytes, Lost: f.lost,
		Resting: f.isResting(),
	}
	for _, name := range slices.Sorted(maps.Keys(f.children)) {
		child := f.children[name]
		use, id := child.use(), childID(name)
		report.Children = append(report.Children, &groupv1.ChildReport{
			Name: id.Name, Role: string(id.Role), Connected: child.isReady(), SentBytes: use.Bytes, Count: child.count, SinceSent: since(use.Last), Datagrams: use.Message(),
		})
		f.forget(name)
	}
	return report
}

func (f *flow) links() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.linkCount()
}

// attach makes a link the child's, in place of an earlier one. If the tree has lost the child while the link was opened, it ends the link.
func (f *flow) attach(name string, out *datagram.Out, cancel context.CancelFunc) (detach func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isChild(name) {
		cancel()
		return func() {}
	}
	child := f.children[name]
	if child == nil {
		child = &fed{count: newCount()}
		f.children[name] = child
	}
	child.unlink()
	child.out, child.cancel = out, cancel
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if child.out == out {
			child.unlink()
			f.rest()
		}
	}
}

// take waits to be the one link from the parent.
func (f *flow) take(waiting context.Context) (ctx context.Context, release func(), err error) {
	ctx, leave, err := f.inlet.take(waiting)
	if err != nil {
		return nil, nil, err
	}
	return ctx, func() {
		leave()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rest()
	}, nil
}

// All functions below are called with f.mu held.

// isChild reports whether the tree has somebody as a child here.
func (f *flow) isChild(name string) bool {
	return slices.ContainsFunc(f.assignment.GetChildren(), func(n *groupv1.Neighbour) bool { return childName(identity.Named(n)) == name })
}

// forget forgets a child that the tree no longer has, if it has no link and a report just took along what its links carried; one that is lost takes that with it. Of a stream that is
// sealed or has ended nobody is forgotten: members that have all are no longer children here, but a manager that begins to lead is to hear of
// their links, too.
func (f *flow) forget(name string) {
	isPassing := !f.assignment.GetSealed() && !f.assignment.GetEnded()
	if isPassing && f.children[name].out == nil && !f.isChild(name) {
		delete(f.children, name)
	}
}

// isResting reports whether nothing happens in a delivery that has ended.
func (f *flow) isResting() bool { return f.assignment.GetEnded() && f.linkCount() == 0 }

// rest has it reported at once that all is done here: whoever watches the delivery end waits to see what each link carried.
func (f *flow) rest() {
	resting := f.isResting()
	if resting && !f.rested {
		f.hub.Report()
	}
	f.rested = resting
}

func (f *flow) fresh(h wiredatagram.Header, payload []byte) bool {
	if !f.seen.Note(h.Sequence) {
		return false
	}
	f.bytes += uint64(len(payload))
	return true
}

func (f *flow) passFound(found []datagram.Found, now time.Time) {
	for _, one := range found {
		if one.Kind == wiredatagram.Data {
			if !f.fresh(one.Header, one.Payload) {
				continue
			}
			f.hub.Metrics.datagramsRecovered.Inc()
		}
		f.pass(one.Header, one.Payload, now)
	}
}

// pass duplicates a datagram to all children.
func (f *flow) pass(h wiredatagram.Header, payload []byte, now time.Time) {
	batch := f.hub.port.batch
	for _, child := range f.children {
		if batch.IsFull() {
			batch.Flush()
		}
		if child.out != nil {
			child.out.Add(batch, h, payload, now)
		}
	}
}

func (f *flow) linkCount() int {
	links := f.inlet.links()
	for _, child := range f.children {
		if child.out != nil {
			links++
		}
	}
	return links
}
