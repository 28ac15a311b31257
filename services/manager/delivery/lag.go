package delivery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
	"github.com/groupcast/groupcast/internal/bytesize"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// slowMemory is for how long an agent counts as slow after a delivery found that it holds others up.
const slowMemory = 10 * time.Minute

// slowAgent is the rate, in bytes per second, that a delivery found of a slow agent, until when that counts, and for which group alone; for all
// if that is empty.
type slowAgent struct {
	rate  uint64
	until time.Time
	group string
}

// countsFor reports whether it still counts in a group.
func (s slowAgent) countsFor(group string, now time.Time) bool {
	return now.Before(s.until) && (s.group == "" || s.group == group)
}

// lowerSlow moves an agent to a lower place that takes or gives slowly, and so holds up those that it feeds. Nobody holds others up in
// datagrams: what an agent lacks there is lost, or was sent before it joined, and nobody waits for it. Of a directory with hashes, an agent
// stands while all below it compare, and leaves out what they have: how far it is says nothing of how fast. Nobody moves where somebody would
// lose a stream by that.
func (r *rearrangement) lowerSlow(delivery view.Delivery) {
	if isDatagrams(delivery) || isHashed(delivery) || !r.mayReshape(delivery) {
		return
	}
	flows := r.flows()
	move, found, due := r.lag.Next(r.tree, flows, delivery.GetDelivery().GetSpec().GetLength(), r.now)
	r.due = moment.Soonest(r.due, due)
	r.desk.noteSlow(r.id, r.comparedIn(), r.lag.Slow(), r.now)
	if !found {
		return
	}
	after, err := move.In(r.tree)
	costs := err == nil && r.losesStream(delivery, r.tree, after)
	if costs && (move.Why == reshape.GivesSlowly || move.Why == reshape.TakesSlowly) {
		return // what it ends was for a while only: it is ended as soon as that costs nobody the stream
	}
	if err != nil || costs {
		r.lag.Stays(move.Node, r.now)
		return
	}
	r.lowered = append(r.lowered, lowered{move, r.tree, r.now})
	for _, name := range move.Moving() {
		r.seek.Stay(name, r.now)
	}
	r.tree = after
	if move.Why == reshape.Lags {
		r.because(causeLags, lags(move, after))
	} else {
		r.because(causeGives, gives(move, after))
	}
}

// renewUplinks has the agents of the tree have the uplinks that are known of them by now. The rate for which one moved lower is its own until it
// is found out whether it is slow: then that is known of it, or was wrong.
func (r *rearrangement) renewUplinks() {
	if r.tree == nil {
		return
	}
	uplinks := r.network.Uplinks()
	maps.DeleteFunc(uplinks, func(name string, _ uint64) bool { return r.lag.OnTrial(name) })
	r.cleared = !r.ended && len(understated(r.tree, uplinks)) > 0
	r.tree = r.tree.Rated(uplinks)
}

// understated returns the agents of a tree whose uplink there is lower than what is known of them, with that in the tree.
func understated(in *tree.Tree, uplinks map[string]uint64) map[string]uint64 {
	lower := make(map[string]uint64)
	for name, known := range uplinks {
		if node, has := in.Node(name); has && node.Uplink > 0 && (known == 0 || node.Uplink < known) {
			lower[name] = node.Uplink
		}
	}
	return lower
}

// inherit learns what an earlier leader found of the nodes, as far as the delivery's tree says so.
func (k *keeper) inherit(delivery view.Delivery, now time.Time) {
	if k.tree == nil || !delivery.Running() { // what one that has ended had found is long over
		return
	}
	k.inheritSlow(delivery, now)
	k.inheritRests(delivery, now)
}

// inheritSlow takes the agents whose uplink in the delivery's tree is lower than what is known of them as slow: an earlier leader, which alone knew
// more of that, had moved them lower. It counts for their group alone, as the tree does not say what they were compared with.
func (k *keeper) inheritSlow(delivery view.Delivery, now time.Time) {
	k.desk.noteSlow(k.id, k.group, understated(k.tree, k.network(delivery).Uplinks()), now)
}

// inheritRests has all nodes of the delivery's tree stay as long as those do that an earlier leader moved last to make it better: the tree says when
// that was, but names them for people only.
func (k *keeper) inheritRests(delivery view.Delivery, now time.Time) {
	var moved time.Time
	for _, change := range delivery.Tree.GetChanges() {
		if slices.Contains([]string{causeLags, causeGives, causeNearer}, change.GetCause()) {
			moved = moment.Latest(moved, change.GetTime().AsTime())
		}
	}
	if moved.IsZero() {
		return
	}
	if moved.After(now) {
		moved = now // by the earlier leader's clock
	}
	for _, name := range k.tree.Names() {
		k.lag.Stays(name, moved)
		k.seek.Stay(name, moved)
	}
}

// comparedIn returns the group for which alone it counts how fast agents are beside each other; empty if it counts for all. Relays are members of
// one group, on whatever links these have: what goes over them, or what they say, is no measure of a session agent for others.
func (r *rearrangement) comparedIn() (group string) {
	if slices.ContainsFunc(r.tree.Names(), func(name string) bool {
		_, _, relays := placement.ParseID(name).Relay()
		return relays
	}) {
		return r.group
	}
	return ""
}

// lags says why an agent that lagged behind its feeder moved.
func lags(move reshape.Move, after *tree.Tree) string {
	now, _ := after.Parent(move.Node)
	why := fmt.Sprintf("%s is fed by %s now: it took %s/s, and %s waited for it at %s", move.Node, now,
		bytesize.Short(move.Rate), bytesize.Short(move.Waiting), move.Parent)
	switch {
	case move.Could == 0:
		return why + ", of which it is not known what it can give to another"
	case move.Seen:
		return fmt.Sprintf("%s, which gave %s/s to another", why, bytesize.Short(move.Could))
	}
	return fmt.Sprintf("%s, whose uplink has %s/s for each", why, bytesize.Short(move.Could))
}

// gives says why an agent moved to find out whether another gives slowly, or because that is known by now.
func gives(move reshape.Move, after *tree.Tree) string {
	now, _ := after.Parent(move.Node)
	rate, showed := bytesize.Short(move.Rate), bytesize.Short(move.Showed)
	switch move.Why {
	case reshape.GivesSlowly:
		return fmt.Sprintf("%s is fed by %s now: it gave %s/s to %s, which takes %s/s from another", move.Node, now, rate, move.Parent, showed)
	case reshape.TakesSlowly:
		return fmt.Sprintf("%s is fed by %s again: %s takes no more from another, %s/s", move.Node, now, move.Parent, showed)
	}
	return fmt.Sprintf("%s is fed by %s now, and feeds %s: as nobody took more than %s/s from that one, it is tried without it",
		move.Node, now, move.Parent, rate)
}

// flows returns how the delivery goes on at the nodes that report.
func (k *keeper) flows() reshape.Flows {
	k.mu.Lock()
	defer k.mu.Unlock()
	flows := make(reshape.Flows)
	for id, node := range k.progress.nodes {
		flows[id.String()] = reshape.Flow{Bytes: node.reported().GetBytes(), At: node.at, Rate: node.rate}
	}
	return flows
}

// noteSlow remembers the agents that turned out to be slow in a delivery, for one group or for all, and forgets those of which the delivery found
// that to be wrong. What other deliveries found of them stays, for each tells it once.
func (d *Desk) noteSlow(in, group string, rates map[string]uint64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, rate := range rates {
		agent := placement.ParseID(name).Name
		if d.slow[agent] == nil {
			d.slow[agent] = make(map[string]slowAgent)
		}
		d.slow[agent][in] = slowAgent{rate, now.Add(slowMemory), group}
	}
	maps.DeleteFunc(d.slow, func(_ string, found map[string]slowAgent) bool {
		maps.DeleteFunc(found, func(_ string, slow slowAgent) bool { return slow.rate == 0 || !now.Before(slow.until) })
		return len(found) == 0
	})
}

// agentRecords returns the agents of all groups, and the members of this group that relay. None has more uplink than it lately showed.
func (d *Desk) agentRecords(group string) []*agentv1.Agent {
	agents := d.view.AllAgents()
	agents = slices.DeleteFunc(agents, func(agent *agentv1.Agent) bool {
		of, _, relays := identity.ID{Role: identity.Agent, Name: agent.GetName()}.Relay()
		return relays && of != group
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i, agent := range agents {
		rate, slow := d.slowness(agent.GetName(), group, now)
		if stated := agent.GetCapacity().GetUplinkBytesPerSecond(); !slow || stated > 0 && stated < rate {
			continue
		}
		agents[i] = proto.CloneOf(agent)
		agents[i].Capacity = cmp.Or(agents[i].Capacity, &agentv1.Capacity{})
		agents[i].Capacity.UplinkBytesPerSecond = rate
	}
	return agents
}

// slowness returns the rate of an agent that counts as slow in a group: the lowest that any delivery found. The desk is locked.
func (d *Desk) slowness(agent, group string, now time.Time) (rate uint64, is bool) {
	for _, slow := range d.slow[agent] {
		if slow.countsFor(group, now) && (!is || slow.rate < rate) {
			rate, is = slow.rate, true
		}
	}
	return rate, is
}
