package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// be has an agent be there, in a zone.
func (u *unserved) be(name, zone string) {
	u.t.Helper()
	u.desk.put(u.t, view.AgentKey(name), &agentv1.Agent{
		Name: name, Zone: zone, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{name + ":7410"},
	})
	u.desk.AttachAgent(name)
}

// starvesAgain has m1, which has so many bytes, get nothing where it is for a minute, or say that it cannot reach its agent. All others have all.
// It returns who feeds m1 then.
func (u *unserved) starvesAgain(bytes uint64, reaches bool) (by string) {
	u.t.Helper()
	reports := make(map[string]*groupv1.DeliveryReport)
	for _, name := range u.tree.Names() {
		report := &groupv1.DeliveryReport{Bytes: 100}
		for _, child := range u.tree.Children(name) {
			report.Children = append(report.Children, &groupv1.ChildReport{Name: placement.ParseID(child).Name, Connected: true})
		}
		reports[placement.ParseID(name).Name] = report
	}
	reports["m1"] = &groupv1.DeliveryReport{Bytes: bytes}
	known := u.progress.nodes[named("m1")]
	u.say(reports, "m1")
	if known != nil {
		u.progress.nodes[named("m1")].unfed, u.progress.nodes[named("m1")].damagedBy = known.unfed, known.damagedBy
	}
	if !reaches {
		feeder, _ := u.tree.Parent("member/m1")
		m1 := u.progress.nodes[named("m1")]
		m1.lost, m1.lostSince = placement.ParseID(feeder).Name, time.Now().Add(-time.Minute)
	}
	clear(u.believedAt)
	for id := range u.fedBy {
		u.fedBy[id] = feeding{u.fedBy[id].by, time.Now().Add(-time.Minute)}
	}
	u.mustArrange()
	by, _ = u.tree.Parent("member/m1")
	return placement.ParseID(by).Name
}

// A member that gets nothing from a second agent either goes to a third, wherever that is, before it goes back to the first. It goes back at once
// where there is no third, once it has got more, and when what it got from the first no longer counts.
func TestUnfedMemberTriesAllAgents(t *testing.T) {
	nothing := func(*unserved, *uint64) {}
	for name, test := range map[string]struct {
		zones   string // as for inZones
		between func(u *unserved, bytes *uint64)
		want    string
	}{
		"the third is in another zone":      {"y y y x", nothing, "b c"},
		"it is alone in its zone":           {"y y x x", nothing, "b c"},
		"the third is not in the tree":      {"y y y - x", nothing, "b c"},
		"the second is near, and came in":   {"y y - y x", nothing, "b c"},
		"a third that came in is near":      {"y y x - y", nothing, "c b"},
		"there are two":                     {"y y y", nothing, "b a"},
		"there are two, in different zones": {"y y x", nothing, "b a"},
		"there are two, and one came in":    {"y y - y", nothing, "b a"},
		"a third comes":                     {"y y y", func(u *unserved, _ *uint64) { u.be("c", "x") }, "b c"},
		"it has got more meanwhile":         {"y y y x", func(_ *unserved, bytes *uint64) { *bytes = 50 }, "b a"},
		"that was long ago": {"y y y x", func(u *unserved, _ *uint64) {
			u.progress.doubted[link{named("a"), named("m1")}] = doubt{0, time.Now()}
		}, "b a"},
		"the third damaged its bytes, and there is a fourth": {"y y x x x", func(u *unserved, _ *uint64) {
			u.progress.nodes[named("m1")].damagedBy = []string{"agent/c"}
		}, "b d"},
	} {
		for _, reaches := range []bool{true, false} {
			what := map[bool]string{true: "it gets nothing", false: "it cannot reach them"}[reaches]
			t.Run(name+", "+what, func(t *testing.T) {
				u := serve(t, fileSpec())
				u.desk.Goodbye("b")
				u.inZones(test.zones)
				var bytes uint64
				var way []string
				for range strings.Fields(test.want) {
					if way != nil {
						test.between(u, &bytes)
					}
					way = append(way, u.starvesAgain(bytes, reaches))
				}
				if got := strings.Join(way, " "); got != test.want {
					t.Errorf("m1 is fed by %s, want %s: %v", got, test.want, u.shown().Tree.GetChanges())
				}
			})
		}
	}
}

// inZones has m1 be in a zone and fed by agent a, and agents a, b and so on be in zones, of which the tree uses those before a "-".
func (u *unserved) inZones(zones string) {
	u.t.Helper()
	own, rest, _ := strings.Cut(zones, " ")
	nodes := []*managerv1.TreeNode{{Id: "member/s"}}
	used, by, agent := true, "member/s", 'a'
	for zone := range strings.FieldsSeq(rest) {
		if zone == "-" {
			used = false
			continue
		}
		name := string(agent)
		agent++
		u.be(name, zone)
		if used {
			nodes = append(nodes, &managerv1.TreeNode{Id: "agent/" + name, Parent: by, Cluster: zone})
			by = "agent/" + name
		}
	}
	u.desk.join(u.t, "m1", own)
	nodes = append(nodes, &managerv1.TreeNode{Id: "member/m1", Parent: "agent/a", Cluster: own}, &managerv1.TreeNode{Id: "member/m2", Parent: by})
	u.stand(nodes...)
}

// A look at who starves costs each member of one agent less than a look at those beside it.
func TestLookAtManyMembersOfOneAgent(t *testing.T) {
	const members = 2000
	links := []string{"s>a"}
	has := map[string]uint64{"s": 100, "a": 100, "m0": 100}
	for i := range members {
		links = append(links, fmt.Sprint("a>m", i))
	}
	w := watching(t, links...)
	w.report(has)
	w.progress.nodes[named("m0")].bytesAt = time.Now().Add(time.Hour) // it gets something, and the others lack something
	if starved := w.starved(); len(starved) != members-1 {
		t.Fatalf("%d of %d starve", len(starved), members)
	}
	if allocations := testing.AllocsPerRun(5, func() { w.starved() }); allocations > members {
		t.Errorf("a look at %d members costs %v allocations", members, allocations)
	}
}

// Which agents would be used is found out once for all members that move in one rearrangement, and anew if other agents are there by then.
func TestAgentsThatWouldBeUsedAreFoundOutOnce(t *testing.T) {
	u := serve(t, fileSpec())
	for name, zone := range map[string]string{"c": "x", "d": "y"} {
		u.be(name, zone)
	}
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &rearrangement{keeper: u.keeper, network: u.network(u.shown()), tree: u.tree}
	asked := 0
	r.network.Measured = func() placement.Measured {
		asked++
		return placement.Measured{}
	}
	const members = 1000
	for i := range members {
		for _, zone := range []string{"x", "y", ""} {
			r.network.Receivers = append(r.network.Receivers, &groupv1.Member{Name: fmt.Sprint("m", i, zone), Labels: map[string]string{"zone": zone}})
		}
	}
	wantAdded := func(want string) {
		t.Helper()
		_, enlarged := r.enlarged()
		for _, name := range []string{"c", "d"} {
			if _, has := enlarged.Node("agent/" + name); has != strings.Contains(want, name) {
				t.Errorf("%s is added: %t, want %q", name, has, want)
			}
		}
	}
	wantAdded("c d")
	asked = 0
	if wantAdded("c d"); asked >= members {
		t.Errorf("for %d receivers it is asked %d times what was measured", len(r.network.Receivers), asked)
	}
	gone := r.network.Agents
	r.network.Agents = slices.DeleteFunc(slices.Clone(gone), func(agent *agentv1.Agent) bool { return agent.GetName() == "c" })
	wantAdded("d")
	r.network.Agents = gone
	wantAdded("c d")
	u.hangUp("d")
	wantAdded("c")
}
