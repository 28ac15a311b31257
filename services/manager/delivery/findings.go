package delivery

import (
	"maps"
	"time"

	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// findings are what a rearrangement finds out about nodes. They are held against the nodes once the new tree is written: while it cannot be,
// the nodes stay where they are, and have to be found out again. Complaints are held also where it never can be.
type findings struct {
	banned     map[string]time.Time      // agents that are lost, and until when they are out
	believed   map[identity.ID]time.Time // when a node's word alone has an agent taken out as unreachable, by node
	doubted    map[link]doubt
	unfed      []identity.ID          // members that move since they got nothing
	damaged    map[identity.ID]string // the agents that members are moved away from since they got damaged bytes, by member
	complaints map[identity.ID]string // the relays that members are moved away from since these gave them up, by member
	lowered    []lowered
}

// lowered is that an agent moves for the rates that it and others have shown, in a tree as it was before.
type lowered struct {
	reshape.Move
	before *tree.Tree
	at     time.Time
}

// doubt says that a node got no more from its feeder than this extent. It does not count for ever: what was in the way may be gone, and so
// may the node that fed it instead.
type doubt struct {
	extent uint64
	until  time.Time
}

func newFindings() findings {
	return findings{
		banned: make(map[string]time.Time), believed: make(map[identity.ID]time.Time), doubted: make(map[link]doubt),
		damaged: make(map[identity.ID]string), complaints: make(map[identity.ID]string),
	}
}

// hold holds findings against the nodes that they are about.
func (k *keeper) hold(found findings) {
	maps.Copy(k.bannedUntil, found.banned)
	maps.Copy(k.believedAt, found.believed)
	for _, l := range found.lowered {
		k.lag.Moved(l.Move, l.before, l.at)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.Copy(k.progress.doubted, found.doubted)
	for _, member := range found.unfed {
		if node := k.progress.nodes[member]; node != nil {
			node.unfed++
		}
	}
	k.progress.holdComplaints(found.complaints)
	for member, from := range found.damaged {
		if node := k.progress.nodes[member]; node != nil {
			node.damagedBy = append(node.damagedBy, from)
		}
	}
}

// ban keeps an agent out of the tree for a while.
func (r *rearrangement) ban(agent string, span time.Duration) {
	r.banned[placement.ParseID(agent).Name] = r.now.Add(span)
}

// doubt notes that a node got no more from its feeder than it has now. If it gets nothing from another feeder either, it may be to blame
// itself: it is not believed about this feeder again until it has got more, or a while has passed.
func (r *rearrangement) doubt(feeder, id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doubted[link{feeder, id}] = doubt{r.progress.extent(id), r.now.Add(idleMemory)}
}

// doubtedBy returns the feeders over which a node got no more than it has now.
func (k *keeper) doubtedBy(id identity.ID) (feeders []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for way := range k.progress.doubted {
		if way.to == id && k.progress.isDoubted(way, time.Now()) {
			feeders = append(feeders, way.from.String())
		}
	}
	return feeders
}

// isDoubted reports whether a node was lately found to get nothing over a link, and has got no more since.
func (p *progress) isDoubted(way link, now time.Time) bool {
	of, doubted := p.doubted[way]
	return doubted && of.extent == p.extent(way.to) && now.Before(of.until)
}

// doubtAll notes a doubt of the link that feeds an agent and of each link to its children.
func (r *rearrangement) doubtAll(agent string, in *tree.Tree) {
	id := placement.ParseID(agent)
	feeder, _ := in.Parent(agent)
	r.doubt(placement.ParseID(feeder), id)
	for _, name := range in.Children(agent) {
		r.doubt(id, placement.ParseID(name))
	}
}
