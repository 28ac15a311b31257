package cluster

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

const (
	// Round is how many nodes a node measures at once at most.
	Round = 8
	// Refresh is after how long a time is measured again.
	Refresh = time.Minute
	// landmarkCount is how many nodes all others measure first.
	landmarkCount = 4
	// acquainted is how many nodes a node measures of a cluster to which it may belong.
	acquainted = 8
)

// Why a node is measured; the first reason goes first.
const (
	isLandmark = iota // the distances from it tell which nodes may be near
	isDoubtful        // it is far, though others of its cluster are near, or it says otherwise: a queue may have been full
	mayBeNear         // where a node belongs is decided by these
	isOwed            // it has measured this one
	isStrange         // nobody of its cluster is known
	isOld             // it was measured long ago
	noReason
)

// candidate is a node that may be measured.
type candidate struct {
	name    string
	cluster string
	reason  int
	owed    bool          // it has measured this node, which counts only when both have measured
	guess   time.Duration // a bound: it is not nearer than this
	order   uint64        // decides among equals, in the same way at both ends of a pair
}

// Next returns the nodes that a node, or a guest, is to measure now, and whether there is more to
// find out than whether all is as it was. Nodes whose answer it waits for are left out.
func (c *Clusters) Next(who string, times *Times, waits func(name string) bool, now time.Time) (names []string, urgent bool) {
	n := c.outlook(who, times, now)
	var all []candidate
	for name := range c.of {
		if one := n.consider(name); one.reason != noReason && !waits(name) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.reason, b.reason), cmp.Compare(rank(b.owed), rank(a.owed)), cmp.Compare(a.guess, b.guess),
			cmp.Compare(a.order, b.order), strings.Compare(a.name, b.name),
		)
	})
	for _, one := range all {
		if len(names) == Round {
			break
		}
		if n.takes(one) {
			names = append(names, one.name)
			urgent = urgent || one.reason < isOld
		}
	}
	return names, urgent
}

// outlook is what a node knows of the others.
type outlook struct {
	*Clusters
	who     string
	times   *Times
	now     time.Time
	said    map[string]time.Duration
	known   map[string]int           // nodes measured, by cluster
	nearest map[string]time.Duration // the shortest time to one of these
}

func (c *Clusters) outlook(who string, times *Times, now time.Time) *outlook {
	o := &outlook{
		Clusters: c, who: who, times: times, now: now, said: times.Of(who, now),
		known: make(map[string]int), nearest: make(map[string]time.Duration),
	}
	for name, rtt := range o.said {
		label := c.of[name]
		if o.known[label]++; o.known[label] == 1 || rtt < o.nearest[label] {
			o.nearest[label] = rtt
		}
	}
	return o
}

func (o *outlook) consider(name string) candidate {
	one := candidate{name: name, cluster: o.of[name], reason: noReason}
	rtt, measured := o.said[name]
	switch {
	case name == o.who:
	case measured:
		one.guess, one.reason = rtt, o.reasonAgain(one)
	default:
		_, one.owed = o.times.Said(name, o.who, o.now)
		one.guess = o.guess(name)
		one.reason = o.reasonFirst(one)
	}
	if one.reason != noReason {
		one.order = order(o.who, name)
	}
	return one
}

// reasonFirst returns why to measure a node that was not measured yet.
func (o *outlook) reasonFirst(one candidate) int {
	switch {
	case slices.Contains(o.landmarks, one.name):
		return isLandmark
	case o.mayBeNear(one):
		return mayBeNear
	case one.owed:
		return isOwed
	}
	return isStrange
}

// reasonAgain returns why to measure a node again.
func (o *outlook) reasonAgain(one candidate) int {
	switch {
	case o.isDoubtful(one):
		return isDoubtful
	case o.times.age(o.who, one.name, o.now) >= Refresh:
		return isOld
	}
	return noReason
}

func (o *outlook) isDoubtful(one candidate) bool {
	if o.said[one.name] <= o.threshold || o.times.count(o.who, one.name) == remembered {
		return false
	}
	byIt, known := o.times.Said(one.name, o.who, o.now)
	return o.nearest[one.cluster] <= o.threshold || known && byIt <= o.threshold
}

func (o *outlook) mayBeNear(one candidate) bool {
	if nearest, known := o.nearest[one.cluster]; known {
		return nearest <= 2*o.threshold
	}
	return one.guess <= 2*o.threshold
}

// takes reports whether to measure a node, and counts it as known from then on.
func (o *outlook) takes(one candidate) bool {
	most := acquainted
	switch {
	case one.reason == mayBeNear && !one.owed:
	case one.reason == isStrange:
		most = 1
	default:
		return true
	}
	if o.known[one.cluster] >= most {
		return false
	}
	o.known[one.cluster]++
	return true
}

// guess returns a lower bound of the round trip to a node, by the triangle inequality. It needs a
// landmark that both have measured.
func (o *outlook) guess(name string) (least time.Duration) {
	for _, landmark := range o.landmarks {
		own, known := o.said[landmark]
		others, also := o.times.Said(name, landmark, o.now)
		if known && also {
			least = max(least, (own - others).Abs())
		}
	}
	return least
}

func rank(fact bool) int {
	if fact {
		return 1
	}
	return 0
}

// order gives pairs an order without any pattern.
func order(a, b string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(min(a, b) + "\x00" + max(a, b)))
	return hash.Sum64()
}
