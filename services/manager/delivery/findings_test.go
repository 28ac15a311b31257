package delivery

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// unserved is a delivery in a store, from s over agent a, which feeds m1, m2 and agent b. For a minute, m1 is fed nothing, or all that a feeds
// are.
type unserved struct {
	*keeper
	t *testing.T
}

func serve(t *testing.T, spec *groupv1.DeliverySpec) *unserved {
	t.Helper()
	return serveBy(t, leading(t), spec)
}

func serveBy(t *testing.T, d *Desk, spec *groupv1.DeliverySpec) *unserved {
	t.Helper()
	delivery := stored("d")
	record := delivery.GetDelivery()
	record.State, record.Spec, record.CreateTime = groupv1.DeliveryState_DELIVERY_STATE_RUNNING, spec, timestamppb.New(time.Now().Add(-time.Hour))
	d.put(t, view.GroupKey("g"), &groupv1.Group{Name: "g"})
	for _, name := range []string{"s", "m1", "m2"} {
		d.join(t, name, "")
		delivery.Members = append(delivery.Members, &managerv1.Participant{Name: name})
	}
	delivery.Members = delivery.GetMembers()[1:]
	for _, name := range []string{"a", "b"} {
		d.put(t, view.AgentKey(name), &agentv1.Agent{Name: name, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{name + ":7410"}})
	}
	d.write(t, delivery)
	for _, name := range []string{"a", "b"} {
		d.AttachAgent(name)
	}
	u := &unserved{newKeeper(d, delivery), t}
	u.progress.claimed = true
	u.stand(
		&managerv1.TreeNode{Id: "member/s"},
		&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
		&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a"},
		&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
		&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
	)
	return u
}

// stand puts a tree in force that has been so for a minute.
func (u *unserved) stand(nodes ...*managerv1.TreeNode) {
	u.t.Helper()
	standing, err := tree.Restore(decodeTree(nodes), tree.Bound{})
	if err != nil {
		u.t.Fatal(err)
	}
	delivery := u.shown()
	if err := u.writeTree(u.t.Context(), delivery, encodeTree(standing, delivery.Tree.GetVersion()+1, nil, nil)); err != nil {
		u.t.Fatal(err)
	}
	u.readTree(u.shown())
	for id := range u.fedBy {
		u.fedBy[id] = feeding{u.fedBy[id].by, time.Now().Add(-time.Minute)}
	}
}

// leave has a member leave.
func (d *Desk) leave(t *testing.T, name string) {
	t.Helper()
	if _, err := d.store.Commit(t.Context(), d.ledger.Term(), nil, []store.Op{store.Delete(view.MemberKey("g", name))}); err != nil {
		t.Fatal(err)
	}
}

// join has a member be joined, in a zone.
func (d *Desk) join(t *testing.T, name, zone string) {
	t.Helper()
	d.put(t, view.MemberKey("g", name), &groupv1.Member{
		Group: "g", Name: name, Roles: []groupv1.Role{groupv1.Role_ROLE_SEND, groupv1.Role_ROLE_RECEIVE}, Labels: map[string]string{"zone": zone},
	})
}

func (u *unserved) shown() view.Delivery { return u.stored(u.t) }

// stored returns the delivery as it is stored.
func (k *keeper) stored(t *testing.T) view.Delivery {
	t.Helper()
	shown, found := k.desk.view.Delivery(k.id)
	if !found {
		t.Fatal("the delivery is gone")
	}
	return shown
}

// say has all report, and some of them have got nothing for a minute. What they say counts for as long as the test takes.
func (u *unserved) say(reports map[string]*groupv1.DeliveryReport, starve ...string) {
	now := time.Now()
	for name, report := range reports {
		node := &nodeProgress{report: report, at: now.Add(time.Hour), bytesAt: now.Add(time.Hour)}
		if slices.Contains(starve, name) {
			node.bytesAt, node.lacksSince, node.missed = now.Add(-time.Minute), now.Add(-time.Minute), missedMost
		}
		u.progress.nodes[named(name)] = node
	}
}

func (u *unserved) arrange(delivery view.Delivery) error {
	_, _, err := u.keeper.arrange(u.t.Context(), delivery, time.Now())
	return err
}

// What cannot be written is found out again. A member that another agent is to feed is moved when the store takes the change again, however
// often it did not, and also where the members that come are those for whom there is no room.
func TestWhatCannotBeWrittenIsFoundOutAgain(t *testing.T) {
	datagrams := &groupv1.DeliverySpec{Kind: groupv1.DeliveryKind_DELIVERY_KIND_STREAM, LengthUnknown: true, Datagrams: &groupv1.DatagramSpec{}}
	feeds := &groupv1.DeliveryReport{Bytes: 100, Children: []*groupv1.ChildReport{
		{Name: "b", Connected: true}, {Name: "m1", Connected: true}, {Name: "m2", Connected: true},
	}}
	has := &groupv1.DeliveryReport{Bytes: 100}
	for name, test := range map[string]struct {
		spec    *groupv1.DeliverySpec
		m1      *groupv1.DeliveryReport
		starved []string
	}{
		"a member that an agent gives nothing, which feeds others": {fileSpec(), &groupv1.DeliveryReport{}, []string{"m1"}},
		"a member that got damaged bytes":                          {fileSpec(), &groupv1.DeliveryReport{Bytes: 100, Damaged: "a"}, nil},
		"a member that cannot reach an agent, which feeds others":  {fileSpec(), &groupv1.DeliveryReport{Bytes: 100, Lost: "a"}, nil},
		"an agent that gives no datagrams to anybody":              {datagrams, &groupv1.DeliveryReport{}, []string{"b", "m1", "m2"}},
	} {
		say := func(u *unserved) {
			u.say(map[string]*groupv1.DeliveryReport{"s": has, "a": feeds, "b": has, "m1": test.m1, "m2": has}, test.starved...)
			if node := u.progress.nodes[named("m1")]; test.m1.GetLost() != "" {
				node.lost, node.lostSince = "a", time.Now().Add(-time.Minute)
			}
		}
		wantMoved := func(t *testing.T, u *unserved) {
			t.Helper()
			if by, _ := u.tree.Parent("member/m1"); by != "agent/b" {
				t.Errorf("m1 is fed by %q", by)
			}
		}
		t.Run(name, func(t *testing.T) {
			u := serve(t, test.spec)
			say(u)
			refused := u.shown()
			refused.Tree = view.NewTree(encodeTree(u.tree, 1, nil, nil), refused.TreeChanged-1, 0)
			for range damagedMost + 1 {
				if err := u.arrange(refused); !errors.Is(err, store.ErrConflict) {
					t.Fatal(err)
				}
			}
			if err := u.arrange(u.shown()); err != nil {
				t.Fatal(err)
			}
			wantMoved(t, u)
		})
		t.Run(name+", where others have no room", func(t *testing.T) {
			u := serve(t, test.spec)
			say(u)
			for _, name := range []string{"late", "later"} {
				u.desk.join(t, name, strings.Repeat("z", 4_180_000))
			}
			if err := u.desk.view.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := u.arrange(u.shown()); err != nil {
				t.Fatal(err)
			}
			wantMoved(t, u)
		})
	}
}

// A member that gets nothing from the only agent of the tree, or cannot reach it, is fed by one that the tree did not use. The agent stays with
// the others.
func TestUnfedMemberIsFedByASpareAgent(t *testing.T) {
	for name, m1 := range map[string]*nodeProgress{
		"it gets nothing": {},
		"it cannot reach the agent": {
			report: &groupv1.DeliveryReport{Lost: "a"}, lost: "a", lostSince: time.Now().Add(-time.Minute),
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s"},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/a"},
			)
			u.say(map[string]*groupv1.DeliveryReport{
				"s": {Bytes: 100}, "m1": {}, "m2": {Bytes: 100},
				"a": {Bytes: 100, Children: []*groupv1.ChildReport{{Name: "m1", Connected: true}, {Name: "m2", Connected: true}}},
			}, "m1")
			if m1.lost != "" {
				u.progress.nodes[named("m1")] = m1
			}
			if err := u.arrange(u.shown()); err != nil {
				t.Fatal(err)
			}
			for _, want := range [][2]string{{"member/m1", "agent/b"}, {"member/m2", "agent/a"}, {"agent/a", "member/s"}} {
				if by, _ := u.tree.Parent(want[0]); by != want[1] {
					t.Errorf("%s is fed by %q, want %s: %v", want[0], by, want[1], u.shown().Tree.GetChanges())
				}
			}
		})
	}
}

// A member that gets nothing stays in its zone where there is another agent, also where the tree did not use that one.
func TestUnfedMemberStaysInItsZone(t *testing.T) {
	for zone, want := range map[string]string{"y": "agent/c", "y/2": "agent/c", "x": "agent/a"} {
		t.Run("another agent in "+zone, func(t *testing.T) {
			u := serve(t, fileSpec())
			for name, zone := range map[string]string{"a": "x", "b": "y", "c": zone} {
				u.desk.put(t, view.AgentKey(name), &agentv1.Agent{
					Name: name, Zone: zone, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{name + ":7410"},
				})
				u.desk.AttachAgent(name)
			}
			for _, name := range []string{"m1", "m2"} {
				u.desk.join(t, name, "y")
			}
			u.stand(
				&managerv1.TreeNode{Id: "member/s", Cluster: "x"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "member/s", Cluster: "x"},
				&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a", Cluster: "y"},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/b", Cluster: "y"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/b", Cluster: "y"},
			)
			u.say(map[string]*groupv1.DeliveryReport{
				"s": {Bytes: 100}, "a": {Bytes: 100, Children: []*groupv1.ChildReport{{Name: "b", Connected: true}}}, "m1": {}, "m2": {Bytes: 100},
				"b": {Bytes: 100, Children: []*groupv1.ChildReport{{Name: "m1", Connected: true}, {Name: "m2", Connected: true}}},
			}, "m1")
			u.mustArrange()
			if by, _ := u.tree.Parent("member/m1"); by != want {
				t.Errorf("m1 is fed by %q, want %s: %v", by, want, u.shown().Tree.GetChanges())
			}
		})
	}
}

// An agent that blames its neighbour is believed once. When it cannot reach the next either, it goes itself. An agent that says nothing of the
// next stays.
func TestWhoReachesNobodyIsOut(t *testing.T) {
	for name, test := range map[string]struct {
		lost string // whom b cannot reach once a is out
		want string // who feeds m1 then
	}{
		"it cannot reach the next either":   {"c", "agent/c"},
		"it still speaks of the one before": {"a", "agent/b"},
		"it reaches the next":               {"", "agent/b"},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			u.desk.put(t, view.AgentKey("c"), &agentv1.Agent{Name: "c", State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{"c:7410"}})
			u.desk.AttachAgent("c")
			u.stand(
				&managerv1.TreeNode{Id: "member/s"},
				&managerv1.TreeNode{Id: "agent/c", Parent: "member/s"},
				&managerv1.TreeNode{Id: "agent/a", Parent: "agent/c"},
				&managerv1.TreeNode{Id: "agent/b", Parent: "agent/a"},
				&managerv1.TreeNode{Id: "member/m1", Parent: "agent/b"},
				&managerv1.TreeNode{Id: "member/m2", Parent: "agent/c"},
			)
			some := &groupv1.DeliveryReport{Bytes: 50}
			u.say(map[string]*groupv1.DeliveryReport{"s": {Bytes: 100}, "a": {Bytes: 100}, "c": {Bytes: 100}, "b": some, "m1": some, "m2": some})
			blame := func(lost string) {
				node := u.progress.nodes[named("b")]
				node.lost, node.lostSince = lost, time.Now().Add(-time.Minute)
				if err := u.arrange(u.shown()); err != nil {
					t.Fatal(err)
				}
			}
			blame("a")
			if by, _ := u.tree.Parent("agent/b"); by != "agent/c" {
				t.Fatalf("b is fed by %q once a is out", by)
			}
			blame(test.lost)
			if by, _ := u.tree.Parent("member/m1"); by != test.want {
				t.Errorf("m1 is fed by %q, want %q: %v", by, test.want, u.shown().Tree.GetChanges())
			}
		})
	}
}

// What the sender says of the first agent counts from when it first said so, whatever changes elsewhere in the tree, as long as that agent is the
// first and is there.
func TestWhatTheSenderSaysOfItsAgent(t *testing.T) {
	for name, test := range map[string]struct {
		change func(u *unserved)
		counts bool
	}{
		"a member comes": {func(u *unserved) { u.desk.join(t, "late", "") }, true},
		"a member goes":  {func(u *unserved) { u.desk.leave(t, "m2") }, true},
		"another agent takes the first one's place": {func(u *unserved) { u.desk.Goodbye("a") }, false},
		"the first one was away meanwhile": {func(u *unserved) {
			for _, name := range []string{"a", "b"} {
				u.become(name, agentv1.AgentState_AGENT_STATE_OFFLINE)
			}
			u.mustArrange()
			u.become("a", agentv1.AgentState_AGENT_STATE_ONLINE)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, fileSpec())
			since := time.Now().Add(-blamedPatience / 2)
			u.progress.nodes[named("s")] = &nodeProgress{report: &groupv1.DeliveryReport{Lost: "a"}, at: time.Now(), lost: "a", lostSince: since}
			test.change(u)
			u.mustArrange()
			if u.shown().Tree.GetVersion() < 2 {
				t.Fatal("nothing has changed")
			}
			if got := u.progress.nodes[named("s")].lostSince; got.Equal(since) != test.counts {
				t.Errorf("it counts since %v, and was first said at %v; want that that counts: %t", got, since, test.counts)
			}
		})
	}
}
