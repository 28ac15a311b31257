package delivery

import (
	"slices"
	"testing"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

// A member that was moved since the agent beside it gave it damaged bytes does not go back there when its new agent is lost, or gives it
// nothing, unless there is no other.
func TestNobodyGoesBackToWhoDamagedItsBytes(t *testing.T) {
	for name, test := range map[string]struct {
		agents []string // beside a, which damages, and b, which m2 was moved to
		lose   func(u *unserved)
		want   string
	}{
		"its agent is lost":                            {[]string{"c"}, func(u *unserved) { u.desk.agents["b"].goodbye = true }, "agent/c"},
		"its agent is lost, and was the last":          {nil, func(u *unserved) { u.desk.agents["b"].goodbye = true }, "agent/a"},
		"its agent gives it nothing":                   {[]string{"c"}, func(u *unserved) { u.starve("m2") }, "agent/c"},
		"its agent gives it nothing, and was the last": {nil, func(u *unserved) { u.starve("m2") }, "agent/a"},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			nodes := []*managerv1.TreeNode{
				{Id: "member/s"},
				{Id: "agent/b", Parent: "member/s"},
				{Id: "agent/a", Parent: "agent/b"},
				{Id: "member/m1", Parent: "agent/b"},
			}
			for _, name := range test.agents {
				u.desk.put(t, view.AgentKey(name), &agentv1.Agent{Name: name, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{name + ":7410"}})
				u.desk.AttachAgent(name)
				nodes = append(nodes, &managerv1.TreeNode{Id: "agent/" + name, Parent: "agent/b"})
			}
			beside := &managerv1.TreeNode{Id: "member/m2", Parent: "agent/a", Agent: "agent/a"}
			u.stand(append(slices.Clone(nodes), beside)...)
			u.say(map[string]*groupv1.DeliveryReport{"s": {Bytes: 100}, "m1": {Bytes: 100}, "m2": {Bytes: 100, Damaged: "a"}})
			u.mustArrange()
			if by, _ := u.tree.Parent("member/m2"); by == "agent/a" {
				t.Fatal("it stays where it got damaged bytes")
			}
			beside.Parent = "agent/b"
			u.stand(append(nodes, beside)...)
			u.progress.nodes[named("m2")].report = &groupv1.DeliveryReport{}
			test.lose(u)
			u.mustArrange()
			if by, _ := u.tree.Parent("member/m2"); by != test.want {
				t.Errorf("m2 is fed by %q, want %q: %v", by, test.want, u.shown().Tree.GetChanges())
			}
		})
	}
}

// starve has agent b feed others, but one member not.
func (u *unserved) starve(member string) {
	known := u.progress.nodes[named(member)].damagedBy
	u.say(map[string]*groupv1.DeliveryReport{
		"s": {Bytes: 100}, "a": {Bytes: 100}, "c": {Bytes: 100}, "m1": {Bytes: 100}, member: {},
		"b": {Bytes: 100, Children: []*groupv1.ChildReport{{Name: "m1", Connected: true}, {Name: member, Connected: true}}},
	}, member)
	u.progress.nodes[named(member)].damagedBy = known
}
