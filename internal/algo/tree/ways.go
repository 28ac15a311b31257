package tree

import (
	"cmp"
	"math"
	"time"
)

// ways finds what the paths from the sender cost. A place knows the way from its site's entry; the
// way to that entry is looked up once and kept.
type ways struct {
	*Tree
	entries []arrival // by site, for the entry that was last asked for
	age     int       // grows whenever a node gets a parent
}

// arrival is a path to the node that feeds an entry, if one does.
type arrival struct {
	entry int
	way   way
	fed   bool
	age   int // an arrival that is not fed is valid only as long as nobody has got a parent
}

func (t *Tree) ways() ways { return ways{t, make([]arrival, t.sites.length), 1} }

// attach gives a node a parent.
func (w *ways) attach(child, parent int) {
	w.age++
	w.Tree.attach(child, parent)
}

// to returns the way from the sender to a node, if it is fed.
func (w *ways) to(at int) (way, bool) {
	p := w.at(at)
	before := w.toEntry(p.entry, p.site)
	return before.way.then(p.way), before.fed
}

func (w *ways) fed(at int) bool {
	p := w.at(at)
	return w.toEntry(p.entry, p.site).fed
}

func (w *ways) toEntry(entry, site int) arrival {
	known := w.entries[site]
	if known.entry == entry && (known.fed || known.age == w.age) {
		return known
	}
	a := arrival{entry: entry, fed: entry == 0, age: w.age}
	if parent := w.at(entry).parent; parent != none {
		a.way, a.fed = w.to(parent)
	}
	w.entries[site] = a
	return a
}

// offer is an agent that may feed a node.
type offer struct {
	agent   int
	measure time.Duration // by which it is chosen
	way     way           // from the sender to the agent
	order   int
}

// compare orders offers: the better one first.
func (o offer) compare(other offer) int {
	return cmp.Or(
		cmp.Compare(o.measure, other.measure),
		cmp.Compare(o.way.cost, other.way.cost),
		cmp.Compare(o.way.depth, other.way.depth),
		cmp.Compare(o.order, other.order),
	)
}

// choice gives the measure by which a parent is chosen: the smallest wins.
type choice func(parent way, hop time.Duration) time.Duration

// total is what the child's path costs, nearest what its last hop does.
func total(parent way, hop time.Duration) time.Duration { return parent.cost + hop }
func nearest(_ way, hop time.Duration) time.Duration    { return hop }

// detour is by what factor a path may be longer than the shortest for the sake of a nearer parent. On the
// network of doc.go's second table 1.1 avoids few copies, and 1.5 avoids few more than this.
const detour = 1.25

// thrifty returns the choice of who feeds a cluster's gateway. It takes the nearest of the parents over which the gateway's
// path is at most detour times as long as the shortest. So what goes far goes there once, and is copied after it has
// arrived.
func (w *ways) thrifty(shortest, gateway int) choice {
	path, _ := w.to(shortest)
	longest := time.Duration(float64(total(path, w.hop(shortest, gateway))) * detour)
	return func(parent way, hop time.Duration) time.Duration {
		if parent.cost+hop > longest {
			return math.MaxInt64
		}
		return hop
	}
}

// best returns the best of several parents.
func (w *ways) best(parents []int, child int, by choice) (best offer) {
	of := w.at(child)
	for i, parent := range parents {
		way, _ := w.to(parent)
		if i > 0 && by(way, 0) > best.measure {
			continue
		}
		p := w.at(parent)
		hop, _ := w.dist.hop(p, of)
		if other := (offer{parent, by(way, hop), way, p.order}); i == 0 || other.compare(best) < 0 {
			best = other
		}
	}
	return best
}
