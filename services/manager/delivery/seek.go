package delivery

import (
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// nearlyDone is how long a node must still need at least, at its rate, to be given another parent.
const nearlyDone = 10 * time.Second

// seekNearer moves nodes to parents that are better by now: others were found to be near, or an agent has come. No node that receives datagrams
// is moved: it would lose what is on its way. Nor is one that would lose a stream.
func (r *rearrangement) seekNearer(delivery view.Delivery) {
	if isDatagrams(delivery) || !r.mayReshape(delivery) {
		return
	}
	if next := r.sought.Add(reshape.SeekPause); r.now.Before(next) {
		r.due = moment.Soonest(r.due, next)
		return
	}
	if r.suspects(r.now) {
		r.due = moment.Soonest(r.due, r.now.Add(reshape.SeekPause))
		return
	}
	r.sought = r.now
	r.due = moment.Soonest(r.due, r.now.Add(reshape.SeekPause))
	there, before := r.enlarged()
	nodes := slices.DeleteFunc(there.Nodes(before), func(node tree.Node) bool {
		return r.wasHarmed(node.Name) || r.isNearlyDone(node.Name, delivery.GetDelivery().GetSpec().GetLength())
	})
	mayMove := func(before, after *tree.Tree) bool { return !r.losesStream(delivery, before, after) }
	after, gains := r.seek.Next(before, nodes, mayMove, r.now)
	if len(gains) == 0 {
		return
	}
	r.tree = placement.Reduced(after, r.tree)
	for _, gain := range gains {
		r.lag.Stays(gain.Node, r.now)
		r.because(causeNearer, gained(gain, r.tree.Sender()))
	}
}

// attached returns the network with only those agents that can be told what to do.
func (r *rearrangement) attached() placement.Network {
	there := r.network
	there.Agents = slices.DeleteFunc(slices.Clone(there.Agents), func(agent *agentv1.Agent) bool {
		return !r.desk.seen(agent.GetName()).attached
	})
	return there
}

// enlarging is how a network enlarges trees.
type enlarging struct {
	of      placement.Network
	enlarge func(*tree.Tree) *tree.Tree
}

// enlarged returns the network with only those agents that can be told what to do, and the tree with all of them added that would be used. Which
// these are is found out anew only if agents are there, or are not, since it was last asked: it takes a look at every receiver.
func (r *rearrangement) enlarged() (placement.Network, *tree.Tree) {
	if there := r.attached(); r.enlarging.enlarge == nil || !slices.Equal(there.Agents, r.enlarging.of.Agents) {
		r.enlarging = enlarging{there, there.Enlarging()}
	}
	return r.enlarging.of, r.enlarging.enlarge(r.tree)
}

// wasHarmed reports whether a node was moved because it got damaged bytes, or was given up: a better parent may be the one that did that, and
// would do so again.
func (k *keeper) wasHarmed(name string) bool { return len(k.harmedBy(name)) > 0 }

// isNearlyDone reports whether a node has all bytes of an object, or nearly. It does not where the length is unknown, which is 0.
func (k *keeper) isNearlyDone(name string, length uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	node := k.progress.nodes[placement.ParseID(name)]
	if node == nil || length == 0 {
		return false
	}
	left := length - min(length, node.report.GetBytes())
	return left == 0 || node.rate > 0 && left < node.rate*uint64(nearlyDone/time.Second)
}

// gained says what a node gains by its new parent, or the sender by its new agent.
func gained(gain tree.Gain, sender string) string {
	why := fmt.Sprintf("%s is fed by %s now, and was by %s", gain.Node, gain.To, gain.From)
	if gain.Node == sender {
		why = fmt.Sprintf("%s feeds %s now, and fed %s", gain.Node, gain.To, gain.From)
	}
	switch {
	case gain.Inside:
		return why + ", which is not as near to it"
	case placement.ParseID(gain.Node).Role == placement.AgentID("").Role:
		return fmt.Sprintf("%s: the path is %v there and back, and was %v", why, gain.Is, gain.Was)
	}
	return fmt.Sprintf("%s: it is %v there and back, and was %v", why, gain.Is, gain.Was)
}
