package delivery

import (
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// feeding says who feeds a node, and since when, as far as this manager knows. Patience with both begins then; changes elsewhere in the tree do
// not begin it anew.
type feeding struct {
	by    string
	since time.Time
}

// missedMost is how often in a row a feeder has to report more datagrams while none comes to a node, before the node counts as lacking them: of
// a stream with a datagram now and then, several in a row may be lost.
const missedMost = 10

// feedings returns the feeder of each node of a tree, and since when: a node whose feeder is the same as before keeps that time. An absent node
// feeds nobody, and is fed by nobody.
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

// lacks reports whether a node lacks something that its feeder has. In datagrams, it does if nothing came to it the last missedMost times that
// its feeder got more: if only some of them do not come, those are lost.
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

// gets reports whether a node lately got something from its feeder. In datagrams, where there may have been nothing to get, it reports whether
// the node has got something from this feeder and has not missed too much since.
func (j judge) gets(id identity.ID) bool {
	node := j.nodes[id]
	if !j.datagrams {
		return node != nil && j.now.Sub(node.bytesAt) < feedsPatience
	}
	return j.isHeard(id) && node.missed < missedMost && node.bytesAt.After(j.fedBy[id].since)
}

// lacksSince returns since when a node could have had something from its feeder that it lacks.
func (j judge) lacksSince(id identity.ID) (since time.Time) {
	if node := j.nodes[id]; node != nil {
		since = moment.Latest(node.lacksSince, node.readySince)
	}
	return moment.Latest(since, j.fedBy[id].since, j.begun)
}

// noteLacking notes since when a node lacks something that its feeder has, and since when its children lack something that it has. In
// datagrams, it reports whether a child begins to.
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

// noteMissing notes that more datagrams came to a node, which its children should get, too, as far as anybody waits for these. It reports whether a child has now missed so many
// that it lacks them.
func (p *progress) noteMissing(id identity.ID, current *tree.Tree, now time.Time) (lacks bool) {
	if node := p.nodes[id]; node != nil {
		node.noteGets(now)
		node.missed, node.lacksSince = 0, time.Time{}
	}
	for _, child := range current.Children(id.String()) {
		node := p.nodes[placement.ParseID(child)]
		if node == nil || !p.isAwaited(placement.ParseID(child)) {
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

// noteGets notes that datagrams came to a node. Once they have for as long as it may ever get nothing, what it moved for before says nothing of
// its own path.
func (n *nodeProgress) noteGets(now time.Time) {
	if n.getsSince.IsZero() || n.missed >= missedMost {
		n.getsSince = now
	}
	if now.Sub(n.getsSince) >= longestStarving {
		n.unfed = 0
	}
}

// await notes who is waited for from now on. Who was not until now is not judged by what it lacked before.
func (p *progress) await(waiting map[identity.ID]bool, now time.Time) {
	for id, node := range p.nodes {
		if p.isAwaited(id) || !waiting[id] {
			continue
		}
		node.missed = 0
		if !node.lacksSince.IsZero() {
			node.lacksSince = now
		}
	}
	p.awaited = waiting
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
