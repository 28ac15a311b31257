package delivery

import (
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// feeding is by whom a node is fed, and since when that is so, or this manager knows it. Patience with both begins
// then; what becomes of others in the tree does not begin it anew.
type feeding struct {
	by    string
	since time.Time
}

// missedMost is how often in a row the one that feeds a node has to tell of more datagrams while none comes to the node: of a stream with
// a datagram now and then, several in a row may be lost.
const missedMost = 10

// feedings returns by whom the nodes of a tree are fed, after those of an earlier one. Who is absent feeds nobody, and
// is fed by nobody.
func feedings(t *tree.Tree, absent []string, before map[identity.ID]feeding, now time.Time) map[identity.ID]feeding {
	if t == nil {
		return nil
	}
	all := make(map[identity.ID]feeding, t.Len())
	for _, name := range t.Names() {
		by, _ := t.Parent(name)
		if slices.Contains(absent, name) || slices.Contains(absent, by) {
			by = ""
		}
		id := placement.ParseID(name)
		if was, known := before[id]; known && was.by == by {
			all[id] = was
			continue
		}
		all[id] = feeding{by, now}
	}
	return all
}

// lacks tells whether a node lacks something that the one has which feeds it. Of datagrams that is so when the last few times
// there was more at that one nothing came here: what merely some of them miss is lost.
func (j judge) lacks(id, feeder identity.ID) bool {
	if j.datagrams {
		return j.nodes[id] != nil && j.nodes[id].missed >= missedMost
	}
	there := j.extent(feeder)
	if feeder == j.sender && j.sealed {
		there = j.length + 1
	}
	return j.extent(id) < there
}

// gets tells whether a node lately got something from the one that feeds it; of a stream in datagrams, if there was something.
func (j judge) gets(id identity.ID) bool {
	node := j.nodes[id]
	if !j.datagrams {
		return node != nil && j.now.Sub(node.bytesAt) < feedsPatience
	}
	return j.isHeard(id) && node.missed < missedMost && node.bytesAt.After(j.fedBy[id].since)
}

// lacksSince returns since when a node can have had something from the one that feeds it, and lacks it.
func (j judge) lacksSince(id identity.ID) (since time.Time) {
	if node := j.nodes[id]; node != nil {
		since = node.lacksSince
	}
	return moment.Latest(since, j.fedBy[id].since, j.begun)
}

// noteLacking notes since when a node lacks something that the one has which feeds it, and those that it feeds. It reports
// whether one of them begins to.
func (p *progress) noteLacking(id identity.ID, grew bool, current *tree.Tree, now time.Time) (begins bool) {
	switch {
	case current == nil:
		return false
	case p.datagrams:
		return grew && p.noteMissing(id, current, now)
	}
	if feeder, fed := current.Parent(id.String()); fed {
		p.compare(placement.ParseID(feeder), id, now)
	}
	for _, child := range current.Children(id.String()) {
		p.compare(id, placement.ParseID(child), now)
	}
	return false
}

// noteMissing notes that more datagrams came to a node, which those have to get that it feeds. It reports whether one of them has
// missed so many that it lacks them.
func (p *progress) noteMissing(id identity.ID, current *tree.Tree, now time.Time) (lacks bool) {
	if node := p.nodes[id]; node != nil {
		node.missed, node.lacksSince = 0, time.Time{}
	}
	for _, child := range current.Children(id.String()) {
		node := p.nodes[placement.ParseID(child)]
		if node == nil {
			continue
		}
		if node.missed == 0 {
			node.lacksSince = now
		}
		node.missed++
		lacks = lacks || node.missed == missedMost
	}
	return lacks
}

func (p *progress) compare(feeder, id identity.ID, now time.Time) {
	switch node := p.nodes[id]; {
	case node == nil:
	case p.extent(id) >= p.extent(feeder):
		node.lacksSince = time.Time{}
	case node.lacksSince.IsZero():
		node.lacksSince = now
	}
}
