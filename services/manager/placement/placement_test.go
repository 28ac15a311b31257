package placement_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
)

const ms = time.Millisecond

var update = flag.Bool("update", false, "write the golden files anew")

func member(name, node string, labels ...string) *groupv1.Member {
	m := &groupv1.Member{Name: name, Node: node, Labels: make(map[string]string)}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		m.Labels[key] = value
	}
	return m
}

func agent(name, node, zone string, uplink uint64) *agentv1.Agent {
	return &agentv1.Agent{
		Name: name, Node: node, Zone: zone, Addresses: []string{name + ":7410"}, State: agentv1.AgentState_AGENT_STATE_ONLINE,
		Capacity: &agentv1.Capacity{UplinkBytesPerSecond: uplink},
	}
}

var networks = map[string]placement.Network{
	// A DaemonSet: an agent on every node; agents of nodes without members stay out.
	"daemonset": {
		Sender:    member("s", "n1"),
		Receivers: []*groupv1.Member{member("r2", "n2"), member("r3", "n3"), member("r4", "n4")},
		Agents: []*agentv1.Agent{
			agent("a1", "n1", "x", 10), agent("a2", "n2", "x", 10), agent("a3", "n3", "y", 10), agent("a4", "n4", "y", 20),
			agent("a5", "n5", "y", 99), agent("a6", "n6", "z", 99),
		},
	},
	// Members outside of Kubernetes name their zones by labels: the strongest agent of each is used.
	"labels": {
		Sender: member("s", ""),
		Receivers: []*groupv1.Member{
			member("r1", "", "zone=x"), member("r2", "", "topology.kubernetes.io/zone=y"), member("r3", "", "zone=nowhere"), member("r4", ""),
		},
		Agents: []*agentv1.Agent{
			agent("a1", "n1", "x", 10), agent("a2", "n2", "x", 20), agent("a3", "n3", "y", 20), agent("a4", "n4", "y", 20), agent("a5", "n5", "z", 99),
		},
	},
	// Racks in zones: each is entered once. A rack without an agent is fed from its zone.
	"racks": {
		Sender: member("s", "", "zone=eu/r1"),
		Receivers: []*groupv1.Member{
			member("e2", "", "zone=eu/r2"), member("u1", "", "zone=us/r1"), member("u2", "", "zone=us/r2"), member("u3", "", "zone=us/r3"), member("a1", "", "zone=as/r7"),
		},
		Agents: []*agentv1.Agent{
			agent("eu-1", "n1", "eu/r1", 0), agent("us-1", "n2", "us/r1", 0), agent("us-2", "n3", "us/r2", 0), agent("as-1", "n4", "as/r1", 0), agent("as-2", "n5", "as/r2", 0),
		},
	},
	// Nothing is known of where anybody is: the strongest agent does it.
	"unknown": {
		Sender:    member("s", ""),
		Receivers: []*groupv1.Member{member("r1", ""), member("r2", "")},
		Agents:    []*agentv1.Agent{agent("a1", "", "", 10), agent("a2", "", "", 20), agent("a3", "", "", 20)},
	},
	// Nobody says where anything is, but it was measured: two sites, each entered once. The member without an agent on its node is fed in its
	// cluster, and the member that is near nothing by the nearest agent.
	"measured": {
		Sender: member("s", ""),
		Receivers: []*groupv1.Member{
			member("r1", "n1"), member("r2", "n2"), member("r3", "n3"), member("r4", "n4"), member("guest", ""), member("far", ""),
		},
		Agents: []*agentv1.Agent{agent("a1", "n1", "", 10), agent("a2", "n2", "", 10), agent("b3", "n3", "", 10), agent("b4", "n4", "", 10), agent("b5", "", "", 99), agent("c6", "", "", 1)},
		Measured: func() placement.Measured {
			return placement.Measured{
				Clusters: map[string]string{
					"agent/a1": "~a1", "agent/a2": "~a1", "agent/b3": "~b3", "agent/b4": "~b3", "agent/b5": "~b3", "agent/c6": "~c6", "member/guest": "~b3",
				},
				RTT: tree.RTTs{
					Nodes: map[tree.Pair]time.Duration{
						{A: "agent/a1", B: "member/s"}: 1 * ms, {A: "agent/b3", B: "member/s"}: 40 * ms,
						{A: "agent/c6", B: "member/far"}: 9 * ms, {A: "agent/a1", B: "member/far"}: 30 * ms,
						{A: "agent/b3", B: "member/guest"}: 1 * ms, {A: "agent/c6", B: "agent/a1"}: 30 * ms,
					},
					Clusters: map[tree.Pair]time.Duration{{A: "~a1", B: "~b3"}: 40 * ms, {A: "~a1", B: "~a1"}: 1 * ms, {A: "~b3", B: "~b3"}: 1 * ms},
				},
			}
		},
	},
	// Agents that are on nobody's node share what would be too much for one uplink; the weak one takes no part.
	"crowd": {
		Sender: member("s", "", "zone=x"),
		Receivers: []*groupv1.Member{
			member("r1", "", "zone=x"), member("r2", "", "zone=x"), member("r3", "", "zone=x"), member("r4", "", "zone=x"), member("r5", "", "zone=y"), member("r6", "", "zone=y"),
		},
		Agents: []*agentv1.Agent{
			agent("a1", "n1", "x", 20e6), agent("a2", "n2", "x", 20e6), agent("a3", "n3", "x", 20e6), agent("a4", "n4", "x", 20e6), agent("a5", "n5", "x", 1e6), agent("b1", "n6", "y", 0), agent("b2", "n7", "y", 0),
		},
		Load: tree.Load{Bytes: 200e6},
	},
	// An agent and a member of the same name are two nodes. An agent that is offline or cannot be dialled is none.
	"names": {
		Sender:    member("node-1", "n1"),
		Receivers: []*groupv1.Member{member("node-2", "n2"), member("node-3", "n3")},
		Agents: []*agentv1.Agent{
			agent("node-1", "n1", "", 10), agent("node-2", "n2", "", 10),
			{Name: "node-3", Node: "n3", State: agentv1.AgentState_AGENT_STATE_ONLINE},
			{Name: "node-4", Node: "n3", Addresses: []string{"node-4:7410"}, State: agentv1.AgentState_AGENT_STATE_OFFLINE},
		},
	},
}

func wantGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// draw shows a tree and what each of its nodes has to do.
func draw(t *tree.Tree, absent ...string) string {
	var text strings.Builder
	fmt.Fprintln(&text, t)
	directives := placement.Directives(t, absent, func(agent string) []string { return []string{agent + ":7410"} })
	names := make(map[string]placement.Directive)
	for id, directive := range directives {
		names[id.String()] = directive
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := names[name]
		fmt.Fprintf(&text, "%s: %s, parent %s, children", name, strings.TrimPrefix(d.Duty.String(), "DUTY_"), neighbour(d.Parent))
		for _, child := range d.Children {
			fmt.Fprintf(&text, " %s", neighbour(child))
		}
		fmt.Fprintln(&text)
	}
	return text.String()
}

func neighbour(n *groupv1.Neighbour) string {
	if n == nil {
		return "none"
	}
	return strings.TrimSuffix(n.GetRole()+"/"+n.GetName()+"@"+strings.Join(n.GetAddresses(), ","), "@")
}

func build(t *testing.T, n placement.Network) *tree.Tree {
	t.Helper()
	built, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestPlacements(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) { wantGolden(t, name, draw(build(t, network))) })
	}
}

// A member that joins is fed by the agent of its node, which is taken in if it was not used.
func TestJoin(t *testing.T) {
	network := networks["daemonset"]
	joined, err := network.Joining()(build(t, network), member("late", "n5"))
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "daemonset-joined", draw(joined))
	if parent, _ := joined.Parent("member/late"); parent != "agent/a5" {
		t.Errorf("fed by %s, want the agent of its node", parent)
	}
}

// Members that join one after the other, and bring agents of their own, are placed as each would be by itself. That costs each less than a look at
// every agent.
func TestMembersJoinOneAfterTheOther(t *testing.T) {
	network := placement.Network{Sender: member("s", "n0"), Receivers: []*groupv1.Member{member("r", "n0")}}
	const agents = 1000
	for i := range agents {
		network.Agents = append(network.Agents, agent(fmt.Sprint("a", i), fmt.Sprint("n", i), fmt.Sprint("z", i%10), 10))
	}
	first := build(t, network)
	join, together, each := network.Joining(), first, first
	for i, late := range []*groupv1.Member{member("l1", "n7"), member("l2", "", "zone=z4"), member("l3", ""), member("l4", "n14"), member("l5", "", "zone=z4")} {
		var err, errEach error
		together, err = join(together, late)
		each, errEach = network.Joining()(each, late)
		if err != nil || errEach != nil {
			t.Fatal(err, errEach)
		}
		if diff := cmp.Diff(draw(each), draw(together)); diff != "" {
			t.Errorf("after %d members the tree is another: %s", i+1, diff)
		}
	}
	late := member("l6", "n7")
	if allocations := testing.AllocsPerRun(10, func() { _, _ = join(together, late) }); allocations > agents/2 {
		t.Errorf("one more member costs %v allocations where there are %d agents", allocations, agents)
	}
}

// "A cluster is entered once": until the sites are found, what crosses between two of them crosses for each agent of the far one.
func TestFoundClustersAreEnteredOnce(t *testing.T) {
	network := placement.Network{Sender: member("s", "z1")}
	clusters := make(map[string]string)
	for _, name := range []string{"a1", "a2", "a3", "z1", "z2"} {
		network.Receivers = append(network.Receivers, member("m"+name, name))
		network.Agents = append(network.Agents, agent(name, name, "", 10))
		clusters["agent/"+name] = "~" + name[:1]
	}
	crossings := func() (crossed int) {
		built := build(t, network)
		for _, name := range []string{"agent/a1", "agent/a2", "agent/a3", "member/ma1", "member/ma2", "member/ma3"} {
			if parent, _ := built.Parent(name); strings.Contains(parent, "/z") {
				crossed++
			}
		}
		return crossed
	}
	if before := crossings(); before != 3 {
		t.Errorf("with nothing known the far site is entered %d times, want 3", before)
	}
	network.Measured = func() placement.Measured { return placement.Measured{Clusters: clusters} }
	if after := crossings(); after != 1 {
		t.Errorf("the far site is entered %d times, want once", after)
	}
}

// A member that joins late takes along the agent of its cluster, or the nearest agent where its cluster has none, if no such agent is used yet.
func TestJoinMeasured(t *testing.T) {
	network := networks["measured"]
	network.Receivers = network.Receivers[:2]
	first := build(t, network)
	if _, used := first.Node("agent/b3"); used {
		t.Fatal("an agent is used that helps nobody")
	}
	for _, late := range []struct {
		member, parent string
		labels         []string
	}{{"guest", "agent/b5", nil}, {"far", "agent/c6", nil}, {"far", "agent/c6", []string{"zone=nowhere"}}} {
		joined, err := network.Joining()(first, member(late.member, "", late.labels...))
		if err != nil {
			t.Fatal(err)
		}
		if parent, _ := joined.Parent("member/" + late.member); parent != late.parent {
			t.Errorf("%s is fed by %s, want %s", late.member, parent, late.parent)
		}
		again, err := network.Joining()(joined, member("r5", ""))
		if err != nil {
			t.Fatal(err)
		}
		if again.Len() != joined.Len()+1 {
			t.Errorf("one of whom nothing is known brings %d nodes", again.Len()-joined.Len())
		}
	}
}

// An agent that is absent is nobody's neighbour; the others' links stay.
func TestAbsent(t *testing.T) {
	built := build(t, networks["unknown"])
	wantGolden(t, "unknown-absent", draw(built, "agent/a2"))
}

// "An agent on the path is used where it saves a copy on an expensive link": four sites that are 100 ms away, each behind the same hub, which
// has no receiver.
func TestAgentOnTheWay(t *testing.T) {
	sites := []string{"c1", "c2", "c3", "c4"}
	n := placement.Network{Sender: member("s", "n0"), Load: tree.Load{Bytes: 100_000}, Agents: []*agentv1.Agent{agent("a0", "n0", "home", 0), agent("hub", "n9", "hub", 0), agent("away", "n8", "away", 0)}}
	times := map[tree.Pair]time.Duration{{A: "home", B: "hub"}: 100 * ms, {A: "home", B: "away"}: 100 * ms, {A: "hub", B: "away"}: 100 * ms}
	for i, site := range sites {
		node := fmt.Sprint("n", i+1)
		n.Receivers = append(n.Receivers, member("r-"+site, node))
		n.Agents = append(n.Agents, agent("a-"+site, node, site, 0))
		times[tree.Pair{A: "home", B: site}], times[tree.Pair{A: "hub", B: site}], times[tree.Pair{A: "away", B: site}] = 130*ms, 30*ms, 90*ms
		for _, other := range sites[:i] {
			times[tree.Pair{A: other, B: site}] = 60 * ms
		}
	}
	wantFedByHub := func(want bool) {
		t.Helper()
		built := build(t, n)
		for _, site := range sites {
			if parent, _ := built.Parent("agent/a-" + site); (parent == "agent/hub") != want {
				t.Errorf("a-%s is fed by %s\n%v", site, parent, built)
			}
		}
		if _, used := built.Node("agent/away"); used {
			t.Errorf("an agent that spares nothing is used\n%v", built)
		}
	}
	wantFedByHub(false) // nothing was measured
	n.Measured = func() placement.Measured { return placement.Measured{RTT: tree.RTTs{Clusters: times}} }
	wantFedByHub(true)
	times[tree.Pair{A: "home", B: "hub"}] = 160 * ms
	wantFedByHub(false) // a detour
}

// Of several agents on a node, as where a member relays beside a session agent, one is used: through another, all bytes would come to the node
// once more. It is the session agent, however strong a member says that it is.
func TestOneAgentOfANode(t *testing.T) {
	network := placement.Network{
		Sender: member("s", "n1"), Receivers: []*groupv1.Member{member("r2", "n2"), member("r3", "n3")},
		Agents: []*agentv1.Agent{
			agent("a1", "n1", "", 10), agent("a2", "n2", "", 10), agent("a3", "n3", "", 10), agent("r1.g", "n1", "", 10), agent("r2.g", "n2", "", 10), agent("r3.g", "n3", "", 20),
		},
		Load: tree.Load{Bytes: 1_000_000_000},
	}
	built, err := network.Build()
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, name := range built.Names() {
		if node, _ := built.Node(name); node.Kind == tree.Agent {
			used = append(used, name)
		}
	}
	if slices.Sort(used); !slices.Equal(used, []string{"agent/a1", "agent/a2", "agent/a3"}) {
		t.Errorf("%v are used:\n%v", used, built)
	}
}

// So it is where the member says that it is in the zone of the sender and the receivers, and the session agent of its node has none.
func TestRelayIsNotFirstBesideASessionAgent(t *testing.T) {
	network := placement.Network{
		Sender: member("s", "", "zone=x"), Receivers: []*groupv1.Member{member("r1", "n1"), member("r2", "", "zone=x")},
		Agents: []*agentv1.Agent{agent("a1", "n1", "", 10), agent("r1.g", "n1", "x", 1000)},
	}
	built, err := network.Build()
	if err != nil {
		t.Fatal(err)
	}
	if names := built.Names(); slices.Contains(names, "agent/r1.g") {
		t.Errorf("%v are in the tree:\n%v", names, built)
	}
}

func TestNoAgent(t *testing.T) {
	network := networks["names"]
	network.Agents = network.Agents[2:]
	if _, err := network.Build(); !errors.Is(err, placement.ErrNoAgent) {
		t.Errorf("%v, want ErrNoAgent", err)
	}
}

// A delivery does not begin beyond its latency bound, but goes on beyond it.
func TestLatencyBound(t *testing.T) {
	network := networks["labels"]
	network.LatencyBound = 10 * ms
	network.Measured = func() placement.Measured {
		return placement.Measured{RTT: tree.RTTs{Nodes: map[tree.Pair]time.Duration{{A: "agent/a2", B: "member/r1"}: 30 * ms}}}
	}
	var late *tree.LatencyError
	if _, err := network.Build(); !errors.As(err, &late) {
		t.Errorf("it begins: %v", err)
	}
	if built, err := network.BuildLate(); err != nil || built.CheckLatency() == nil {
		t.Errorf("%v: it does not go on beyond the bound\n%v", err, built)
	}
}

// A better parent that appears is found among all agents that would be used now. Of those that were not in the tree, only the one that feeds
// somebody stays.
func TestBetterParents(t *testing.T) {
	network := networks["daemonset"]
	network.Agents = slices.DeleteFunc(slices.Clone(network.Agents), func(a *agentv1.Agent) bool { return a.GetName() == "a3" || a.GetName() == "a2" })
	first := build(t, network)
	network.Agents = networks["daemonset"].Agents
	grown := network.Enlarging()(first)
	var moved []string
	for _, node := range network.Nodes(grown) {
		after, gain, found := grown.Nearer(node)
		if !found {
			continue
		}
		moved = append(moved, gain.Node+" to "+gain.To)
		reduced := placement.Reduced(after, first)
		if _, has := reduced.Node(gain.To); !has || reduced.Len() != first.Len()+1 {
			t.Errorf("%s is in a tree of %d, of %d before\n%v", gain.To, reduced.Len(), first.Len(), reduced)
		}
	}
	if want := []string{"member/r2 to agent/a2", "member/r3 to agent/a3"}; !slices.Equal(slices.Sorted(slices.Values(moved)), want) {
		t.Errorf("%v would move, want %v\n%v", moved, want, grown)
	}
	if same := placement.Reduced(grown, first); same.Len() != first.Len() {
		t.Errorf("%d nodes are left of %d\n%v", same.Len(), first.Len(), same)
	}
}

// A receiver that the only agent of a tree cannot feed gets another: the strongest of its cluster, or else the nearest, or else the strongest.
func TestSpareAgent(t *testing.T) {
	a, x, weak := agent("a", "n1", "x", 10), agent("x", "n2", "x", 9), agent("weak", "n3", "x", 8)
	near, far, strong := agent("near", "n4", "y", 1), agent("far", "n5", "z", 1), agent("strong", "n6", "", 99)
	measured := func() placement.Measured {
		return placement.Measured{RTT: tree.RTTs{Nodes: map[tree.Pair]time.Duration{
			{A: "agent/weak", B: "member/m2"}: 1 * ms, {A: "agent/near", B: "member/m2"}: 5 * ms, {A: "agent/far", B: "member/m2"}: 50 * ms,
		}}}
	}
	n := placement.Network{
		Sender: member("s", ""), Receivers: []*groupv1.Member{member("m1", "", "zone=x"), member("m2", "", "zone=x")}, Agents: []*agentv1.Agent{a},
	}
	first := build(t, n)
	for want, others := range map[string][]*agentv1.Agent{
		"agent/x": {near, x, weak, strong}, "agent/near": {far, near, strong}, "agent/strong": {strong, agent("y", "n7", "", 7)}, "": {},
	} {
		n.Agents, n.Measured = append([]*agentv1.Agent{a}, others...), measured
		if _, err := n.Enlarging()(first).Elsewhere("member/m2"); err == nil {
			t.Fatal("there is another agent already")
		}
		with, err := n.WithSpare(n.Enlarging()(first), "member/m2")
		if want == "" {
			if !errors.Is(err, placement.ErrNoAgent) {
				t.Errorf("%v, want ErrNoAgent", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := with.Elsewhere("member/m2")
		if err != nil {
			t.Fatal(err)
		}
		if by, _ := after.Parent("member/m2"); by != want || after.Len() != first.Len()+1 {
			t.Errorf("m2 is fed by %s, want %s\n%v", by, want, after)
		}
	}
}

// An agent is looked for in the receiver's zone as long as nothing else was measured, whatever the order of receivers.
func TestMeasuredBeforeZone(t *testing.T) {
	between := func(agent, member string) tree.Pair {
		return tree.Pair{A: placement.AgentID(agent).String(), B: placement.MemberID(member).String()}
	}
	n := placement.Network{
		Sender: member("s", "n0", "zone=us/r1"), Receivers: []*groupv1.Member{member("m", "", "zone=eu/r7")},
		Agents: []*agentv1.Agent{
			agent("us-1", "n0", "us/r1", 10), agent("eu-1", "n1", "eu/r1", 10), agent("eu-2", "n2", "eu/r2", 20), agent("ch-1", "n3", "ch/r1", 10),
		},
		Measured: func() placement.Measured {
			return placement.Measured{RTT: tree.RTTs{Nodes: map[tree.Pair]time.Duration{
				between("eu-1", "m"): 1 * ms, between("eu-2", "m"): 40 * ms, between("us-1", "m"): 90 * ms, between("ch-1", "m"): 5 * ms,
			}}}
		},
	}
	wantParent(t, n, "m", "agent/eu-1")
	n.Measured = func() placement.Measured {
		return placement.Measured{RTT: tree.RTTs{Nodes: map[tree.Pair]time.Duration{between("ch-1", "m"): 5 * ms, between("us-1", "m"): 1 * ms}}}
	}
	wantParent(t, n, "m", "agent/us-1")
	n.Measured = nil
	wantParent(t, n, "m", "agent/eu-2") // the strongest of its zone

	strange, own := member("u3", "", "zone=us/r3"), member("u2", "", "zone=us/r2")
	for _, order := range [][]*groupv1.Member{{strange, own}, {own, strange}} {
		n := placement.Network{
			Sender: member("s", "", "zone=eu/r1"), Receivers: order,
			Agents: []*agentv1.Agent{agent("eu-1", "n0", "eu/r1", 0), agent("us-1", "n1", "us/r1", 1<<40), agent("us-2", "n2", "us/r2", 0)},
		}
		wantParent(t, n, "u3", "agent/us-2")
		wantParent(t, n, "u2", "agent/us-2")
	}
}

func wantParent(t *testing.T, n placement.Network, member, parent string) {
	t.Helper()
	built, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := built.Parent(placement.MemberID(member).String()); got != parent {
		t.Errorf("%s is fed by %s, want %s:\n%v", member, got, parent, built)
	}
}
