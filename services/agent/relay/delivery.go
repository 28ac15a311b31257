package relay

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	algo "github.com/groupcast/groupcast/internal/algo/relay"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/agent/cache"
)

const (
	// endToEndWindow is how many bytes are under way in end-to-end mode: what a path of
	// 10 Gbit/s and 10 ms holds.
	endToEndWindow = 16 << 20
	// checkInterval is how often slow children are looked for.
	checkInterval = 500 * time.Millisecond
	// farewellTime is how long children have to hear that a delivery is gone.
	farewellTime = 300 * time.Millisecond
)

// delivery is one delivery at this agent. Its links run in goroutines of their own;
// mu guards what they share, which follows it, and changed tells all of them when it changes.
type delivery struct {
	hub  *Hub
	id   wire.DeliveryID
	log  *slog.Logger
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup // links that use the entry

	inlet *inlet

	mu         sync.Mutex
	entry      *cache.Entry
	account    *algo.Account
	assignment *groupv1.Assignment
	end        *link.End // nil until all has come since the delivery began
	known      *link.End // that end, or the one before the delivery began again
	ended      time.Time // when the manager said so; zero before
	children   map[string]*child
	changed    chan struct{}
	due        chan struct{} // holds a token when watch has something to do
	quiet      *sync.Cond    // a portion was read, or the link to a child ended
	intake     *link.Taking  // that link, while it is open
	wanted     bool          // children have asked: until then nothing is taken
	early      bool          // the parent may be dialled before they have
	asking     bool          // the parent is being asked for a link, and told what it may send
	came       uint64        // bytes that came since measure was last called,
	recent     uint64        // and how many come in aheadTime
	begin      *uint64       // from where to begin again; nil if that is not to be
	kept       uint64        // nobody has anything of a stream from before this offset
	lost       string        // the parent that cannot be reached
	trouble    string        // why this agent cannot go on
	short      shortage
	rested     bool      // it rests, and a report of that was asked for
	told       bool      // the managers know how it stands, if it rests
	checked    time.Time // when slow children were last looked for; zero while it rests

	// A delivery that has ended is kept, and latecomers are fed, unless it isOver. When it is dropped it goes in this order:
	gone     bool // children are told that it is no longer here;
	closed   bool // when they have been, no link can begin any more;
	released bool // when all links have ended, its entry is closed
}

func newDelivery(h *Hub, assignment *groupv1.Assignment) (*delivery, error) {
	id, err := parseID(assignment.GetDelivery())
	if err != nil {
		return nil, err
	}
	d := &delivery{
		hub: h, id: id, log: h.Log.With("delivery", assignment.GetDelivery()),
		entry: h.Cache.Create(), account: algo.New(rulesOf(assignment.GetSpec(), h.Cache.Segment())),
		children: make(map[string]*child), changed: make(chan struct{}), due: make(chan struct{}, 1),
	}
	d.quiet = sync.NewCond(&d.mu)
	d.ctx, d.stop = context.WithCancel(context.WithoutCancel(h.running)) // drop ends it, after children were told
	d.inlet = newInlet(d.ctx)
	d.assign(assignment)
	return d, nil
}

func parseID(text string) (id wire.DeliveryID, err error) {
	digits, err := hex.DecodeString(text)
	if err != nil || len(digits) != len(id) {
		return id, fmt.Errorf("delivery id %q is not 32 hexadecimal digits", text)
	}
	return wire.DeliveryID(digits), nil
}

// rulesOf returns the rules that a delivery goes by.
func rulesOf(spec *groupv1.DeliverySpec, grain uint64) algo.Rules {
	slow := spec.GetSlowMember()
	rules := algo.Rules{
		Mode: algo.Hop, Grain: grain, Window: endToEndWindow, Stream: spec.GetKind() == groupv1.DeliveryKind_DELIVERY_KIND_STREAM,
		Asked:     spec.GetHashed(),
		FloorRate: slow.GetFloorBytesPerSecond(), LagBytes: slow.GetLagBytes(), LagTime: slow.GetLagTime().AsDuration(),
	}
	if spec.GetControlMode() == groupv1.ControlMode_CONTROL_MODE_END_TO_END {
		rules.Mode = algo.EndToEnd
	}
	switch slow.GetAction() {
	case groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH:
		rules.Slow = algo.Detach
	case groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT:
		rules.Slow = algo.Evict
	}
	return rules
}

// run does what is due until the delivery is dropped.
func (d *delivery) run() {
	d.work.Go(d.keepFed)
	d.watch()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.work.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released = true
	d.hub.Metrics.discarded.Add(float64(d.account.Held()))
	if err := d.entry.Close(); err != nil {
		d.log.Warn("a cache file could not be closed", "error", err)
	}
}

// enter has a link use the entry until it calls leave.
func (d *delivery) enter() (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errStopping
	}
	d.work.Add(1)
	return d.work.Done, nil
}

// watch looks for slow children, gives room back that others need, and begins again
// where that must be.
func (d *delivery) watch() {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		d.mu.Lock()
		begins, isStarved := d.begin != nil, d.isStarved()
		d.mu.Unlock()
		if begins {
			if !d.restart() {
				return
			}
			continue
		}
		var pressure, freed <-chan struct{}
		if d.endedAt().IsZero() { // otherwise the hub has it give room back when its turn comes
			pressure = d.hub.Cache.Pressure()
		}
		if isStarved {
			freed = d.hub.Cache.Freed()
		}
		select {
		case <-d.ctx.Done():
			return
		case <-ticker.C:
			d.check()
		case <-pressure:
			d.relieve()
		case <-freed:
			d.update(func() {})
		case <-d.due:
		}
	}
}

// assign gives the delivery its place in the tree.
func (d *delivery) assign(assignment *groupv1.Assignment) {
	d.update(func() {
		if d.assignment.GetTreeVersion() > assignment.GetTreeVersion() {
			return // an earlier one, overtaken
		}
		before := d.assignment
		d.assignment = assignment
		d.forgive()
		d.expectChildren()
		d.early = d.early || before == nil && !assignment.GetEnded()
		if assignment.GetEnded() && d.ended.IsZero() {
			d.ended, d.trouble = time.Now(), ""
			d.entry.Rest()
		}
		if before != nil && !link.SameNeighbour(before.GetParent(), assignment.GetParent()) {
			d.lost = ""
			d.inlet.end()
		}
	})
}

// update changes the state, does what follows from that, and tells everyone.
func (d *delivery) update(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	d.follow()
}

// acknowledge changes what children have acknowledged, and tells everyone if that makes
// a difference to anyone. With many children, most acknowledgements make none.
func (d *delivery) acknowledge(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.outlook()
	change()
	d.promiseRoom()
	if d.outlook() != before {
		d.announce()
	}
}

// check does what is due every checkInterval.
func (d *delivery) check() {
	d.mu.Lock()
	resting := d.isResting()
	if resting {
		d.came, d.recent, d.checked = 0, 0, time.Time{} // what came long ago says nothing of what will
	}
	d.mu.Unlock()
	if resting {
		return // there may be thousands of these, and nobody waits for any of them
	}
	d.update(func() {
		d.insist()
		d.measure()
		d.evictSlow()
		d.letGo()
		d.resume()
		d.account.Look()
	})
}

// drop ends the delivery here.
func (d *delivery) drop() {
	d.update(func() { d.gone = true })
	time.AfterFunc(farewellTime, d.stop)
}

// expects reports whether the tree names a neighbour as what it comes as: as the sender, which offers,
// or as a child.
func (d *delivery) expects(id identity.ID, offer bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return isNeighbour(d.assignment, id, offer)
}

func isNeighbour(assignment *groupv1.Assignment, id identity.ID, offer bool) bool {
	if offer {
		parent := assignment.GetParent()
		return parent.GetName() == id.Name && parent.GetRole() == string(id.Role) && len(parent.GetAddresses()) == 0
	}
	return slices.ContainsFunc(assignment.GetChildren(), func(child *groupv1.Neighbour) bool {
		return child.GetName() == id.Name && child.GetRole() == string(id.Role)
	})
}

func (d *delivery) isPlaintext() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.assignment.GetSpec().GetDataPlane() == groupv1.DataPlane_DATA_PLANE_PLAINTEXT
}

func (d *delivery) version() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.assignment.GetTreeVersion()
}

// endedAt returns when the manager said that the delivery has ended; zero is not yet.
func (d *delivery) endedAt() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

func (d *delivery) links() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = d.inlet.links()
	for _, c := range d.children {
		if c.link != nil {
			n++
		}
	}
	return n
}

// held returns how much of the delivery the cache holds.
func (d *delivery) held() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.account.Held()
}

// keptFrom returns from where on the cache has it.
func (d *delivery) keptFrom() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.account.Discarded()
}

// report returns how the delivery stands; nil if it rests and the managers know, or if there is no room
// left in the report for deliveries that rest.
func (d *delivery) report(room *int) *groupv1.DeliveryReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isResting() {
		return d.standing()
	}
	if d.told || *room <= 0 {
		return nil
	}
	report := d.standing()
	*room -= proto.Size(report)
	d.told = true
	return report
}

// since returns how long ago something was; nil if it never was.
func since(at time.Time) *durationpb.Duration {
	if at.IsZero() {
		return nil
	}
	return durationpb.New(time.Since(at))
}

// All functions below are called with d.mu held.

// forgive lets a child that was given up, and that the tree no longer has here, come again if the
// tree sends it again.
func (d *delivery) forgive() {
	for name, c := range d.children {
		if c.givenUp == tooSlow && !d.isChild(name) {
			c.givenUp = faultless
		}
	}
}

// expectChildren has the account count the children of the tree, but for those that
// were given up.
func (d *delivery) expectChildren() {
	var names []string
	children := d.assignment.GetChildren()
	if d.isOver() {
		children = nil // nobody is fed any more
	}
	for _, neighbour := range children {
		name := childName(identity.Named(neighbour))
		if c := d.children[name]; c == nil || !c.isGivenUp() {
			names = append(names, name)
		}
	}
	d.part(func() {
		d.account.Expect(names)
		for _, name := range names {
			if childID(name).Role == identity.Agent {
				d.account.Relays(name)
			}
		}
	})
	for name, c := range d.children {
		if c.link != nil && !slices.Contains(names, name) {
			c.dismissed = true
		}
	}
}

// follow does what follows from a change, and tells everyone.
func (d *delivery) follow() {
	d.promiseRoom()
	d.announce()
	d.rest()
}

// rest has it reported at once that all is done here: whoever watches the delivery end waits to see what each link carried.
func (d *delivery) rest() {
	resting := d.isResting()
	if resting && !d.rested {
		d.hub.Report()
	}
	d.rested = resting
}

// announce tells everyone that the state is another.
func (d *delivery) announce() {
	close(d.changed)
	d.changed, d.told = make(chan struct{}), false
	if d.begin == nil && !d.isStarved() {
		return
	}
	select {
	case d.due <- struct{}{}:
	default: // it knows
	}
}

// outlook is what others see of the acknowledgements of children.
type outlook struct {
	ack, credit uint64
	below       uint64 // what all members have, of a stream
	waiting     int
	begins      bool
	lacked      uint64 // what somebody lacks, where the disk has no room
}

func (d *delivery) outlook() outlook {
	look := outlook{ack: d.account.Ack(), credit: d.account.Credit(), waiting: d.account.Waiting(), begins: d.begin != nil}
	if d.isStream() {
		look.below = d.account.Below()
	}
	if d.short.waiting > 0 {
		look.lacked = d.account.Cached()
	}
	return look
}

// length returns how long the object is, or the most that there can be.
func (d *delivery) length() uint64 {
	switch {
	case d.end != nil:
		return d.end.Length
	case d.assignment.GetSealed():
		return d.assignment.GetLength()
	case d.assignment.GetSpec().GetLengthUnknown():
		return wire.MaxOffset
	}
	return d.assignment.GetSpec().GetLength()
}

// isResting reports whether nothing happens in a delivery that has ended: it is only kept for latecomers.
func (d *delivery) isResting() bool {
	if d.ended.IsZero() || d.intake != nil || d.lost != "" || d.trouble != "" {
		return false
	}
	for _, c := range d.children {
		if c.link != nil {
			return false
		}
	}
	return true
}

// insist has the parent be asked, if it was not: children that have not come by now are not waited for. A stream begins where
// those are that have come: what was before may not be kept any more.
func (d *delivery) insist() {
	if d.wanted || !d.account.Attached() {
		return
	}
	d.wanted = true
	if from := d.account.Here(0); d.isStream() && d.begin == nil && from > d.account.Offset() {
		d.begin = &from
	}
}

// standing returns how the delivery stands, to be told to the managers.
func (d *delivery) standing() *groupv1.DeliveryReport {
	report := &groupv1.DeliveryReport{
		Delivery: d.assignment.GetDelivery(), TreeVersion: d.assignment.GetTreeVersion(), Bytes: d.account.Offset(),
		CachedBytes: d.account.Cached(), MaxCachedBytes: d.account.MaxCached(), HeldBytes: d.account.Held(),
		Lost: d.lost, Trouble: d.trouble, Ended: d.end != nil && d.account.Offset() == d.end.Length,
		Resting: d.isResting(), Paused: d.account.Idle(),
	}
	for name, c := range d.children {
		id := childID(name)
		report.Children = append(report.Children, &groupv1.ChildReport{
			Name: id.Name, Role: string(id.Role), Connected: c.link != nil, SentBytes: c.sent, Count: c.count, AckedOffset: c.acked, Evicted: c.isGivenUp(), Stripes: c.stripes, SinceSent: since(c.sentAt),
			Waits: d.account.Expects(name) && !d.account.Serves(name),
		})
		d.forget(name)
	}
	return report
}
