package delivery

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// over is the tree in which s sends to an agent that feeds members.
func over(t *testing.T, agent identity.ID, members ...string) *tree.Tree {
	t.Helper()
	links := []tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}},
		{Node: tree.Node{Name: agent.String(), Kind: tree.Agent}, Parent: "member/s"},
	}
	for _, name := range members {
		links = append(links, tree.Link{Node: tree.Node{Name: placement.MemberID(name).String(), Kind: tree.Member}, Parent: agent.String()})
	}
	restored, err := tree.Restore(links, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	return restored
}

// An agent with the longest name that there is is blamed as others are: members that relay are called MEMBER.GROUP.
func TestLongNamesAreBlamed(t *testing.T) {
	agent := identity.RelayOf(strings.Repeat("g", 63), strings.Repeat("m", 63))
	d := newDesk()
	k := d.keep("d")
	k.setTree(over(t, agent, "m"), 1)
	d.ReportMember("g", "m", []*groupv1.DeliveryReport{{Delivery: "d", Lost: agent.Name, Damaged: agent.Name}})
	if since, by := k.blame(agent, sight{heard: time.Now()}); since.IsZero() || by != placement.MemberID("m") {
		t.Errorf("it is blamed since %v by %q, want by the member that cannot reach it", since, by)
	}
	if r := (&rearrangement{keeper: k, tree: k.tree}); !r.gotDamaged(placement.MemberID("m")) {
		t.Error("a member that got damaged bytes from it is not to move")
	}
}

// What a sender calls an agent by, and nobody can be called, is not told in receipts: as it may be no text even, none could be written.
func TestWhatIsNoNameIsToldToNobody(t *testing.T) {
	d := newDesk()
	k := d.keep("d")
	k.setTree(over(t, placement.AgentID("a"), "m"), 1)
	for lost, want := range map[string]string{
		"a":                           "nothing came for 1m0s: the sender could not reach agent a at its data port",
		"x" + strings.Repeat("é", 40): "nothing came for 1m0s: no agent could feed the member",
	} {
		d.ReportMember("g", "s", []*groupv1.DeliveryReport{{Delivery: "d", Lost: lost}})
		now := time.Now()
		v := decide(facts{now: now, moved: now.Add(-StuckPatience), unreached: k.progress.unreached(now), members: []memberFacts{{name: "m"}}})
		receipt := d.failedReceipt(stored("d"), "m", v.failed["m"], now)
		if _, err := proto.Marshal(receipt); err != nil {
			t.Errorf("lost %q: %v", lost, err)
		}
		if receipt.GetDetail() != want {
			t.Errorf("lost %q: %q, want %q", lost, receipt.GetDetail(), want)
		}
	}
}
