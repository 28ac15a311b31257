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

// lacksSince returns since when a node can have had something from the one that feeds it, and lacks it.
func (j judge) lacksSince(id identity.ID) (since time.Time) {
	if node := j.nodes[id]; node != nil {
		since = node.lacksSince
	}
	return moment.Latest(since, j.fedBy[id].since, j.begun)
}

// noteLacking notes since when a node lacks something that the one has which feeds it, and those that it feeds.
func (p *progress) noteLacking(id identity.ID, current *tree.Tree, now time.Time) {
	if current == nil {
		return
	}
	if feeder, fed := current.Parent(id.String()); fed {
		p.compare(placement.ParseID(feeder), id, now)
	}
	for _, child := range current.Children(id.String()) {
		p.compare(id, placement.ParseID(child), now)
	}
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
