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
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// flow is a delivery in datagrams at this agent. Nothing of it is cached: what comes is
// passed on to the children at once, to each as fast as its link allows, or never.
type flow struct {
	hub  *Hub
	log  *slog.Logger
	ctx  context.Context
	stop context.CancelFunc

	inlet *inlet
	ready atomic.Bool // the children were waited for

	mu         sync.Mutex
	assignment *groupv1.Assignment
	changed    chan struct{} // closed when the assignment changes
	lost       string        // the parent that cannot be reached
	children   map[string]*fed
	seen       algo.Seen
	repair     *datagram.Repair // nil without parity
	bytes      uint64           // that came
}

// fed is a child's link.
type fed struct {
	out    *datagram.Out
	cancel context.CancelFunc
}

func newFlow(h *Hub, assignment *groupv1.Assignment) *flow {
	f := &flow{
		hub: h, log: h.Log.With("delivery", assignment.GetDelivery()),
		changed: make(chan struct{}), children: make(map[string]*fed),
	}
	spec := assignment.GetSpec().GetDatagrams()
	if code := (datagram.Code{Data: int(spec.GetParityData()), Parity: int(spec.GetParityShards())}); !code.IsNone() {
		f.repair = datagram.NewRepair(code)
	}
	f.ctx, f.stop = context.WithCancel(h.running)
	f.inlet = newInlet(f.ctx)
	f.assign(assignment)
	return f
}

// assign gives the flow its place in the tree, and ends the links of those that are no
// neighbours any more.
func (f *flow) assign(assignment *groupv1.Assignment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.assignment.GetTreeVersion() > assignment.GetTreeVersion() {
		return // an earlier one, overtaken
	}
	before := f.assignment
	f.assignment = assignment
	if !sameNeighbour(before.GetParent(), assignment.GetParent()) {
		f.lost = ""
		f.inlet.end()
	}
	for name, child := range f.children {
		isChild := func(n *groupv1.Neighbour) bool { return n.GetName() == name }
		if !slices.ContainsFunc(assignment.GetChildren(), isChild) {
			child.cancel()
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
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
		child.out.Add(batch, h, payload, now)
	}
}

// report returns how the flow stands.
func (f *flow) report() *groupv1.DeliveryReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := &groupv1.DeliveryReport{
		Delivery: f.assignment.GetDelivery(), TreeVersion: f.assignment.GetTreeVersion(), Bytes: f.bytes, Lost: f.lost,
	}
	for _, name := range slices.Sorted(maps.Keys(f.children)) {
		out := f.children[name].out
		use := out.Use()
		report.Children = append(report.Children, &groupv1.ChildReport{
			Name: name, Connected: out.IsReady(), SentBytes: use.Bytes, Datagrams: use.Message(),
		})
	}
	return report
}

func (f *flow) links() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.children) + f.inlet.links()
}

// attach makes a link the child's, in place of an earlier one.
func (f *flow) attach(name string, child *fed) (detach func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if earlier := f.children[name]; earlier != nil {
		earlier.cancel()
	}
	f.children[name] = child
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.children[name] == child {
			delete(f.children, name)
		}
	}
}
