package window

import (
	"math"
	"time"
)

// proposed is the thesis 001 to the letter: a total of receive buffer that follows the round
// trips (§3.1), assigned to initial connections first and to persistent ones after (§3.2), and
// taken from those that do not use it (§5.1).
type proposed struct {
	interval    time.Duration
	total       float64 // B, bytes; zero until something was measured
	next        time.Time
	bottlenecks map[uint64]Bottleneck
	connections map[uint64]*trips
	first       int
}

// trips are the round trips of a connection in this interval, and its mean in the last one.
type trips struct {
	sum        time.Duration
	n          int
	mean       time.Duration
	persistent bool
	used       float64 // the most bytes under way in this interval
	seen       bool
}

// usualCheck is "The interval to check RTTs of TCP connections in our proposed scheme is 5
// seconds" (§4.1.1).
const usualCheck = 5 * time.Second

const (
	// checkNoise is by how much a mean round trip may grow without counting as increased.
	checkNoise = time.Millisecond
	// checkDecrease is the part of the total that is left when all round trips have increased. The
	// total grows by one segment at a time.
	checkDecrease = 7. / 8
	// firstPackets is 2·2^t packets at t = 0, or what a sender begins with today.
	firstPackets = 10
)

func newProposed(o Options) Controller {
	interval := o.Interval
	if interval == 0 {
		interval = usualCheck
	}
	return &proposed{interval: interval, connections: map[uint64]*trips{}, bottlenecks: map[uint64]Bottleneck{}, first: firstPackets * usualMSS}
}

func (p *proposed) First() int { return p.first }

func (p *proposed) Step(now time.Time, facts Facts) Decision {
	facts = sane(facts)
	decision := begin(facts)
	p.observe(facts)
	if p.next.IsZero() {
		p.next = now.Add(p.interval)
	}
	if !now.Before(p.next) {
		p.check(facts)
		p.next = now.Add(p.interval)
	}
	total := p.total
	if facts.Link.Memory > 0 { // §5.1: what the endhost has is less
		total = min(total, float64(facts.Link.Memory))
	}
	decision.Budget = whole(total)
	if total > 0 {
		p.first = int(min(total, firstPackets*usualMSS))
	}
	p.assign(facts, total, &decision)
	return decision
}

// observe adds up the round trips of the interval, and forgets connections that have gone.
func (p *proposed) observe(facts Facts) {
	for _, c := range facts.Clients {
		for _, one := range c.Connections {
			t := p.connections[one.ID]
			if t == nil {
				t = &trips{}
				p.connections[one.ID] = t
			}
			t.seen = true
			t.used = max(t.used, one.Throughput.bytes(one.RTT))
			if one.RTT > 0 && !one.Idle {
				t.sum, t.n = t.sum+one.RTT, t.n+1
			}
		}
	}
	for id, t := range p.connections {
		if !t.seen {
			delete(p.connections, id)
			delete(p.bottlenecks, id)
		}
		t.seen = false
	}
}

// check is §3.1: "When the RTTs of all TCP connections do not increase, […] increase the amount
// of the receive socket buffer for all TCP connections. When the RTTs of all TCP connections
// increase, we decrease the amount […]. Otherwise, we do not change" it. The total begins with
// what is under way.
func (p *proposed) check(facts Facts) {
	increased, compared, used := 0, 0, 0.0
	for id, t := range p.connections {
		used += t.used
		t.used = 0
		if t.n == 0 {
			continue
		}
		mean := t.sum / time.Duration(t.n)
		p.bottlenecks[id] = None
		if t.mean > 0 {
			compared++
			if mean > t.mean+max(checkNoise, t.mean/100) {
				increased++
				p.bottlenecks[id] = Elsewhere
			}
		}
		*t = trips{mean: mean, persistent: t.persistent}
	}
	mss := float64(usualMSS)
	if len(facts.Clients) > 0 {
		mss = float64(facts.Clients[0].mss())
	}
	switch {
	case p.total == 0:
		p.total = used
	case compared == 0:
	case increased == 0:
		p.total += mss
	case increased == compared:
		p.total *= checkDecrease
		for id := range p.bottlenecks {
			p.bottlenecks[id] = AccessLink // §3.3
		}
	}
}

// place is a connection's in the assignment.
type place struct {
	client, connection int
	initial            bool
	size, threshold    float64 // bytes
	lack               float64 // threshold_i − 2·2^t_i
	needs              bool    // all that it gets
	weight             float64 // p_i · rtt_i
	used               float64
}

func (p *proposed) assign(facts Facts, total float64, decision *Decision) {
	places := p.places(facts, total)
	p.initial(places, total)
	p.persistent(facts, places, total)
	for _, at := range places {
		one := facts.Clients[at.client].Connections[at.connection]
		share := &decision.Shares[at.client]
		w := Window{ID: one.ID, State: Persistent}
		if at.initial {
			w.State = Initial
			p.connections[one.ID].persistent = total == 0 || at.size > at.threshold
		}
		if total > 0 {
			w.Bytes = max(1, whole(at.size))
		}
		share.Windows[at.connection] = w
		share.Rate += Rate(at.size / orUsual(one.RTT).Seconds())
		if share.Bottleneck == "" || share.Bottleneck == None {
			share.Bottleneck = p.bottlenecks[one.ID]
		}
	}
	for i, c := range facts.Clients {
		share := &decision.Shares[i]
		share.Reason = Ratio
		if !c.Active {
			share.Reason = Inactive
		}
		if share.Bottleneck == "" {
			share.Bottleneck = None
		}
	}
}

func orUsual(rtt time.Duration) time.Duration {
	if rtt == 0 {
		return usualRTT
	}
	return rtt
}

// places finds which connections are initial: those that have not yet been assigned more than their threshold. "The threshold value is
// set to the receive socket buffer size, in case we consider all of the TCP connections currently at the receiver host to be in a
// persistent state" (§3.2).
func (p *proposed) places(facts Facts, total float64) []place {
	var places []place
	weights := 0.0
	targets := haveTargets(facts)
	for i, c := range facts.Clients {
		for j, one := range c.Connections {
			at := place{client: i, connection: j, used: one.Throughput.bytes(one.RTT), weight: orUsual(one.RTT).Seconds()}
			if targets {
				at.weight *= float64(c.Target) / float64(len(c.Connections))
			}
			at.size = slowStart(one)
			weights += at.weight
			places = append(places, at)
		}
	}
	for i := range places {
		at := &places[i]
		one := facts.Clients[at.client].Connections[at.connection]
		at.threshold = total * at.weight / weights
		at.initial = !p.connections[one.ID].persistent
		at.lack = max(at.threshold-at.size, float64(one.MSS))
	}
	return places
}

func haveTargets(facts Facts) bool {
	for _, c := range facts.Clients {
		if c.Target == 0 && len(c.Connections) > 0 {
			return false
		}
	}
	return true
}

// slowStart is 2·2^t packets, in bytes, where t is "the number of RTTs from the beginning of the
// connection" (§3.2).
func slowStart(one Connection) float64 {
	t := min(one.Age/orUsual(one.RTT), 30)
	return 2 * math.Pow(2, float64(t)) * float64(one.MSS)
}

// initial is (1-a) if there is enough for all of them, else (1-b). A difference of zero to the
// threshold counts as one segment.
func (p *proposed) initial(places []place, total float64) {
	sum, lack := 0.0, 0.0
	for _, at := range places {
		if at.initial {
			sum += at.size
			lack += at.lack
		}
	}
	for i := range places {
		if at := &places[i]; at.initial && sum > total {
			at.size = total * at.lack / lack
		}
	}
}

// persistent is (2-a): what the initial ones leave, by p·rtt; and at least (2-b), one segment.
// After that, connections that do not use theirs leave it to those that use all (§5.1).
func (p *proposed) persistent(facts Facts, places []place, total float64) {
	rest, weights := total, 0.0
	for _, at := range places {
		if at.initial {
			rest -= at.size
		} else {
			weights += at.weight
		}
	}
	rest = max(0, rest)
	spare, needing := 0.0, 0.0
	for i := range places {
		at := &places[i]
		one := facts.Clients[at.client].Connections[at.connection]
		if at.initial {
			continue
		}
		at.size = max(rest*at.weight/weights, float64(one.MSS))
		required := at.used*usableShare + 2*float64(one.MSS)
		if one.Window > 0 && required < at.size {
			spare += at.size - required
			at.size = required
		} else {
			at.needs = true
			needing += at.weight
		}
	}
	for i := range places {
		if at := &places[i]; at.needs {
			at.size += spare * at.weight / needing
		}
	}
}
