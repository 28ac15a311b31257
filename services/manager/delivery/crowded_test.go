package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/tree"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// place is a delivery in a store: s sends over an agent that is lost to a member, and to another member that has gone. Agent b is there to go
// on over. The delivery's tree has room for less than 4 MiB.
type place struct {
	*keeper
	t *testing.T
	m string // the member
}

func crowding(t *testing.T) *place {
	t.Helper()
	d, delivery := leading(t), crowd(1)
	delivery.Delivery.Group, delivery.Delivery.CreateTime = "g", timestamppb.Now()
	p := &place{newKeeper(d, delivery), t, delivery.GetMembers()[0].GetName()}
	d.put(t, view.GroupKey("g"), &groupv1.Group{Name: "g"})
	d.join(t, "s", "")
	d.join(t, p.m, "")
	d.put(t, view.AgentKey("b"), &agentv1.Agent{Name: "b", State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{"b:7410"}})
	d.write(t, delivery)
	d.AttachAgent("b")
	built, err := tree.Restore(decodeTree([]*managerv1.TreeNode{
		{Id: "member/s"}, {Id: "agent/lost", Parent: "member/s"}, {Id: "member/gone", Parent: "agent/lost"}, {Id: "member/" + p.m, Parent: "agent/lost"},
	}), tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.writeTree(t.Context(), delivery, encodeTree(built, 1, nil, nil)); err != nil {
		t.Fatal(err)
	}
	return p
}

// come has members join that each take so many bytes in the tree.
func (p *place) come(bytes int, names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.desk.join(p.t, name, strings.Repeat("z", bytes))
	}
}

// lookAll has the delivery be looked at until nothing is due, and returns how often it was.
func (p *place) lookAll() (looks int) {
	p.t.Helper()
	if err := p.desk.view.Sync(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	for isDue := true; isDue; looks++ {
		if looks > 20 {
			p.t.Fatal("it is never done")
		}
		now := time.Now()
		due, err := p.work(p.t.Context(), p.stored(p.t), now)
		if err != nil {
			p.t.Fatal(err)
		}
		isDue = !due.After(now)
	}
	return looks
}

// look is lookAll, and then wants members in the tree, beside the one that was there.
func (p *place) look(want ...string) (looks int) {
	p.t.Helper()
	looks = p.lookAll()
	var fed []string
	for _, name := range p.tree.Names() {
		if id := placement.ParseID(name); id.Role == identity.Member && id.Name != p.m && id.Name != "s" {
			fed = append(fed, id.Name)
		}
	}
	if slices.Sort(fed); !slices.Equal(fed, want) {
		p.t.Errorf("fed are %.100v, want %.100v", fed, want)
	}
	return looks
}

// Where a tree has no room for the members that come, all else changes without them: a member that goes is released, and those below a lost
// agent are fed by another.
func TestCrowdedTreeStillChanges(t *testing.T) {
	p := crowding(t)
	p.come(3_000_000, "late-1", "late-2")
	p.come(4_180_000, "late-0")
	p.look("late-1")
	if parent, fed := p.tree.Parent("member/" + p.m); !fed || parent != "agent/b" {
		t.Errorf("the member is fed by %q", parent)
	}
	version := p.stored(p.t).Tree.GetVersion()
	if p.look("late-1"); p.stored(p.t).Tree.GetVersion() != version {
		t.Errorf("version %d after %d, and nothing has changed", p.stored(p.t).Tree.GetVersion(), version)
	}
}

// Of the members that come to a tree, as many are taken in as have room. The others are when some have gone, or at once if they are smaller.
func TestAsManyAsHaveRoomAreTakenIn(t *testing.T) {
	p := crowding(t)
	var names []string
	for i := range 11 {
		names = append(names, fmt.Sprintf("late-%02d", i))
	}
	p.come(500_000, names...)
	p.look(names[:7]...)
	p.come(1000, "small")
	p.look(append(names[:7:7], "small")...)
	p.desk.leave(t, names[2])
	p.look(slices.Concat(names[:2], names[3:8], []string{"small"})...)
	for _, name := range names[:6] {
		p.desk.leave(t, name)
	}
	p.look(append(names[6:len(names):len(names)], "small")...)
	if p.room != (room{}) {
		t.Errorf("there is room, and it is not known: %v", p.room)
	}
}

// However many come late, there is room for another agent in the place of one that is lost, though its name is longer.
func TestCrowdedTreeHasRoomForAnotherAgent(t *testing.T) {
	p := crowding(t)
	come := func(bytes, members int, prefix string) {
		for i := range members {
			p.come(bytes, fmt.Sprint(prefix, "-", i))
		}
		p.lookAll()
	}
	come(3_900_000, 1, "late")
	come(8_000, 34, "later") // not all have room
	come(500, 20, "last")
	if p.room.nodes == 0 {
		t.Fatal("all who have come have room")
	}
	another := "another-" + strings.Repeat("n", 100)
	p.desk.put(t, view.AgentKey(another), &agentv1.Agent{Name: another, State: agentv1.AgentState_AGENT_STATE_ONLINE, Addresses: []string{"c:7410"}})
	p.desk.AttachAgent(another)
	p.desk.agents["b"].goodbye = true
	p.lookAll()
	if parent, _ := p.tree.Parent("member/" + p.m); parent != "agent/"+another {
		t.Errorf("the member is fed by %q", parent)
	}
}
