package delivery

import (
	"maps"
	"slices"
	"time"

	limits "golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// presence is what this manager hears of an agent.
type presence struct {
	attachment *Attachment // nil while its control stream is closed
	closed     time.Time
	heard      time.Time
	fed        time.Time // when a node that it feeds last got more, in any delivery
	goodbye    bool
	report     *agentv1.Report // without deliveries
}

// Attachment is the stream of a node that takes part in deliveries. It belongs to
// one goroutine.
type Attachment struct {
	desk  *Desk
	seat  seat
	wake  chan struct{}
	sent  map[string]*groupv1.Assignment // what the node was told
	news  map[string]bool                // deliveries in which its assignment may have changed; the desk's lock guards it
	begun bool
	heard time.Time // when it was opened, or an agent last reported by it; the desk's lock guards it
}

// AttachMember attaches the stream of a member's session.
func (d *Desk) AttachMember(group, name string) *Attachment {
	return d.attach(seat{group, placement.MemberID(name)})
}

// AttachAgent attaches the control stream of an agent.
func (d *Desk) AttachAgent(name string) *Attachment {
	a := d.attach(seat{id: placement.AgentID(name)})
	d.mu.Lock()
	d.noteOpen(name, a, time.Now())
	d.mu.Unlock()
	d.pokeAll() // deliveries may wait for it
	return a
}

func (d *Desk) attach(at seat) *Attachment {
	a := &Attachment{desk: d, seat: at, wake: make(chan struct{}, 1), sent: make(map[string]*groupv1.Assignment), news: make(map[string]bool), heard: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.plans[at] {
		a.news[id] = true
	}
	if d.attached[at] == nil {
		d.attached[at] = make(map[*Attachment]bool)
	}
	d.attached[at][a] = true
	return a
}

// Close notes that the stream has ended.
func (a *Attachment) Close() {
	d := a.desk
	d.mu.Lock()
	delete(d.attached[a.seat], a)
	if len(d.attached[a.seat]) == 0 {
		delete(d.attached, a.seat)
	}
	agent := d.agents[a.seat.id.Name]
	wasAgent := a.seat.id.Role == identity.Agent && agent != nil && agent.attachment == a
	if wasAgent {
		d.noteClosed(a.seat.id.Name, time.Now())
	}
	d.mu.Unlock()
	if wasAgent {
		d.pokeAll()
	}
}

// Wake yields when there is something to tell the node.
func (a *Attachment) Wake() <-chan struct{} { return a.wake }

// Ended is closed when the desk is no longer kept: another leader may be found.
func (a *Attachment) Ended() <-chan struct{} { return a.desk.ended }

// Busy reports whether the node has anything to do.
func (a *Attachment) Busy() bool { return len(a.sent) > 0 }

// assignmentBytes is about how large a message with assignments gets.
const assignmentBytes = 1 << 20

// Next returns the messages that tell the node what has changed since they were
// last asked for; first, all that it has to do, even if that is nothing.
func (a *Attachment) Next() []*groupv1.Assignments {
	changed, dropped := a.takeNews()
	messages, size := []*groupv1.Assignments{{}}, 0
	with := func(more int) *groupv1.Assignments {
		if size += more; size > assignmentBytes && size > more {
			messages, size = append(messages, &groupv1.Assignments{}), more
		}
		return messages[len(messages)-1]
	}
	for _, id := range dropped {
		message := with(len(id))
		message.Dropped = append(message.Dropped, id)
	}
	for _, assignment := range changed {
		message := with(proto.Size(assignment))
		message.Current = append(message.Current, assignment)
	}
	whole := !a.begun
	a.begun = true
	if whole {
		for i, part := range messages {
			part.Complete, part.Continues = true, i < len(messages)-1
		}
	} else if len(changed)+len(dropped) == 0 {
		return nil
	}
	return messages
}

// takeNews returns what the node has to do that it does not know yet, and in which deliveries it has nothing to do any more. It looks only at
// deliveries with news: thousands may be kept in which nothing changed for the node.
func (a *Attachment) takeNews() (changed []*groupv1.Assignment, dropped []string) {
	a.desk.mu.Lock()
	defer a.desk.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(a.news)) {
		assignment, has := a.desk.plans[a.seat][id]
		_, had := a.sent[id]
		switch {
		case has && a.sent[id] != assignment:
			changed = append(changed, assignment)
			a.sent[id] = assignment
		case !has && had:
			dropped = append(dropped, id)
			delete(a.sent, id)
		}
	}
	clear(a.news)
	return changed, dropped
}

// assign replaces what nodes have to do in a delivery, and wakes them. A node
// without an assignment among the next has nothing to do any more.
func (d *Desk) assign(group, delivery string, nodes []identity.ID, next map[identity.ID]*groupv1.Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range nodes {
		at := seatOf(group, id)
		plan := d.plans[at]
		if plan == nil {
			plan = make(map[string]*groupv1.Assignment)
			d.plans[at] = plan
		}
		if assignment, has := next[id]; has {
			plan[delivery] = assignment
		} else if delete(plan, delivery); len(plan) == 0 {
			delete(d.plans, at)
		}
		for a := range d.attached[at] {
			a.news[delivery] = true
			select {
			case a.wake <- struct{}{}:
			default: // it is awake
			}
		}
	}
}

func seatOf(group string, id identity.ID) seat {
	if id.Role == identity.Agent {
		group = ""
	}
	return seat{group, id}
}

// ReportMember takes how deliveries stand at a member.
func (d *Desk) ReportMember(group, name string, reports []*groupv1.DeliveryReport) {
	d.take(group, placement.MemberID(name), reports)
}

// ReportAgent takes what an agent reports on this stream. What comes late by one that the agent has replaced is not heard: it says less than is
// known, as an agent does that counts anew. If no other is open, this one is the agent's.
func (a *Attachment) ReportAgent(report *agentv1.Report) {
	d, name := a.desk, a.seat.id.Name
	d.mu.Lock()
	a.heard = time.Now()
	agent := d.agents[name]
	returns := agent != nil && agent.attachment == nil && !agent.goodbye
	if returns {
		d.noteOpen(name, a, a.heard)
		agent = d.agents[name]
	}
	isFormer := agent == nil || agent.attachment != a
	if !isFormer {
		agent.heard = a.heard
		agent.report = &agentv1.Report{CacheUsedBytes: report.GetCacheUsedBytes(), Connections: report.GetConnections()}
	}
	d.mu.Unlock()
	if returns {
		d.pokeAll()
	}
	if !isFormer {
		d.take("", a.seat.id, report.GetDeliveries())
	}
}

// outlined is how many deliveries an agent's outline tells of, at most.
const outlined = 32

// LastReport returns an outline of what an agent said last; nil if it
// said nothing in this term.
func (d *Desk) LastReport(name string) *agentv1.Report {
	id := placement.AgentID(name)
	d.mu.Lock()
	agent, known := d.agents[name]
	var short *agentv1.Report
	if known && agent.report != nil {
		short = proto.CloneOf(agent.report)
	}
	deliveries := slices.Sorted(maps.Keys(d.plans[seat{id: id}]))
	d.mu.Unlock()
	if short == nil {
		return nil
	}
	for _, delivery := range deliveries {
		k := d.find(delivery)
		if k == nil {
			continue
		}
		if report := k.outline(id); report != nil {
			short.Deliveries = append(short.Deliveries, report)
		}
		if len(short.Deliveries) == outlined {
			break
		}
	}
	return short
}

// outline returns the part of a node's last report that a list of agents shows; nil if the node has not reported.
func (k *keeper) outline(id identity.ID) *groupv1.DeliveryReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	report := k.progress.nodes[id].reported()
	if report == nil {
		return nil
	}
	short := &groupv1.DeliveryReport{
		Delivery: report.GetDelivery(), Bytes: report.GetBytes(), HeldBytes: report.GetHeldBytes(), CachedBytes: report.GetCachedBytes(),
	}
	for _, child := range report.GetChildren() { // without names: thousands in each delivery would not fit into a message
		short.Children = append(short.Children, &groupv1.ChildReport{Connected: child.GetConnected()})
	}
	return short
}

// Goodbye notes that an agent stops.
func (d *Desk) Goodbye(name string) {
	d.mu.Lock()
	if agent, known := d.agents[name]; known {
		agent.goodbye = true
	}
	d.mu.Unlock()
	d.pokeAll()
}

// take hands reports to the deliveries that they are about, of each the last. A node that has no part in a delivery is not listened to.
func (d *Desk) take(group string, from identity.ID, reports []*groupv1.DeliveryReport) {
	now := time.Now()
	last := make(map[string]int, len(reports))
	for i, report := range reports {
		last[report.GetDelivery()] = i
	}
	for i, report := range reports {
		if last[report.GetDelivery()] != i {
			continue
		}
		if k := d.find(report.GetDelivery()); k != nil && (group == "" || group == k.group) {
			k.take(from, report, now)
		}
	}
}

func (k *keeper) take(from identity.ID, report *groupv1.DeliveryReport, now time.Time) {
	k.note(from, report, now)
	if feeder := k.fed(from, now); feeder.Role == identity.Agent {
		k.desk.noteFed(feeder.Name, now)
	}
}

func (k *keeper) note(from identity.ID, report *groupv1.DeliveryReport, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.progress.claimed = k.progress.claimed || from == k.progress.sender
	if _, known := k.progress.nodes[from]; !known {
		if k.tree == nil {
			return
		}
		if _, has := k.tree.Node(from.String()); !has {
			return
		}
	}
	if k.progress.take(from, heard(from, report, k.tree), k.tree, now) {
		k.hurry(k.progress.nodes[from], now)
	}
	k.announceLocked()
}

// What one node reports has a delivery looked at so often at once, and then every hurryPause: that looks at all nodes.
const (
	hurryPause = time.Second
	hurryBurst = 10
)

// hurry has the delivery looked at because of what a node reported. The keeper is locked.
func (k *keeper) hurry(node *nodeProgress, now time.Time) {
	if node.hurries == nil {
		node.hurries = limits.NewLimiter(limits.Every(hurryPause), hurryBurst)
	}
	switch {
	case node.hurries.AllowN(now, 1):
		k.poke()
	case !node.hurried:
		node.hurried = true
		time.AfterFunc(hurryPause, func() {
			k.mu.Lock()
			node.hurried = false
			k.mu.Unlock()
			k.poke()
		})
	}
}

// seen returns what this manager sees of an agent.
func (d *Desk) seen(name string) sight {
	record, known := d.view.Agent(name)
	s := sight{online: known && placement.Usable(record.Agent), heard: d.started}
	cutOff := d.hearing.IsCutOff()
	d.mu.Lock()
	defer d.mu.Unlock()
	if agent, known := d.agents[name]; known {
		s.attached, s.closed, s.heard, s.goodbye = agent.attachment != nil, agent.closed, agent.heard, agent.goodbye
		s.fed = agent.fed
		if !s.attached && !isRelay(name) {
			s.waits = d.broken.waits(agent.closed)
		}
	}
	if cutOff { // the agent's connection has died of that, and it could not be told of another tree anyway
		s.closed = time.Time{}
	}
	return s
}

// usable reports whether an agent can be given something to do.
func (d *Desk) usable(agent *agentv1.Agent, now time.Time) bool {
	cause, _ := d.seen(agent.GetName()).lost(now)
	return cause == ""
}

// pokeAll has all deliveries looked at.
func (d *Desk) pokeAll() {
	for _, k := range d.allKeepers() {
		k.poke()
	}
}
