package delivery

import (
	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/services/manager/view"
)

// A tree goes by all that was measured of its group, which takes more memory than the rest of it. Trees that go by the same share that. So a
// delivery that runs goes by what is measured now, as others do, and one that has ended holds nothing of it until somebody comes late.

// measureAgain has the tree go by what is measured now: once in a while, and at once where it goes by nothing. Nobody moves.
func (r *rearrangement) measureAgain() {
	if r.tree == nil {
		return
	}
	if r.ended {
		r.tree = r.network.Remeasured(r.tree)
		return
	}
	if r.now.Sub(r.remeasured) < reshape.SeekPause {
		return
	}
	r.remeasured = r.now
	again := r.network.Remeasured(r.tree)
	if late := again.CheckLatency(); late != nil && r.tree.CheckLatency() == nil {
		r.desk.log.Warn("a delivery's tree is beyond its latency bound, by what is measured now", "delivery", r.id, "error", late)
	}
	r.tree = again
	r.holdTree(again)
}

// lighten has the tree of a delivery that has ended hold nothing of what was measured but of its own hops.
func (k *keeper) lighten(delivery view.Delivery) {
	if !delivery.Running() && k.tree != nil {
		k.holdTree(k.tree.Light())
	}
}

// holdTree holds a tree instead of another in which everybody has the same place.
func (k *keeper) holdTree(t *tree.Tree) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tree = t
}
