package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// told is what a node knows after it was told.
type told map[string]*groupv1.Assignment

// hear takes messages as uplink does.
func (k told) hear(t *testing.T, messages []*groupv1.Assignments) {
	t.Helper()
	for i, message := range messages {
		if message.GetComplete() && i == 0 {
			clear(k)
		}
		if message.GetComplete() && message.GetContinues() != (i < len(messages)-1) {
			t.Errorf("part %d of %d continues: %v", i, len(messages), message.GetContinues())
		}
		for _, assignment := range message.GetCurrent() {
			k[assignment.GetDelivery()] = assignment
		}
		for _, id := range message.GetDropped() {
			delete(k, id)
		}
	}
}

// A node knows all that it has to do, and is told each change once, in parts of bounded size.
func TestAttachment(t *testing.T) {
	d := &Desk{attached: make(map[seat]map[*Attachment]bool), plans: make(map[seat]map[string]*groupv1.Assignment)}
	me := placement.MemberID("m")
	assign := func(delivery string, assignment *groupv1.Assignment) {
		next := make(map[identity.ID]*groupv1.Assignment)
		if assignment != nil {
			assignment.Delivery = delivery
			next[me] = assignment
		}
		d.assign("g", delivery, []identity.ID{me}, next)
	}
	knows := make(told)
	a := d.AttachMember("g", "m")
	first := a.Next()
	if len(first) != 1 || !first[0].GetComplete() || a.Busy() {
		t.Fatalf("first told %v, want that there is nothing to do", first)
	}
	knows.hear(t, first)
	large := make([]byte, assignmentBytes/3)
	for i := range 7 {
		assign(fmt.Sprint(i), &groupv1.Assignment{Root: large})
	}
	assign("0", &groupv1.Assignment{Root: large, Ended: true})
	assign("1", nil)
	select {
	case <-a.Wake():
	default:
		t.Error("it was not woken")
	}
	messages := a.Next()
	if len(messages) < 3 {
		t.Errorf("told in %d messages, want several", len(messages))
	}
	knows.hear(t, messages)
	want := []string{"0", "2", "3", "4", "5", "6"}
	if got := slices.Sorted(maps.Keys(knows)); !slices.Equal(got, want) || !knows["0"].GetEnded() || !a.Busy() {
		t.Errorf("it knows %v, want %v", got, want)
	}
	if again := a.Next(); again != nil {
		t.Errorf("told again %v", again)
	}
	assign("2", nil)
	knows.hear(t, a.Next())
	if _, knew := knows["2"]; knew {
		t.Error("it was not told to drop one")
	}
	a.Close()
	other := d.AttachMember("g", "m") // on another stream: all again
	knows = told{"gone": nil}
	knows.hear(t, other.Next())
	if got := slices.Sorted(maps.Keys(knows)); !slices.Equal(got, []string{"0", "3", "4", "5", "6"}) {
		t.Errorf("attached again, it knows %v", got)
	}
}

// The deliveries that a node has to drop are told in parts of bounded size, too.
func TestNextDropsInParts(t *testing.T) {
	d := &Desk{attached: make(map[seat]map[*Attachment]bool), plans: make(map[seat]map[string]*groupv1.Assignment)}
	me, knows := placement.AgentID("a"), make(told)
	a := d.attach(seatOf("", me))
	assign := func(has bool) {
		for i := range 2 * assignmentBytes / 32 {
			id, next := fmt.Sprintf("%032x", i), make(map[identity.ID]*groupv1.Assignment)
			if has {
				next[me] = &groupv1.Assignment{Delivery: id}
			}
			d.assign("g", id, []identity.ID{me}, next)
		}
	}
	assign(true)
	knows.hear(t, a.Next())
	assign(false)
	d.assign("g", "new", []identity.ID{me}, map[identity.ID]*groupv1.Assignment{me: {Delivery: "new", Root: make([]byte, assignmentBytes/2)}})
	messages := a.Next()
	for i, message := range messages {
		if size := proto.Size(message); size > assignmentBytes*9/8 {
			t.Errorf("part %d of %d has %d bytes", i, len(messages), size)
		}
	}
	if knows.hear(t, messages); len(knows) != 1 || knows["new"] == nil {
		t.Errorf("it knows %d deliveries, want the new one alone", len(knows))
	}
}

// Telling a node costs what has changed: thousands of deliveries that are kept cost nothing.
func TestNextCostsWhatHasChanged(t *testing.T) {
	d := &Desk{attached: make(map[seat]map[*Attachment]bool), plans: make(map[seat]map[string]*groupv1.Assignment)}
	me := placement.MemberID("m")
	assign := func(delivery string) {
		d.assign("g", delivery, []identity.ID{me}, map[identity.ID]*groupv1.Assignment{me: {Delivery: delivery}})
	}
	for i := range 5000 {
		assign(fmt.Sprint(i))
	}
	a := d.AttachMember("g", "m")
	a.Next()
	allocated := testing.AllocsPerRun(100, func() {
		assign("1")
		if told := a.Next(); len(told) != 1 || len(told[0].GetCurrent()) != 1 {
			t.Fatalf("told %v, want the one that has changed", told)
		}
	})
	if allocated > 50 {
		t.Errorf("%v allocations for one change among 5000 deliveries", allocated)
	}
}

// What a list tells of an agent fits into a message, however much the agent relays to however many: the children of its deliveries are counted
// there.
func TestOutlineFitsAMessage(t *testing.T) {
	const children = 10_000
	agent := placement.AgentID("a")
	d := &Desk{
		keepers: make(map[string]*keeper), agents: map[string]*presence{"a": {report: new(agentv1.Report)}},
		plans: map[seat]map[string]*groupv1.Assignment{{id: agent}: {}},
	}
	report := new(groupv1.DeliveryReport)
	for i := range children {
		report.Children = append(report.Children, &groupv1.ChildReport{Name: fmt.Sprintf("receiver-of-some-deployment-%05d", i), Connected: true, SentBytes: 1 << 40})
	}
	for i := range 2 * outlined {
		id := fmt.Sprintf("%032x", i)
		d.plans[seat{id: agent}][id] = new(groupv1.Assignment)
		d.keepers[id] = &keeper{progress: &progress{nodes: map[identity.ID]*nodeProgress{agent: {report: report}}}}
	}
	told := d.LastReport("a")
	if size := proto.Size(told); len(told.GetDeliveries()) != outlined || size > 2<<20 {
		t.Fatalf("told of %d deliveries in %d bytes", len(told.GetDeliveries()), size)
	}
	if first := told.GetDeliveries()[0].GetChildren(); len(first) != children || !first[0].GetConnected() {
		t.Errorf("it feeds %d, the first connected: %v", len(first), first[0].GetConnected())
	}
}

// What comes late by a stream that an agent has replaced counts no more, as where that had a connection that was found silent: that it says less
// is no sign that the agent counts anew.
func TestFormerStreamIsNotHeard(t *testing.T) {
	d, agent, member := newDesk(), placement.AgentID("a"), placement.MemberID("m")
	k := d.keep("d")
	k.setTree(over(t, agent, member.Name), nil, 1)
	former := d.AttachAgent(agent.Name)
	say := func(stream *Attachment, bytes uint64) {
		stream.ReportAgent(&agentv1.Report{Deliveries: []*groupv1.DeliveryReport{{
			Delivery: "d", Children: []*groupv1.ChildReport{{Name: member.Name, Role: string(member.Role), SentBytes: bytes}},
		}}})
	}
	say(former, 100)
	stream := d.AttachAgent(agent.Name)
	say(stream, 150)
	heard := d.agents[agent.Name].heard
	say(former, 140)
	if now := d.agents[agent.Name].heard; now != heard {
		t.Errorf("the agent counts as heard of at %v, want %v", now, heard)
	}
	say(stream, 160)
	if got := k.progress.links[link{agent, member}].bytes; got != 160 {
		t.Errorf("the link has carried %d bytes, want 160", got)
	}
}

// An agent has two control streams for a moment, of which the one that this manager learnt of last ends first. The other is heard from then on.
func TestWhicheverStreamIsLeftIsHeard(t *testing.T) {
	d := newDesk()
	other, last := d.AttachAgent("a"), d.AttachAgent("a")
	last.Close()
	other.ReportAgent(&agentv1.Report{Connections: 3})
	if !d.seen("a").attached || d.LastReport("a").GetConnections() != 3 {
		t.Errorf("it is attached: %t; it said %v", d.seen("a").attached, d.LastReport("a"))
	}
	if other.Close(); d.seen("a").attached || d.streams != 0 {
		t.Errorf("when both have ended it is attached: %t; %d streams", d.seen("a").attached, d.streams)
	}
}

// A stream by which nothing came for long stands in for no other: the agent may have died, and its connection not. If it was only silent, it is
// the agent's once it is heard.
func TestStreamThatIsSilentStandsInForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		silent, last := d.AttachAgent("a"), d.AttachAgent("a")
		time.Sleep(silentPatience)
		last.ReportAgent(&agentv1.Report{})
		if last.Close(); d.seen("a").attached || d.streams != 0 {
			t.Errorf("it is attached: %t; %d streams", d.seen("a").attached, d.streams)
		}
		if silent.ReportAgent(&agentv1.Report{}); !d.seen("a").attached || d.streams != 1 {
			t.Errorf("when it is heard it is attached: %t; %d streams", d.seen("a").attached, d.streams)
		}
	})
}
