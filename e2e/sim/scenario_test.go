package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// scenario is what one run is made of.
type scenario struct {
	seed       uint64
	agents     []place
	receivers  []place
	shape      simnet.Shape
	policy     sdk.Policy
	deliveries []parcel
	faults     simnet.Schedule
	deadline   time.Duration // of each delivery; zero for none
	stripes    int           // the least number of stripes of a link between two agents
	idler      *place        // an agent that attracts others and moves nothing; no faults happen to it
	drawn      []occasion    // the occasions in it; each has to be in some run
	others     []string      // managers beside the first; all share one store, on a host of its own
}

// occasion is something that happens in some runs.
type occasion string

const (
	deaths     occasion = "a third dies at once"
	split      occasion = "a cluster is split"
	swallowing occasion = "large packets vanish"
	idling     occasion = "an agent moves nothing"
	streaming  occasion = "a stream is sent"
	floored    occasion = "who is too slow for a pace is given up"
	relayed    occasion = "what agents have counts"
	timed      occasion = "who falls behind is given up by time alone"
	changing   occasion = "members have an earlier version"
)

// managers are the hosts of all managers, and endpoints their addresses.
func (s *scenario) managers() []string { return append([]string{managerHost}, s.others...) }

func (s *scenario) endpoints() (all []string) {
	for _, name := range s.managers() {
		all = append(all, name+":7400")
	}
	return all
}

// place is where a program runs, and what it may take.
type place struct {
	name, node, zone string
	cache            int64 // of an agent, or of a receiver that relays
}

func (p place) relays() bool { return p.cache > 0 }

// parcel is one delivery.
type parcel struct {
	name  string
	after time.Duration // how long after the beginning of the faults
	size  int
	files int // of a directory; zero means a single file
	// stream makes it be sent as a stream, which appears in a member's directory as it comes.
	stream bool
	// changes has members be sent what they lack of it: each has an earlier version, or none.
	changes bool
}

const (
	managerHost = "manager"
	senderHost  = "sender"
)

// What came into scenarios later is drawn from a source of its own, numbered in the order of coming: what was drawn for a seed
// before stays what it was, and seeds that once failed can be run again. Managers' faults and swizzles are drawn for tests of
// their own, from sources that draw uses too.
const (
	drawsBase = iota + 1
	drawsRelays
	drawsSwallowing
	drawsIdler
	drawsKind
	drawsChanges

	drawsManagers = drawsIdler
	drawsSwizzle  = drawsKind
)

// source returns one of a seed's sources.
func source(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }

// draw draws a scenario.
func draw(seed uint64) scenario {
	random := source(seed, drawsBase)
	s := scenario{seed: seed}
	zones := []string{"x", "y", "z"}[:1+random.IntN(3)]
	for i := range 2 + random.IntN(3) {
		name := fmt.Sprintf("a%d", i+1)
		s.agents = append(s.agents, place{name, name, zones[random.IntN(len(zones))], drawCache(random)})
	}
	for i := range 2 + random.IntN(4) {
		r := place{name: fmt.Sprintf("r%d", i+1), node: fmt.Sprintf("r%d", i+1)}
		if random.IntN(4) > 0 {
			r.node = s.agents[random.IntN(len(s.agents))].node
		}
		s.receivers = append(s.receivers, r)
	}
	span := []time.Duration{3 * time.Second, 12 * time.Second, 30 * time.Second, 80 * time.Second}[random.IntN(4)]
	s.policy = drawPolicy(random)
	if relaying := source(seed, drawsRelays); relaying.IntN(5) == 0 {
		s.drawRelays(relaying)
	}
	for i := range 1 + random.IntN(5)/4 {
		p := parcel{name: fmt.Sprintf("object-%d", i), after: time.Duration(random.Int64N(int64(span / 4))), size: drawSize(random)}
		if random.IntN(6) == 0 {
			p.files = 1 + random.IntN(5)
		}
		s.deliveries = append(s.deliveries, p)
	}
	s.shape = simnet.Shape{Latency: time.Duration(random.IntN(20)) * time.Millisecond}
	if random.IntN(4) > 0 {
		took := time.Duration(random.Int64N(int64(span))) + time.Second/2
		s.shape.Rate = simnet.Rate(max(32<<10, float64(s.deliveries[0].size)/took.Seconds()))
	}
	if random.IntN(8) == 0 {
		s.deadline = span
	}
	chain := random.IntN(6) == 0
	if chain {
		s.makeChain(random)
	}
	s.drawFaults(random, span)
	if chain {
		s.slowDown(random)
	}
	if random.IntN(8) == 0 {
		s.drawDeaths(random, span)
	}
	if random.IntN(2) == 0 {
		s.stripes = 2 + random.IntN(3)
	}
	if s.isNarrow() {
		s.stripes = 0
	}
	if swallowing := source(seed, drawsSwallowing); swallowing.IntN(6) == 0 {
		s.drawSwallowing(swallowing, span)
	}
	if lying := source(seed, drawsIdler); lying.IntN(6) == 0 && len(s.agents) > 0 {
		s.drawIdler(lying)
	}
	s.drawKind(source(seed, drawsKind))
	s.drawChanges(source(seed, drawsChanges))
	return s
}

// drawChanges sometimes has members have an earlier version of what is sent.
func (s *scenario) drawChanges(random *rand.Rand) {
	if p := &s.deliveries[0]; random.IntN(4) == 0 && !p.stream {
		p.files, p.changes = 1+random.IntN(5), true
		s.drawn = append(s.drawn, changing)
	}
}

// drawKind sometimes turns a parcel into a stream, gives members up that are below a pace, or only by time, or lets
// only agents acknowledge.
func (s *scenario) drawKind(random *rand.Rand) {
	if p := &s.deliveries[0]; random.IntN(5) == 0 && p.files == 0 {
		p.stream = true
		s.drawn = append(s.drawn, streaming)
	}
	if random.IntN(6) == 0 && s.policy.SlowMember.Action == sdk.Pace {
		s.policy.SlowMember.FloorBytesPerSecond = uint64(4<<10 + random.IntN(32<<10))
		s.drawn = append(s.drawn, floored)
	}
	if random.IntN(6) == 0 {
		s.policy.AckLevel = sdk.Relayed
		s.drawn = append(s.drawn, relayed)
	}
	if random.IntN(3) == 0 && s.policy.SlowMember.Action == sdk.Evict {
		s.policy.SlowMember.LagBytes = 0
		s.drawn = append(s.drawn, timed)
	}
}

// drawIdler puts an idler beside somebody, or alone.
func (s *scenario) drawIdler(random *rand.Rand) {
	s.drawn = append(s.drawn, idling)
	beside := []string{"idle", senderHost}
	for _, p := range slices.Concat(s.agents, s.receivers) {
		beside = append(beside, p.node)
	}
	s.idler = &place{"idle", beside[random.IntN(len(beside))], s.agents[random.IntN(len(s.agents))].zone, 1}
}

// striped is the rate from which on a link may have several stripes. The network has no congestion control, and
// at a lower rate, what many connections have under way takes longer than a neighbour may be silent.
const striped = 128 << 10

// isNarrow reports whether a few blocks under way take about as long as anybody waits.
func (s *scenario) isNarrow() bool { return s.shape.Rate > 0 && s.shape.Rate < striped }

// drawSwallowing makes large packets vanish on the way to one host, from all others or from some:
// it shows that it lives, and gets nothing.
func (s *scenario) drawSwallowing(random *rand.Rand, span time.Duration) {
	s.drawn = append(s.drawn, swallowing)
	hosts := s.hosts()
	to := hosts[2+random.IntN(len(hosts)-2)]
	from := time.Duration(random.Int64N(int64(span)))
	until := from + time.Duration(random.Int64N(int64(span/3)))
	everywhere := random.IntN(2) == 0
	for _, host := range hosts {
		if host != to && (everywhere || random.IntN(2) == 0) {
			s.replaceFaults(host, to, simnet.Fault{From: from, Until: until, Kind: simnet.Swallow, A: host, B: to})
		}
	}
}

// drawRelays makes receivers relay, in addition to agents or in their place.
func (s *scenario) drawRelays(random *rand.Rand) {
	s.policy.MembersRelay = true
	if random.IntN(2) == 0 {
		s.agents = nil
	}
	first := random.IntN(len(s.receivers))
	for i := range s.receivers {
		r := &s.receivers[i]
		if len(s.agents) == 0 {
			r.node = r.name
		}
		if i == first || random.IntN(2) == 0 {
			r.cache = drawCache(random)
		}
	}
}

// nodes returns the places of all that relay.
func (s *scenario) nodes() []place {
	return slices.DeleteFunc(slices.Concat(s.agents, s.receivers), func(p place) bool { return !p.relays() })
}

func (s *scenario) isNode(host string) bool {
	return slices.ContainsFunc(s.nodes(), func(p place) bool { return p.name == host })
}

// makeChain puts an agent beside each of some receivers, and makes the object large.
func (s *scenario) makeChain(random *rand.Rand) {
	s.agents, s.receivers = nil, nil
	for i := range 3 + random.IntN(3) {
		agent := fmt.Sprintf("a%d", i+1)
		s.agents = append(s.agents, place{agent, agent, "x", drawCache(random)})
		s.receivers = append(s.receivers, place{name: fmt.Sprintf("r%d", i+1), node: agent})
	}
	s.deliveries[0].size, s.deliveries[0].files = 2<<20+random.IntN(2<<20), 0
	s.shape.Rate = 2 << 20
}

const slowRate = 96 << 10

// slowDown makes an agent in the middle of a chain slow towards everybody except the manager.
func (s *scenario) slowDown(random *rand.Rand) {
	slow := s.agents[1+random.IntN(len(s.agents)-2)].name
	for _, host := range s.hosts()[1:] {
		if host != slow {
			s.replaceFaults(slow, host, simnet.Fault{Until: time.Minute, Kind: simnet.SlowDown, A: slow, B: host, Rate: slowRate})
			s.replaceFaults(host, slow, simnet.Fault{Until: time.Minute, Kind: simnet.SlowDown, A: host, B: slow, Rate: slowRate})
		}
	}
}

// drawDeaths lets a third of all agents and receivers, or a little more, die within a second.
func (s *scenario) drawDeaths(random *rand.Rand, span time.Duration) {
	s.drawn = append(s.drawn, deaths)
	from := time.Duration(random.Int64N(int64(span)))
	hosts := s.hosts()[2:]
	random.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	for _, host := range hosts[:(len(hosts)+2)/3] {
		died := from + time.Duration(random.Int64N(int64(time.Second)))
		s.faults = slices.DeleteFunc(s.faults, func(f simnet.Fault) bool { return f.A == host && f.B == "" })
		s.faults = append(s.faults, simnet.Fault{From: died, Until: died + 20*time.Second, Kind: simnet.Crash, A: host})
	}
}

// drawSwizzle cuts agents off one by one, and lets them come back in another order.
func (s *scenario) drawSwizzle(random *rand.Rand) {
	s.agents, s.faults, s.idler, s.drawn = nil, nil, nil, nil
	zones := []string{"x", "y", "z"}
	for i := range 7 {
		name := fmt.Sprintf("a%d", i+1)
		s.agents = append(s.agents, place{name, name, zones[random.IntN(len(zones))], drawCache(random)})
	}
	for i := range s.receivers {
		s.receivers[i].node = s.agents[random.IntN(len(s.agents))].node
	}
	clogged := slices.Clone(s.agents[:3+random.IntN(5)])
	from, until := make(map[string]time.Duration), make(map[string]time.Duration)
	var at time.Duration
	step := func() time.Duration {
		at += time.Duration(random.Int64N(int64(3 * time.Second)))
		return at
	}
	for _, times := range []map[string]time.Duration{from, until} {
		random.Shuffle(len(clogged), func(i, j int) { clogged[i], clogged[j] = clogged[j], clogged[i] })
		for _, p := range clogged {
			times[p.name] = step()
		}
	}
	hosts := s.hosts()
	for i, a := range hosts {
		for _, b := range hosts[i+1:] {
			fault := simnet.Fault{From: at, Kind: simnet.CutBoth, A: a, B: b}
			for _, host := range []string{a, b} {
				if end, cut := until[host]; cut {
					fault.From, fault.Until = min(fault.From, from[host]), max(fault.Until, end)
				}
			}
			if fault.Until > 0 {
				s.faults = append(s.faults, fault)
			}
		}
	}
}

// replaceFaults replaces all faults of a link by one, so that the end of one does not end another.
func (s *scenario) replaceFaults(a, b string, with simnet.Fault) {
	s.faults = slices.DeleteFunc(s.faults, func(f simnet.Fault) bool {
		return f.Kind != with.Kind && (f.A == a && f.B == b || f.A == b && f.B == a)
	})
	s.faults = append(s.faults, with)
}

func drawSize(random *rand.Rand) int {
	switch random.IntN(8) {
	case 0:
		return random.IntN(3)
	case 1:
		return 1<<20 + random.IntN(2<<20)
	}
	return 1 + random.IntN(512<<10)
}

// drawCache returns a limit that is often smaller than the object.
func drawCache(random *rand.Rand) int64 {
	switch random.IntN(3) {
	case 0:
		return 1 << 20
	case 1:
		return int64(128<<10 + random.IntN(512<<10))
	}
	return 16 << 20
}

func drawPolicy(random *rand.Rand) sdk.Policy {
	policy := sdk.Policy{
		ControlMode: []sdk.ControlMode{sdk.Hop, sdk.EndToEnd}[random.IntN(2)],
		AckLevel:    []sdk.AckLevel{sdk.Received, sdk.Durable}[random.IntN(2)],
		DataPlane:   []sdk.DataPlane{sdk.TLS, sdk.Plaintext}[random.IntN(2)],
	}
	switch random.IntN(4) {
	case 0:
		policy.SlowMember = sdk.SlowMember{Action: sdk.Pace}
	case 1:
		policy.SlowMember = sdk.SlowMember{Action: sdk.Detach}
	case 2:
		policy.SlowMember = sdk.SlowMember{Action: sdk.Evict, LagBytes: uint64(64<<10 + random.IntN(1<<20)), LagTime: time.Duration(1+random.IntN(8)) * time.Second}
	}
	return policy
}

// drawFaults draws what happens: mostly to the links and agents of the tree, sometimes to the
// members, their links to the manager, the manager and the sender.
func (s *scenario) drawFaults(random *rand.Rand, span time.Duration) {
	chaos := simnet.Chaos{Faults: random.IntN(16), Span: span, Flips: random.IntN(2) == 0}
	for _, agent := range s.agents {
		if random.IntN(3) > 0 {
			chaos.Hosts = append(chaos.Hosts, agent.name)
		}
	}
	oneIn := map[string]int{managerHost: 6, senderHost: 12}
	for _, host := range s.hosts() {
		if !isAgent(host) && random.IntN(max(oneIn[host], 4)) == 0 {
			chaos.Hosts = append(chaos.Hosts, host)
		}
	}
	chaos.Links = s.drawLinks(random)
	s.faults = chaos.Schedule(random)
	if random.IntN(6) == 0 {
		s.partition(random, span)
	}
}

// relaying returns how many agents there are, whatever they do.
func (s *scenario) relaying() int {
	if s.idler != nil {
		return len(s.nodes()) + 1
	}
	return len(s.nodes())
}

func isAgent(host string) bool { return strings.HasPrefix(host, "a") }

// drawLinks draws some links that may be hit: so few that they are hit again and again.
func (s *scenario) drawLinks(random *rand.Rand) [][2]string {
	var links [][2]string
	hosts := s.hosts()
	for i, a := range hosts {
		for _, b := range hosts[i+1:] {
			if s.isNode(a) || s.isNode(b) || a == managerHost && random.IntN(2) == 0 {
				links = append(links, [2]string{a, b})
			}
		}
	}
	random.Shuffle(len(links), func(i, j int) { links[i], links[j] = links[j], links[i] })
	return links[:1+random.IntN(min(len(links), 8))]
}

// partition cuts a set of hosts off from all others for a time. If two agents are of one zone, it splits that zone.
func (s *scenario) partition(random *rand.Rand, span time.Duration) {
	from := time.Duration(random.Int64N(int64(span)))
	until := from + time.Duration(random.Int64N(int64(span/4)))
	var sides [2][]string
	fixed := s.twoOfAZone()
	if len(fixed) > 0 {
		s.drawn = append(s.drawn, split)
	}
	for _, host := range s.hosts() {
		side := random.IntN(2)
		if slices.Contains(fixed, host) {
			side = slices.Index(fixed, host)
		}
		sides[side] = append(sides[side], host)
	}
	for _, a := range sides[0] {
		for _, b := range sides[1] {
			s.replaceFaults(a, b, simnet.Fault{From: from, Until: until, Kind: simnet.CutBoth, A: a, B: b})
		}
	}
}

// twoOfAZone returns two agents of one zone, or none.
func (s *scenario) twoOfAZone() []string {
	first := make(map[string]string)
	for _, p := range s.agents {
		if other, known := first[p.zone]; known {
			return []string{other, p.name}
		}
		first[p.zone] = p.name
	}
	return nil
}

func (s *scenario) hosts() []string {
	hosts := []string{managerHost, senderHost}
	for _, p := range slices.Concat(s.agents, s.receivers) {
		hosts = append(hosts, p.name)
	}
	return hosts
}

// hits reports whether a fault of one of some kinds concerns a host or, if another is named, the link between them.
func (s *scenario) hits(host, other string, kinds ...simnet.Kind) bool {
	return slices.ContainsFunc(s.faults, func(f simnet.Fault) bool {
		if len(kinds) > 0 && !slices.Contains(kinds, f.Kind) {
			return false
		}
		if f.B == "" {
			return f.A == host || other != "" && f.A == other
		}
		if other == "" {
			return f.A == host || f.B == host
		}
		return f.A == host && f.B == other || f.A == other && f.B == host
	})
}

func (s *scenario) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "policy %+v\nshape %+v deadline %v stripes %d\n", s.policy, s.shape, s.deadline, s.stripes)
	for _, p := range s.agents {
		fmt.Fprintf(&text, "agent %s zone %s cache %d\n", p.name, p.zone, p.cache)
	}
	if s.idler != nil {
		fmt.Fprintf(&text, "an agent that moves nothing on %s, zone %s\n", s.idler.node, s.idler.zone)
	}
	for _, p := range s.receivers {
		fmt.Fprintf(&text, "receiver %s on %s, cache %d\n", p.name, p.node, p.cache)
	}
	for _, p := range s.deliveries {
		fmt.Fprintf(&text, "delivery %s after %v: %d bytes, %d files\n", p.name, p.after, p.size, p.files)
	}
	fmt.Fprintf(&text, "faults:\n%s", s.faults)
	return text.String()
}
