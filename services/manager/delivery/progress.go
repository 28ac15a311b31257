package delivery

import (
	"cmp"
	"time"

	limits "golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// reportPatience is how long a report counts.
const reportPatience = 10 * time.Second

// progress is how far everybody is in a delivery, by what they reported in this term.
type progress struct {
	sender     identity.ID
	begun      time.Time
	inherited  bool   // it began under another leader
	sentBegun  uint64 // what the sender had sent when it first reported to this leader
	nodes      map[identity.ID]*nodeProgress
	links      map[link]*carriage
	acked      map[string]uint64        // by name, what members have acknowledged to the agents that feed them
	doubted    map[link]doubt           // links over which a node was found to get nothing
	unknown    map[string]absence       // members that are not heard of
	complaints map[identity.ID][]string // by member, the relays that gave it up
	mayBeSlow  bool                     // a member can be given up as too slow
	claimed    bool                     // the program of the sender has told of the delivery
	sent       time.Time                // when the sender had sent all; zero if it has not, or before this term
	sentOnce   uint64                   // how much its links had carried then: what it sends again for somebody comes later
	moved      time.Time                // when anybody last got more
	agentMoved time.Time                // when an agent did
	apart      string                   // who could not reach whom, by the latest report of that since anybody got more
	sealed     bool
	sealedAt   time.Time // when that was seen
	length     uint64    // that was sealed
	datagrams  bool      // lost ones are not sent again: a node that has less than another does not lack them
	hashed     bool      // it is a directory of which members take what they lack

	awaited map[identity.ID]bool // who is waited for, and who feeds them, when nodes were last told what to do; nil before that
}

// nodeProgress is what one node reported last.
type nodeProgress struct {
	report    *groupv1.DeliveryReport
	at        time.Time
	lost      string          // the neighbour that it cannot reach
	lostSince time.Time       // since when it says so
	fullSince time.Time       // since when its disk has no room; zero if it has room
	alone     time.Time       // since when it has reached none of the neighbours that were to feed it; zero if it has
	bytesAt   time.Time       // when it last got more
	gotOn     time.Time       // when it last got more, or on with reading
	sampled   time.Time       // when its rate was last measured
	sample    uint64          // its bytes then
	rate      uint64          // in bytes per second
	damagedBy []string        // the agents that it was moved away from because it got damaged bytes
	hurries   *limits.Limiter // how often what it reports may have the delivery looked at; nil if nothing it said did
	hurried   bool            // the delivery is about to be looked at for what came too often

	readySince time.Time               // since when it takes something after it was paused; not of datagrams
	queued     time.Time               // since when it waits for its turn at its program; zero if it does not
	lacksSince time.Time               // since when it lacks something that its feeder has; zero if it lacks nothing
	missed     int                     // of datagrams: how often its feeder reported more since more came here
	unfed      int                     // how often it moved because it got nothing; of datagrams, since it last got them for long
	getsSince  time.Time               // of datagrams: since when they come from its feeder, with few missed; zero if none has come
	childrenOf *groupv1.DeliveryReport // the report that children was made from
	children   map[identity.ID]*groupv1.ChildReport
}

// A rate is measured over ratePause at least. Where little comes, it is measured until ratePiece has come, but not for longer than
// ratePatience: what comes over several stripes is counted only once no piece is missing before it, and then much of it at once.
const (
	ratePause    = 500 * time.Millisecond
	ratePatience = 4 * time.Second
	ratePiece    = 512 << 10
)

// finishes returns when a node that says how it gets on with reading last did, or got more. Members of earlier versions do not say so.
func (n *nodeProgress) finishes() (gotOn time.Time, says bool) {
	if n.reported().GetReads() == 0 {
		return time.Time{}, false
	}
	return n.gotOn, true
}

// measureRate finds out at which rate a node gets more.
func (n *nodeProgress) measureRate(bytes uint64, now time.Time) {
	passed, came := now.Sub(n.sampled), bytes-min(bytes, n.sample)
	if passed < ratePause || came < ratePiece && passed < ratePatience {
		return
	}
	if !n.sampled.IsZero() {
		n.rate = rate(came, passed)
	}
	n.sampled, n.sample = now, bytes
}

// child returns what a node says of a child; nil if it says nothing. It is asked for each of hundreds in turn, and so keeps them. An agent and
// a member may have the same name, and agents of earlier versions do not tell them apart: if such a one gave up one of them, child returns
// what it says of that one.
func (n *nodeProgress) child(id identity.ID) *groupv1.ChildReport {
	if n == nil || len(n.report.GetChildren()) == 0 {
		return nil
	}
	if n.childrenOf != n.report {
		n.childrenOf, n.children = n.report, make(map[identity.ID]*groupv1.ChildReport, len(n.report.GetChildren()))
		for _, child := range n.report.GetChildren() {
			if of := identity.Named(child); n.children[of] == nil || child.GetEvicted() {
				n.children[of] = child
			}
		}
	}
	return cmp.Or(n.children[id], n.children[identity.ID{Name: id.Name}])
}

func (n *nodeProgress) reported() *groupv1.DeliveryReport {
	if n == nil {
		return nil
	}
	return n.report
}

// absence is since when a member is not heard of. The outcome waits for it from when that was found.
type absence struct {
	found time.Time // that its session has expired
	heard time.Time // the last time
}

// unknownSince returns since when a member is not heard of.
func (p *progress) unknownSince(name string) (since time.Time, unknown bool) {
	gone, unknown := p.unknown[name]
	return gone.heard, unknown
}

// link is a way that bytes took, from one node to another.
type link struct{ from, to identity.ID }

// carriage is what a link carried, by the report of the node that sends.
type carriage struct {
	bytes   uint64
	last    time.Time            // when the last of them was sent
	stripes *groupv1.Stripes     // nil if the link may have only one
	use     *groupv1.DatagramUse // nil unless the delivery is a stream in datagrams
	count   uint64               // names the count that these are of; zero if its node is of an earlier version

	// told is what its node said last, and before what it had said when it began to count anew.
	told, before tally
}

// tally is what a node counts of a link.
type tally struct {
	bytes uint64
	use   *groupv1.DatagramUse
	count uint64 // as that of a carriage
}

// and returns what two nodes counted, or one before and after it began anew.
func (t tally) and(earlier tally) tally {
	if earlier.use == nil || t.use == nil {
		return tally{bytes: t.bytes + earlier.bytes, use: t.use}
	}
	sum := proto.CloneOf(t.use)
	sum.Sent, sum.Held, sum.Lost, sum.Trips = sum.GetSent()+earlier.use.GetSent(), sum.GetHeld()+earlier.use.GetHeld(), sum.GetLost()+earlier.use.GetLost(), sum.GetTrips()+earlier.use.GetTrips()
	return tally{bytes: t.bytes + earlier.bytes, use: sum}
}

// takeTally returns what a link carried in all. Its node counts anew where it was started again, and where it has
// forgotten a child that comes back: then the count has another name. Nodes of earlier versions give it none, and it shows only where they say
// less than before.
func (l *carriage) takeTally(said tally) tally {
	if said.count != l.told.count || said.count == 0 && said.bytes < l.told.bytes {
		l.before = l.told.and(l.before)
	}
	l.told = said
	return said.and(l.before)
}

// newProgress returns what is known of a delivery.
func newProgress(delivery view.Delivery, now time.Time) *progress {
	return &progress{
		sender: placement.MemberID(delivery.GetDelivery().GetSender()), begun: delivery.GetDelivery().GetCreateTime().AsTime(),
		nodes: make(map[identity.ID]*nodeProgress), links: make(map[link]*carriage), doubted: make(map[link]doubt), unknown: make(map[string]absence),
		acked: make(map[string]uint64), complaints: make(map[identity.ID][]string), mayBeSlow: mayBeSlow(delivery), moved: now, datagrams: isDatagrams(delivery), hashed: isHashed(delivery),
	}
}

// take notes a report, and returns whether it says something to act on at once.
func (p *progress) take(from identity.ID, report *groupv1.DeliveryReport, current *tree.Tree, now time.Time) (urgent bool) {
	node, known := p.nodes[from]
	if !known {
		node = &nodeProgress{report: &groupv1.DeliveryReport{}}
		p.nodes[from] = node
	}
	grew := p.cameBy(report) > p.cameBy(node.report)
	if grew {
		node.bytesAt, node.gotOn, p.moved, p.apart = now, now, now, ""
		if from.Role == identity.Agent {
			p.agentMoved = now
		}
	}
	if report.GetReads() > node.report.GetReads() {
		node.gotOn = now
		if from != p.sender { // it finds out what it lacks; that the sender reads brings nobody anything
			p.moved = now
		}
	}
	p.noteReady(node, report, now)
	if report.GetLost() != node.lost {
		node.lost, node.lostSince = report.GetLost(), now
		urgent = true
	}
	node.noteFull(report, now)
	node.noteAlone(report, now)
	p.noteApart(from, placement.AgentID(report.GetLost()), current)
	rests := report.GetResting() && !node.report.GetResting()
	hasAll := p.sealed && report.GetBytes() >= p.length && node.report.GetBytes() < p.length
	urgent = urgent || rests || report.GetTrouble() != node.report.GetTrouble() || p.datagrams && report.GetPaused() != node.report.GetPaused() || report.GetDamaged() != node.report.GetDamaged() || hasAll && from.Role == identity.Agent
	urgent = p.takeLinks(from, report, current, now) || urgent
	for _, child := range report.GetChildren() { // once the tree has the child elsewhere, or nowhere, what this node says of it is no longer heard
		if child.GetRole() != string(identity.Agent) {
			p.acked[child.GetName()] = max(p.acked[child.GetName()], child.GetAckedOffset())
		}
	}
	node.measureRate(report.GetBytes(), now)
	node.report, node.at = report, now
	urgent = p.noteLacking(from, grew, current, now) || urgent
	if from == p.sender && !known {
		p.sentBegun = report.GetBytes()
	}
	p.noteSent(now)
	return urgent
}

// noteReady notes that a node takes something now: before that, nobody had to give it anything.
func (p *progress) noteReady(node *nodeProgress, report *groupv1.DeliveryReport, now time.Time) {
	if node.report.GetPaused() && !report.GetPaused() && !p.datagrams {
		node.readySince = now
	}
	switch {
	case !report.GetQueued() && !node.queued.IsZero():
		p.moved, node.queued, node.missed, node.lacksSince = now, time.Time{}, 0, time.Time{}
	case report.GetQueued() && node.queued.IsZero():
		node.queued = now
	}
}

// queuedSince returns since when a member waits for its turn at its program; zero if it does not, or has not been heard of lately.
func (p *progress) queuedSince(id identity.ID, now time.Time) (since time.Time) {
	if node := p.nodes[id]; node != nil && now.Sub(node.at) < reportPatience {
		since = node.queued
	}
	return since
}

// noteFull notes since when a node's disk has no room.
func (n *nodeProgress) noteFull(report *groupv1.DeliveryReport, now time.Time) {
	switch {
	case report.GetTrouble() != NoRoom:
		n.fullSince = time.Time{}
	case n.fullSince.IsZero():
		n.fullSince = now
	}
}

// noteAlone notes since when a node has reached nobody: whom it names changes with each that it is told to take from.
func (n *nodeProgress) noteAlone(report *groupv1.DeliveryReport, now time.Time) {
	switch {
	case report.GetLost() == "":
		n.alone = time.Time{}
	case n.alone.IsZero():
		n.alone = now
	}
}

// aloneSince returns since when a node has reached nobody that was to feed it; zero if it has, or has not been heard of lately.
func (p *progress) aloneSince(id identity.ID, now time.Time) (since time.Time) {
	if node := p.nodes[id]; node != nil && now.Sub(node.at) < reportPatience {
		since = node.alone
	}
	return since
}

// fullSince returns since when a node says that its disk has no room; zero if it does not.
func (p *progress) fullSince(id identity.ID) (since time.Time) {
	if node := p.nodes[id]; node != nil {
		since = node.fullSince
	}
	return since
}

// said returns a member's last report, and whether that is all there is to know. It is not where this leader took over a running delivery and
// the member has not reported to it yet.
func (p *progress) said(id identity.ID) (report *groupv1.DeliveryReport, isAll bool) {
	report = p.nodes[id].reported()
	return report, report != nil || !p.inherited
}

// noteApart notes that a node could not reach an agent, if the tree has one of that name.
func (p *progress) noteApart(from, agent identity.ID, current *tree.Tree) {
	if current == nil || !p.isAwaited(from) {
		return
	}
	if _, is := current.Parent(agent.String()); is {
		p.apart = from.String() + " could not reach " + agent.String()
	}
}

// noteSent notes when the sender had sent all, once that is known. If the sender's first report to a new leader says so already, it never is.
func (p *progress) noteSent(now time.Time) {
	sender := p.nodes[p.sender]
	if !p.sent.IsZero() || !p.sealed || sender.reported().GetBytes() < p.length || sender == nil || p.inherited && p.sentBegun >= p.length {
		return
	}
	p.sent = sender.bytesAt
	if p.sent.IsZero() {
		p.sent = now
	}
	p.sentOnce = p.sentOver()
}

// sentOver returns how much the sender has sent over all its links.
func (p *progress) sentOver() (bytes uint64) {
	for way, use := range p.links {
		if way.from == p.sender {
			bytes += use.bytes
		}
	}
	return bytes
}

// lastSent returns when the sender last sent anything, if it did.
func (p *progress) lastSent() (last time.Time, sent bool) {
	for way, use := range p.links {
		if way.from == p.sender && use.bytes > 0 {
			last, sent = moment.Latest(last, use.last), true
		}
	}
	return last, sent
}

// sentBefore returns how much the sender sent over links that are no longer in the tree.
func (p *progress) sentBefore(current *tree.Tree) (bytes uint64) {
	for l, carried := range p.links {
		if parent, _ := current.Parent(l.to.String()); l.from == p.sender && parent != l.from.String() {
			bytes += carried.bytes
		}
	}
	return bytes
}

// takeLinks notes what an agent sent to each child, or the sender to its agent. It reports whether a child was given up.
func (p *progress) takeLinks(from identity.ID, report *groupv1.DeliveryReport, current *tree.Tree, now time.Time) (evicted bool) {
	if current == nil {
		return false
	}
	if from == p.sender {
		for _, child := range current.Children(from.String()) {
			to := placement.ParseID(child)
			p.takeLink(link{from, to}, carriage{bytes: p.sentTo(to, report, current), last: now, stripes: report.GetStripes(), use: usedTo(to, report)}, now)
		}
	}
	for _, child := range report.GetChildren() {
		for _, role := range []identity.Role{identity.Member, identity.Agent} {
			to := identity.ID{Role: role, Name: child.GetName()}
			if child.GetRole() != "" && to != identity.Named(child) {
				continue
			}
			if parent, _ := current.Parent(to.String()); parent == from.String() {
				p.takeLink(link{from, to}, carriage{bytes: child.GetSentBytes(), count: child.GetCount(), last: p.before(now, child.GetSinceSent()), stripes: child.GetStripes(), use: child.GetDatagrams()}, now)
				evicted = evicted || child.GetEvicted()
			}
		}
	}
	return evicted
}

// sentTo returns what the sender's links to an agent have carried, by the sender's report.
func (p *progress) sentTo(agent identity.ID, report *groupv1.DeliveryReport, current *tree.Tree) uint64 {
	switch fed := report.GetFed(); {
	case fed == nil: // senders of earlier versions, and those that feed nobody yet, tell only how far they are
		return report.GetBytes() - min(report.GetBytes(), p.sentBefore(current))
	case fed.GetName() != agent.Name: // the sender was only just given this agent
		return 0
	default:
		return fed.GetSentBytes()
	}
}

// usedTo returns what the sender's links to an agent were used for, by the sender's report; nil if it is not known. Senders of earlier versions
// tell only of all links together.
func usedTo(agent identity.ID, report *groupv1.DeliveryReport) *groupv1.DatagramUse {
	fed := report.GetFed()
	if fed != nil && fed.GetName() != agent.Name {
		return nil
	}
	return cmp.Or(fed.GetDatagrams(), report.GetDatagramUse())
}

// before returns when something happened, by a node's report; not before the delivery began.
func (p *progress) before(now time.Time, since *durationpb.Duration) time.Time {
	return moment.Latest(now.Add(-max(0, since.AsDuration())), p.begun)
}

func (p *progress) takeLink(way link, carried carriage, now time.Time) {
	l, known := p.links[way]
	if !known {
		l = &carriage{last: now}
		p.links[way] = l
	}
	if way.from != p.sender && (carried.use != nil || !p.datagrams) { // the sender goes on counting
		all := l.takeTally(tally{carried.bytes, carried.use, carried.count})
		carried.bytes, carried.use = all.bytes, all.use
	}
	l.stripes, l.use = carried.stripes, cmp.Or(carried.use, l.use)
	if carried.bytes > l.bytes {
		l.bytes, l.last = carried.bytes, carried.last
		if p.nodes[way.to].reported().GetTrouble() == "" { // else it may be the same bytes again, and lost again
			p.moved = now
		}
	}
}

// handedOver reports whether an agent has all that was sealed. Of a directory with hashes, it may be at the end without what all have.
func (p *progress) handedOver() bool {
	for id := range p.nodes {
		if id.Role == identity.Agent && p.hasAll(id) && (!p.hashed || p.nodes[id].reported().GetHeldBytes() >= p.length) {
			return true
		}
	}
	return false
}

// hasAll reports whether a node has all that was sealed.
func (p *progress) hasAll(id identity.ID) bool { return p.sealed && p.extent(id) > p.length }

// trouble reports whether a node says that it cannot go on, or cannot reach a neighbour. One that nobody waits for any more has to do neither.
func (p *progress) trouble(now time.Time) bool {
	for id, node := range p.nodes {
		if now.Sub(node.at) < reportPatience && (node.report.GetTrouble() != "" || node.report.GetLost() != "") && p.isAwaited(id) {
			return true
		}
	}
	return false
}

// isAwaited reports whether anybody waits for a node, by what nodes were told last: for a member, or for what is fed by way of the node.
func (p *progress) isAwaited(id identity.ID) bool {
	return p.awaited == nil || id == p.sender || p.awaited[id]
}

// full returns an agent whose disk has no room for what it would cache; empty if none says so.
func (p *progress) full(now time.Time) (agent string) {
	for id, node := range p.nodes {
		if id.Role == identity.Agent && node.report.GetTrouble() == NoRoom && now.Sub(node.at) < reportPatience && (agent == "" || id.Name < agent) {
			agent = id.Name
		}
	}
	return agent
}

// unreached returns the agent that the sender cannot reach, if it has sent nothing so far.
func (p *progress) unreached(now time.Time) (agent string) {
	if sender := p.nodes[p.sender]; sender != nil && sender.report.GetBytes() == 0 && now.Sub(sender.at) < reportPatience {
		return sender.report.GetLost()
	}
	return ""
}

// connected reports whether an agent has a child that is connected.
func (p *progress) connected(now time.Time) bool {
	for _, node := range p.nodes {
		for _, child := range node.report.GetChildren() {
			if child.GetConnected() && now.Sub(node.at) < reportPatience {
				return true
			}
		}
	}
	return false
}

// evicted reports whether the agent that feeds a node gave it up. What earlier feeders say does not count.
func (p *progress) evicted(id identity.ID, current *tree.Tree) bool {
	if current == nil {
		return false
	}
	parent, _ := current.Parent(id.String())
	if p.nodes[id].reported().GetLost() == placement.ParseID(parent).Name { // the node says that its feeder is away, and may be right
		return false
	}
	return p.childReport(placement.ParseID(parent), id).GetEvicted()
}
