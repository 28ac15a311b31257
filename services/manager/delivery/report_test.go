package delivery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
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

// An agent with the longest possible name is blamed as others are: members that relay are called MEMBER.GROUP.
func TestLongNamesAreBlamed(t *testing.T) {
	agent := identity.RelayOf(strings.Repeat("g", 63), strings.Repeat("m", 63))
	d := newDesk()
	k := d.keep("d")
	k.setTree(over(t, agent, "m"), nil, 1)
	d.ReportMember("g", "m", []*groupv1.DeliveryReport{{Delivery: "d", Lost: agent.Name, Damaged: agent.Name}})
	if since, by := k.blame(agent, sight{heard: time.Now()}); since.IsZero() || by != placement.MemberID("m") {
		t.Errorf("it is blamed since %v by %q, want by the member that cannot reach it", since, by)
	}
	if r := (&rearrangement{keeper: k, tree: k.tree}); !r.gotDamaged(placement.MemberID("m")) {
		t.Error("a member that got damaged bytes from it is not to move")
	}
}

// Where a sender calls an agent by what cannot be a name, receipts do not tell it: it may not even be text, and then none could be written.
func TestWhatIsNoNameIsToldToNobody(t *testing.T) {
	d := newDesk()
	k := d.keep("d")
	k.setTree(over(t, placement.AgentID("a"), "m"), nil, 1)
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

// A node may say what it likes, in each of many deliveries: only what is used is remembered of that, and no more.
func TestReportsAreRememberedInBoundedSize(t *testing.T) {
	d, agent := newDesk(), placement.AgentID("a")
	k := d.keep("d")
	var members []string
	for i := range 64 {
		members = append(members, fmt.Sprintf("m%d", i))
	}
	k.setTree(over(t, agent, members...), nil, 1)
	before := heap()
	d.AttachAgent(agent.Name).ReportAgent(&agentv1.Report{Deliveries: []*groupv1.DeliveryReport{wordy(t, members)}})
	for _, member := range append(members, "s") {
		d.ReportMember("g", member, []*groupv1.DeliveryReport{wordy(t, members)})
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d nodes have the manager remember %d KiB: want less than 1 MiB", len(k.progress.nodes), grown>>10)
	}
	if got := len(k.progress.nodes[agent].report.GetChildren()); got != len(members) {
		t.Errorf("it is known of %d members how the agent feeds them, want %d", got, len(members))
	}
	if got := k.progress.nodes[placement.MemberID("m1")].report.GetChildren(); len(got) != 0 {
		t.Errorf("of m1, which feeds nobody, it is remembered how it feeds %d", len(got))
	}
	runtime.KeepAlive(d)
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // a first run may free what lets a second one find more
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// wordy is a report, as it comes from the network, in which every part is much longer than it may be.
func wordy(t *testing.T, members []string) *groupv1.DeliveryReport {
	t.Helper()
	const size = 64 << 10
	text := strings.Repeat("x", size)
	report := &groupv1.DeliveryReport{
		Delivery: "d", Lost: text, Trouble: text, Damaged: text, Fed: &groupv1.ChildReport{Name: text}, Stripes: &groupv1.Stripes{Reason: text, Why: text},
	}
	for i := range 1000 {
		report.Children = append(report.Children, &groupv1.ChildReport{Name: fmt.Sprintf("stranger%d", i)}, &groupv1.ChildReport{Name: members[0]})
	}
	for _, member := range members {
		report.Children = append(report.Children, &groupv1.ChildReport{Name: member, Stripes: &groupv1.Stripes{Why: text[:size/16]}})
	}
	encoded, err := proto.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	came := new(groupv1.DeliveryReport)
	if err := proto.Unmarshal(encoded, came); err != nil {
		t.Fatal(err)
	}
	return came
}

// Of what a message says of one delivery, only the last is heard, however often it says something.
func TestMessageCountsOncePerDelivery(t *testing.T) {
	d := newDesk()
	k := d.keep("d")
	k.setTree(over(t, placement.AgentID("a"), "m"), nil, 1)
	d.ReportMember("g", "m", []*groupv1.DeliveryReport{{Delivery: "d", Bytes: 100, Lost: "a"}, {Delivery: "d"}})
	if node := k.progress.nodes[placement.MemberID("m")]; !node.bytesAt.IsZero() || len(k.pokes) > 0 {
		t.Errorf("it got more at %v, and the delivery is looked at: %t; want what was said last alone", node.bytesAt, len(k.pokes) > 0)
	}
}

// What a node says, as that it reaches its agent and then does not, has the delivery looked at at once some times, then once a second; and what it
// said last is looked at, too.
func TestOneNodeDoesNotKeepTheLeaderBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		k := d.keep("d")
		k.setTree(over(t, placement.AgentID("a"), "m"), nil, 1)
		looks := 0
		look := func() {
			synctest.Wait()
			select {
			case <-k.pokes:
				looks++
			default:
			}
		}
		for i := range 1000 { // for 10 s
			d.ReportMember("g", "m", []*groupv1.DeliveryReport{{Delivery: "d", Lost: []string{"a", ""}[i%2]}})
			look()
			time.Sleep(10 * time.Millisecond)
		}
		if looks < hurryBurst || looks > 2*hurryBurst+12 {
			t.Errorf("it is looked at %d times in 10 s, want about %d", looks, 2*hurryBurst)
		}
		before := looks
		time.Sleep(2 * hurryPause)
		if look(); looks != before+1 {
			t.Errorf("what came last is looked at %d times, want once", looks-before)
		}
	})
}
