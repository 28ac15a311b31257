package delivery

import (
	"errors"
	"strings"
	"testing"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// relayed has m1 fed by a node, and more agents in the tree, below the first.
func (u *unserved) relayed(by string, agents ...string) {
	first := "agent/" + agents[0]
	nodes := []*managerv1.TreeNode{
		{Id: "member/s"},
		{Id: first, Parent: "member/s"},
		{Id: "member/m2", Parent: first},
	}
	for i, name := range agents {
		u.desk.put(u.t, view.AgentKey(name), &agentv1.Agent{Name: name, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{name + ":7410"}})
		u.desk.AttachAgent(name)
		if i > 0 {
			nodes = append(nodes, &managerv1.TreeNode{Id: "agent/" + name, Parent: first})
		}
	}
	u.stand(append(nodes, &managerv1.TreeNode{Id: "member/m1", Parent: "agent/" + by, Agent: "agent/" + by})...)
}

// givesUp has who feeds m1 say that it gave it up, and reports whether m1 has failed by that.
func (u *unserved) givesUp() (by string, failed bool) {
	u.t.Helper()
	parent, _ := u.tree.Parent("member/m1")
	by = parent[len("agent/"):]
	u.say(map[string]*groupv1.DeliveryReport{
		"s": {Bytes: 100}, "a": {Bytes: 100}, "m1": {Bytes: 50}, "m2": {Bytes: 100},
		by: {Bytes: 100, Children: []*groupv1.ChildReport{{Name: "m1", Role: "member", Evicted: true}}},
	})
	return by, u.fails()
}

func (u *unserved) fails() bool { return u.member(u.shown(), "m1", time.Now()).evicted }

// What a member that relays says of those that it feeds has nobody fail: another agent feeds them then, a session agent if there is one. What that
// one says counts.
func TestRelaysWordFailsNobody(t *testing.T) {
	u := serve(t, fileSpec())
	u.relayed("r1.g", "a", "r1.g", "r2.g")
	if _, failed := u.givesUp(); failed {
		t.Fatal("m1 has failed by the word of a relay")
	}
	u.mustArrange()
	by, failed := u.givesUp()
	if isRelay(by) {
		t.Errorf("m1 is fed by %s now, want a session agent", by)
	}
	if !failed {
		t.Errorf("m1 has not failed by the word of %s", by)
	}
}

// Where only relays are left, two of them are believed; where no member can be too slow, only all of them are.
func TestRelaysWordCountsWhereThereIsNobodyElse(t *testing.T) {
	evict := fileSpec()
	evict.SlowMember = &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT, LagBytes: 1}
	for name, test := range map[string]struct {
		spec   *groupv1.DeliverySpec
		relays []string
		words  int
	}{
		"the only one":                 {evict, []string{"r1.g"}, 1},
		"one of three":                 {evict, []string{"r1.g", "r2.g", "r3.g"}, 2},
		"nobody can be slow":           {fileSpec(), []string{"r1.g", "r2.g", "r3.g"}, 3},
		"the only one, nobody is slow": {fileSpec(), []string{"r1.g"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, test.spec)
			u.relayed("r1.g", test.relays...)
			for _, name := range []string{"a", "b"} {
				u.desk.Goodbye(name)
			}
			for word := 1; ; word++ {
				by, failed := u.givesUp()
				if !failed {
					u.mustArrange()
					after, _ := u.tree.Parent("member/m1")
					failed = after == "agent/"+by && u.fails()
				}
				if failed != (word >= test.words) {
					t.Fatalf("%s gave it up, as the %d. one: it has failed: %t, want that after %d", by, word, failed, test.words)
				}
				if failed {
					return
				}
			}
		})
	}
}

// Where the tree has no room for any change, a relay is believed: the member would wait for ever, and the delivery with it.
func TestRelaysWordCountsWhereTheTreeCannotChange(t *testing.T) {
	for name, word := range map[string]string{"as the relay says": "r1.g", "nobody says so": ""} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.relayed("r1.g", "a", "r1.g", "r2.g")
			delivery := u.shown()
			record := &managerv1.TreeRecord{Version: delivery.Tree.GetVersion(), Nodes: delivery.Tree.Nodes()}
			record.Nodes = append(record.Nodes[:1:1], append([]*managerv1.TreeNode{{Id: "agent/a", Parent: "member/s", Cluster: strings.Repeat("x", 5<<20)}}, record.Nodes[2:]...)...)
			delivery.Tree, delivery.TreeChanged = view.NewTree(record, 1, 1), 1
			u.readTree(delivery)
			if word != "" {
				u.givesUp()
			} else {
				u.progress.nodes[named("m1")] = &nodeProgress{report: &groupv1.DeliveryReport{Bytes: 50}, at: time.Now(), bytesAt: time.Now()}
			}
			now := time.Now()
			if _, due, err := u.keeper.arrange(t.Context(), delivery, now); word != "" && (!errors.Is(err, store.ErrTooLarge) || due.After(now)) {
				t.Errorf("the tree changes: %v, looked at again at %v, want %v, and that at once", err, due, store.ErrTooLarge)
			}
			if failed := u.fails(); failed != (word != "") {
				t.Fatalf("m1 has failed: %t", failed)
			}
			now = time.Now()
			if _, due, _ := u.keeper.arrange(t.Context(), delivery, now); !due.IsZero() && !due.After(now) {
				t.Error("it is looked at again and again")
			}
			if word == "" {
				return
			}
			if _, err := u.work(t.Context(), delivery, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := u.desk.view.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if receipt := receiptOf(u.shown(), "m1"); receipt.GetState() != groupv1.ReceiptState_RECEIPT_STATE_FAILED || receipt.GetReason() != Slow {
				t.Errorf("m1 has %v, want FAILED(slow)", receipt)
			}
		})
	}
}

// Where merely the members that come late have no room in the tree, one that a relay gave up is fed by another agent all the same.
func TestWhoIsGivenUpMovesInACrowdedTree(t *testing.T) {
	u := serve(t, fileSpec())
	u.relayed("r1.g", "a", "r1.g", "r2.g")
	for _, late := range []string{"late-1", "late-2"} {
		u.desk.join(t, late, strings.Repeat("z", 3_000_000))
	}
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	by, _ := u.givesUp()
	u.mustArrange()
	if after, _ := u.tree.Parent("member/m1"); after == "agent/"+by || u.fails() {
		t.Errorf("m1 is fed by %s, and has failed: %t; want it fed by another than %s", after, u.fails(), by)
	}
}

// Who was given up by a relay is not fed by it again where another can: the relay would be believed the second time.
func TestWhoWasGivenUpDoesNotComeBack(t *testing.T) {
	u := serve(t, fileSpec())
	u.relayed("r1.g", "a", "r1.g", "r2.g")
	by, _ := u.givesUp()
	u.mustArrange()
	after, _ := u.tree.Parent("member/m1")
	u.desk.Goodbye(after[len("agent/"):])
	u.mustArrange()
	if again, _ := u.tree.Parent("member/m1"); again == "agent/"+by || again == after {
		t.Errorf("when %s has gone, m1 is fed by %s, and %s gave it up; want another relay", after, again, by)
	}
}

// Who a relay has just given up does not come back to it because the session agent that takes it had given it nothing before.
func TestWhoIsGivenUpAndWasUnfedGoesToAThird(t *testing.T) {
	u := serve(t, fileSpec())
	u.relayed("r1.g", "a", "r1.g", "r2.g")
	u.desk.Goodbye("b")
	u.givesUp()
	u.progress.nodes[named("m1")].unfed = 1
	u.progress.doubted[link{identity.ID{Role: identity.Agent, Name: "a"}, named("m1")}] = doubt{50, time.Now().Add(time.Minute)}
	u.mustArrange()
	if by, _ := u.tree.Parent("member/m1"); by != "agent/r2.g" {
		t.Errorf("m1 is fed by %s, want r2.g: r1.g gave it up, and a gave it nothing: %v", by, u.shown().Tree.GetChanges())
	}
}

// A session agent that the tree does not use comes before any relay, also one that is nearer or stronger.
func TestWhoIsGivenUpGoesToASpareSessionAgent(t *testing.T) {
	u := serve(t, fileSpec())
	u.relayed("r1.g", "r1.g")
	for _, name := range []string{"a", "b"} {
		u.desk.Goodbye(name)
	}
	for _, name := range []string{"r2.g", "z"} {
		u.desk.put(u.t, view.AgentKey(name), &agentv1.Agent{Name: name, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{name + ":7410"}})
		u.desk.AttachAgent(name)
	}
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.givesUp()
	u.mustArrange()
	if by, _ := u.tree.Parent("member/m1"); by != "agent/z" {
		t.Errorf("m1 is fed by %s, want the session agent z", by)
	}
}
