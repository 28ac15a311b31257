package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after returns a time some seconds after the delivery began.
func after(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

const (
	isComplete = groupv1.ReceiptState_RECEIPT_STATE_COMPLETE
	isFailed   = groupv1.ReceiptState_RECEIPT_STATE_FAILED
)

// String shows a verdict as "a:left b:left; ended deadline; due +60s".
func (v verdict) String() string {
	var parts []string
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(v.failed)) {
		failed = append(failed, name+":"+v.failed[name].reason)
	}
	if len(failed) > 0 {
		parts = append(parts, strings.Join(failed, " "))
	}
	if v.ended {
		parts = append(parts, strings.TrimSpace("ended "+v.reason))
	}
	if !v.due.IsZero() {
		parts = append(parts, fmt.Sprintf("due +%v", v.due.Sub(begin)))
	}
	return strings.Join(parts, "; ")
}

func TestOutcome(t *testing.T) {
	under := memberFacts{name: "a"}
	done, failed := memberFacts{name: "b", final: isComplete}, memberFacts{name: "c", final: isFailed}
	unknown := func(name string, since float64) memberFacts {
		return memberFacts{name: name, unknownSince: after(since)}
	}
	for _, tt := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"under way", facts{now: after(1), members: []memberFacts{under, done}}, ""},
		{"all complete", facts{now: after(1), members: []memberFacts{done}}, "ended"},
		{"all final", facts{now: after(1), members: []memberFacts{done, failed}}, "ended"},
		{"nobody waits for late members", facts{now: after(1), members: []memberFacts{done}, late: []memberFacts{under}}, "ended"},
		{"a member left", facts{now: after(1), members: []memberFacts{{name: "a", left: true}, {name: "d"}}}, "a:left"},
		{"a member whose identity was revoked", facts{now: after(1), members: []memberFacts{{name: "a", expelled: true}, {name: "d"}}}, "a:left"},
		{"the last one left", facts{now: after(1), members: []memberFacts{{name: "a", left: true}, done}}, "a:left; ended"},
		{"a member left that has it", facts{now: after(1), members: []memberFacts{{name: "b", left: true, final: isComplete}, under}}, ""},
		{"a late member left: it may come again", facts{now: after(1), members: []memberFacts{under}, late: []memberFacts{{name: "l", left: true}}}, ""},
		{"too slow", facts{now: after(1), members: []memberFacts{{name: "a", evicted: true}, {name: "d"}}, late: []memberFacts{{name: "l", evicted: true}}}, "a:slow l:slow"},
		{"the group is gone", facts{now: after(1), groupGone: true, members: []memberFacts{under, done}}, "a:canceled; ended canceled"},

		{"it puts into its place what it has", facts{now: after(1799), members: []memberFacts{{name: "a", hasAll: true, finishing: begin}, done}}, "due +30m0s"},
		{"it never puts that into its place", facts{now: after(1800), members: []memberFacts{{name: "a", hasAll: true, finishing: begin}, done}}, "a:slow; ended"},
		{"the sender reads", facts{now: after(609), readAt: after(10), members: []memberFacts{under, done}}, "due +10m10s"},
		{"the sender's disk hangs", facts{now: after(610), readAt: after(10), members: []memberFacts{under, done}}, "a:failed; ended failed"},
		{"the sender has read all", facts{now: after(700), readAt: after(10), sealed: true, connected: true, moved: after(690), members: []memberFacts{under, done}}, "due +12m40s"},

		{"before the deadline", facts{now: after(9), deadline: after(10), members: []memberFacts{under}}, "due +10s"},
		{"at the deadline", facts{now: after(10), deadline: after(10), members: []memberFacts{under, done, unknown("u", 1)}}, "a:deadline u:deadline; ended deadline"},

		{"unknown for a while", facts{now: after(30), members: []memberFacts{done, unknown("u", 10)}}, "due +1m10s"},
		{"unknown for long", facts{now: after(70), members: []memberFacts{done, unknown("u", 10)}}, "ended"},
		{"unknown, one for long", facts{now: after(75), members: []memberFacts{unknown("u", 10), unknown("v", 20)}}, "due +1m20s"},
		{"unknown for long, another under way", facts{now: after(90), members: []memberFacts{under, unknown("u", 10)}}, ""},

		{"its program said nothing yet", facts{now: after(59), unclaimed: begin, members: []memberFacts{under}}, "due +1m0s"},
		{"its program says nothing", facts{now: after(60), unclaimed: begin, members: []memberFacts{under, done}}, "a:sender_lost; ended sender_lost"},
		{"its program was not heard by another manager", facts{now: after(60), unclaimed: begin, sealed: true, members: []memberFacts{under}}, "due +2m0s"},
		{"a stream that became too long", facts{now: after(1), stream: true, tooLong: ErrTooLarge, members: []memberFacts{under, done}}, "a:failed; ended failed"},
		{"the sender is gone before the seal", facts{now: after(5), senderGone: after(5), members: []memberFacts{under, done}}, "a:sender_lost; ended sender_lost"},
		{"it is gone, all is handed over", facts{now: after(5), senderGone: after(1), sealed: true, handedOver: true, members: []memberFacts{under}}, "due +1m5s"},
		{"it is gone, the rest may be on its way", facts{now: after(5), senderGone: after(4), sealed: true, members: []memberFacts{under}}, "due +9s"},
		{"it is gone, more came", facts{now: after(9), senderGone: after(4), agentMoved: after(8), sealed: true, members: []memberFacts{under}}, "due +13s"},
		{"it is gone, no more came", facts{now: after(9), senderGone: after(4), sealed: true, members: []memberFacts{under}}, "a:sender_lost; ended sender_lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.moved, tt.facts.connected = tt.facts.now, true
			if got := decide(tt.facts).String(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A member that has reached no agent for a minute fails once nobody else has got more for 15 s: they may wait for it, and have their own
// minute from then on. Where nobody has reached one, or all others have ended, it fails as those do for whom nothing moves.
func TestWhoReachesNoAgentHoldsUpNobody(t *testing.T) {
	under, late := memberFacts{name: "a"}, memberFacts{name: "l"}
	alone := func(name string) memberFacts { return memberFacts{name: name, aloneSince: after(10)} }
	for _, tt := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"for a while", facts{now: after(69), moved: after(20), members: []memberFacts{under, alone("x")}}, "due +1m10s"},
		{"for long", facts{now: after(70), moved: after(20), members: []memberFacts{under, alone("x")}}, "x:no_path"},
		{"for long, nobody for as long", facts{now: after(70), moved: begin, members: []memberFacts{under, alone("x")}}, "x:no_path"},
		{"for long, others get on", facts{now: after(70), moved: after(60), members: []memberFacts{under, alone("x")}}, "due +1m15s"},
		{"others got on until lately", facts{now: after(75), moved: after(60), members: []memberFacts{under, alone("x")}}, "x:no_path"},
		{"a late one, too", facts{now: after(70), moved: after(20), members: []memberFacts{under}, late: []memberFacts{alone("x")}}, "x:no_path"},
		{"a late one is held up, too", facts{now: after(70), moved: after(20), members: []memberFacts{alone("x")}, late: []memberFacts{late}}, "x:no_path; ended"},
		{"all", facts{now: after(79), moved: after(20), members: []memberFacts{alone("x"), alone("y")}}, "due +1m20s"},
		{"all, for long", facts{now: after(80), moved: after(20), members: []memberFacts{alone("x"), alone("y")}}, "x:no_path y:no_path; ended"},
		{"others only check what they have", facts{now: after(79), moved: after(20), members: []memberFacts{alone("x"), {name: "a", hasAll: true}}}, "due +1m20s"},
		{"it only checks what it has", facts{now: after(79), moved: after(20), members: []memberFacts{under, {name: "x", aloneSince: after(10), hasAll: true}}}, "due +1m20s"},
		{"the others wait for their turn", facts{now: after(79), moved: after(20), members: []memberFacts{{name: "a", queuedSince: after(30)}, alone("x")}}, "due +1m20s"},
		{"the last one", facts{now: after(79), moved: after(20), members: []memberFacts{alone("x"), {name: "b", final: isComplete}}}, "due +1m20s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.connected, tt.facts.trouble = true, true
			if got := decide(tt.facts).String(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestStuck(t *testing.T) {
	members := []memberFacts{{name: "a"}, {name: "b"}, {name: "checks", hasAll: true}, {name: "c", final: isComplete}, {name: "u", unknownSince: after(1)}}
	const nobody = ": no agent could feed the member"
	for _, tt := range []struct {
		name  string
		facts facts
		want  string
		why   string // of those who failed
	}{
		{"in trouble for a while", facts{now: after(59), trouble: true, connected: true}, "due +1m0s", ""},
		{"in trouble, where others are fed", facts{now: after(60), trouble: true, connected: true, busy: true}, "due +2m0s", ""},
		{"in trouble for very long", facts{now: after(300), trouble: true, connected: true, busy: true}, "a:no_path b:no_path", "nothing came for 5m0s" + nobody},
		{"in trouble for long", facts{now: after(60), trouble: true, connected: true}, "a:no_path b:no_path", "nothing came for 1m0s" + nobody},
		{"nobody is connected", facts{now: after(60)}, "a:no_path b:no_path", "nothing came for 1m0s" + nobody},
		{"the sender pauses", facts{now: after(600), connected: true}, "", ""},
		{"all is sealed, for a while", facts{now: after(250), connected: true, sealed: true}, "due +5m0s", ""},
		{"whoever takes a stream pauses", facts{now: after(600), connected: true, stream: true, sealed: true}, "", ""},
		{"all is sealed, for long", facts{now: after(300), connected: true, sealed: true}, "a:no_path b:no_path", "nothing came for 5m0s" + nobody},
		{"the sender has gone, and what it sent with an agent", facts{
			now: after(60), connected: true, senderGone: after(1), sealed: true, handedOver: true,
		}, "a:no_path b:no_path", "nothing came for 1m0s" + nobody},
		{
			"the sender reaches no agent",
			facts{now: after(60), trouble: true, connected: true, unreached: "agent-a"},
			"a:no_path b:no_path", "nothing came for 1m0s: the sender could not reach agent agent-a at its data port",
		},
		{
			"no room at an agent",
			facts{now: after(60), trouble: true, connected: true, full: "agent-a"},
			"a:no_room b:no_room", "nothing came for 1m0s: the disk of agent agent-a has no room for its cache",
		},
		{"something moved", facts{now: after(60), moved: after(30)}, "due +1m30s", ""},
		{"in trouble after a pause", facts{now: after(600), trouble: true, connected: true, minded: after(590)}, "due +10m50s", ""},
		{"in trouble for long after a pause", facts{now: after(650), trouble: true, connected: true, minded: after(590)}, "a:no_path b:no_path", "nothing came for 1m0s" + nobody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.members, tt.facts.moved = members, moment.Latest(begin, tt.facts.moved)
			v := decide(tt.facts)
			if got := v.String(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			for _, failed := range v.failed {
				if failed.detail != tt.why {
					t.Errorf("%q, want %q", failed.detail, tt.why)
				}
			}
		})
	}
}

// Since when somebody minds that nothing moves: after a quiet moment, somebody has minded all along; after a quiet minute, somebody minds anew.
func TestUnrest(t *testing.T) {
	var u unrest
	for _, look := range []struct {
		at    float64
		quiet bool
		want  float64
	}{{0, false, 0}, {10, false, 0}, {20, true, -1}, {75, true, -1}, {79, false, 0}, {80, true, -1}, {140, false, 140}, {200, false, 140}} {
		want := after(look.want)
		if look.want < 0 {
			want = time.Time{}
		}
		u.look(look.quiet, after(look.at))
		if got := u.minded(); got != want {
			t.Errorf("after %vs it is minded since %v, want %v", look.at, got, want)
		}
	}
}

// Of an empty object, no node that has not heard that it has ended has all: all have as many bytes.
func TestHasAll(t *testing.T) {
	agent := placement.AgentID("a")
	for _, tt := range []struct {
		name   string
		sealed bool
		length uint64
		report *groupv1.DeliveryReport
		want   bool
	}{
		{"all bytes", true, 10, &groupv1.DeliveryReport{Bytes: 10}, true},
		{"some bytes", true, 10, &groupv1.DeliveryReport{Bytes: 9}, false},
		{"not sealed", false, 0, &groupv1.DeliveryReport{Bytes: 10}, false},
		{"empty", true, 0, &groupv1.DeliveryReport{}, false},
		{"empty, and it has ended", true, 0, &groupv1.DeliveryReport{Ended: true}, true},
		{"nothing was heard", true, 0, nil, false},
	} {
		p := progress{sealed: tt.sealed, length: tt.length, nodes: map[identity.ID]*nodeProgress{agent: {report: tt.report}}}
		if got := p.handedOver(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestAgentLost(t *testing.T) {
	fine := sight{online: true, attached: true, heard: after(9.5)}
	change := func(by func(*sight)) sight {
		s := fine
		by(&s)
		return s
	}
	for _, tt := range []struct {
		name  string
		sight sight
		want  string // the cause, or when it may be
	}{
		{"fine", fine, ""},
		{"offline", change(func(s *sight) { s.online = false }), causeOffline},
		{"said goodbye", change(func(s *sight) { s.goodbye = true }), causeOffline},
		{"closed just now", change(func(s *sight) { s.attached, s.closed = false, after(9.8) }), "+10.3s"},
		{"closed for long", change(func(s *sight) { s.attached, s.closed = false, after(9.5) }), causeClosed},
		{"attached again", change(func(s *sight) { s.closed = after(1) }), ""},
		{"not seen yet in this term", change(func(s *sight) { s.attached, s.heard = false, after(0) }), ""},
		{"silent, nobody minds", change(func(s *sight) { s.heard = after(1) }), ""},
		{"blamed just now", change(func(s *sight) { s.blamed = after(9.9) }), "+11.4s"},
		{"blamed for long", change(func(s *sight) { s.blamed = after(8.5) }), causeBlamed},
		{"idle", change(func(s *sight) { s.idle = after(-6) }), causeIdle},
		{"soon idle", change(func(s *sight) { s.idle = after(-4) }), "+11s"},
		{"idle here, busy elsewhere", change(func(s *sight) { s.idle, s.fed = after(-20), after(9) }), "+24s"},
		{"its disk is just full", change(func(s *sight) { s.full = after(9.9) }), "+11.4s"},
		{"its disk is full", change(func(s *sight) { s.full = after(8.5) }), causeFull},
		{"blamed and silent", change(func(s *sight) { s.blamed, s.heard = after(9.9), after(7.5) }), causeSilent},
		{"blamed and soon silent", change(func(s *sight) { s.blamed, s.heard = after(9.9), after(8) }), "+10.5s"},
		{"too slow", change(func(s *sight) { s.evicted = true }), causeSlow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, due := tt.sight.lost(after(10))
			if got == "" && !due.IsZero() {
				got = "+" + due.Sub(begin).String()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestStates(t *testing.T) {
	for complete, want := range []groupv1.DeliveryState{
		groupv1.DeliveryState_DELIVERY_STATE_FAILED, groupv1.DeliveryState_DELIVERY_STATE_PARTIAL, groupv1.DeliveryState_DELIVERY_STATE_COMPLETE,
	} {
		if got := stateOf(2, complete); got != want {
			t.Errorf("%d of 2: %v, want %v", complete, got, want)
		}
	}
}

// Where nobody could feed a member, it is told who could not reach whom, by the latest report; not once anybody got more.
func TestStuckSaysWhoIsApart(t *testing.T) {
	current, err := tree.Restore([]tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}},
		{Node: tree.Node{Name: "agent/a", Kind: tree.Agent}, Parent: "member/s"},
		{Node: tree.Node{Name: "member/m", Kind: tree.Member}, Parent: "agent/a"},
	}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	p := &progress{begun: begin, nodes: make(map[identity.ID]*nodeProgress), links: make(map[link]*carriage)}
	stuck := func() string {
		f := facts{now: after(60), moved: begin, trouble: true, connected: true, apart: p.apart, members: []memberFacts{{name: "m"}}}
		return decide(f).failed["m"].detail
	}
	p.take(placement.MemberID("m"), &groupv1.DeliveryReport{Lost: "a"}, current, after(1))
	p.take(placement.MemberID("m"), &groupv1.DeliveryReport{Lost: "stranger"}, current, after(2))
	if got, want := stuck(), "nothing came for 1m0s: no agent could feed the member; member/m could not reach agent/a at its data port"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.take(placement.MemberID("m"), &groupv1.DeliveryReport{Bytes: 7}, current, after(3))
	if got, want := stuck(), "nothing came for 1m0s: no agent could feed the member"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a sender sends again and again to an agent whose disk has no room moves nothing: the delivery is stuck.
func TestWhatAFullDiskLosesIsNoProgress(t *testing.T) {
	current, err := tree.Restore([]tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}},
		{Node: tree.Node{Name: "agent/a", Kind: tree.Agent}, Parent: "member/s"},
	}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	sender, agent := placement.MemberID("s"), placement.AgentID("a")
	p := &progress{sender: sender, begun: begin, nodes: make(map[identity.ID]*nodeProgress), links: make(map[link]*carriage)}
	send := func(bytes uint64, seconds float64) {
		fed := &groupv1.ChildReport{Name: "a", SentBytes: bytes}
		p.take(sender, &groupv1.DeliveryReport{Bytes: 10, Fed: fed}, current, after(seconds))
	}
	wantMoved := func(seconds float64) {
		t.Helper()
		if p.moved != after(seconds) {
			t.Errorf("moved at +%v, want +%vs", p.moved.Sub(begin), seconds)
		}
	}
	send(10, 1)
	send(20, 2) // it may be ahead of what the agent says
	wantMoved(2)
	p.take(agent, &groupv1.DeliveryReport{Trouble: NoRoom}, current, after(3))
	send(30, 4)
	wantMoved(2)
	p.take(agent, &groupv1.DeliveryReport{Bytes: 7, Trouble: NoRoom}, current, after(5))
	wantMoved(5)
	p.take(agent, &groupv1.DeliveryReport{Bytes: 7}, current, after(6))
	send(40, 7)
	wantMoved(7)
}

// A member may read what it has of an object already for longer than anybody waits for bytes, which nobody sends meanwhile: as long as it
// gets on with that, the delivery is not stuck.
func TestReadingWhatIsThereIsProgress(t *testing.T) {
	u, begun := serve(t, new(groupv1.DeliverySpec)), time.Now()
	stuck := func(at time.Time) int {
		u.observe(u.shown(), at)
		return len(decide(u.facts(u.shown(), at)).failed)
	}
	stuck(begun) // since when somebody minds
	at := begun
	for reads := range uint64(5) {
		at = at.Add(StuckPatience * 2 / 3)
		u.progress.take(placement.MemberID("m"), heard(placement.MemberID("m"), &groupv1.DeliveryReport{Reads: reads + 1}, u.tree), u.tree, at)
		if failed := stuck(at); failed > 0 {
			t.Fatalf("%d members have failed after %v, while one reads what it has", failed, at.Sub(begun))
		}
	}
	if failed := stuck(at.Add(StuckPatience)); failed == 0 {
		t.Error("nobody has failed, though nobody has got on for long")
	}
}

// A disk that does not answer ends a delivery without a deadline: a member's that has all and gets on with nothing, or the sender's that reads
// nothing. That they get on is all that counts, however long it takes.
func TestWhoGetsOnHasTime(t *testing.T) {
	u, begun := serve(t, new(groupv1.DeliverySpec)), time.Now()
	sender, m1 := placement.MemberID("s"), placement.MemberID("m1")
	reads := uint64(0)
	says := func(who identity.ID, report *groupv1.DeliveryReport, at time.Time) {
		u.progress.take(who, heard(who, report, u.tree), u.tree, at)
	}
	getsOn := func(who identity.ID, at time.Time) {
		reads++
		says(who, &groupv1.DeliveryReport{Bytes: 10, Reads: reads}, at)
	}
	want := func(at time.Time, want string) {
		t.Helper()
		connected := []*groupv1.ChildReport{{Name: "m1", Role: string(identity.Member), Connected: true}}
		says(placement.AgentID("a"), &groupv1.DeliveryReport{Bytes: 10, Children: connected}, at)
		u.observe(u.shown(), at)
		v := decide(u.facts(u.shown(), at))
		v.due = time.Time{}
		if got := v.String(); got != want {
			t.Errorf("after %v: %q, want %q", at.Sub(begun), got, want)
		}
	}
	at := begun
	for range 5 {
		getsOn(sender, at)
		at = at.Add(SourcePatience * 3 / 4)
		want(at, "")
	}
	moved := u.progress.moved
	getsOn(sender, at)
	if u.progress.moved.After(moved) {
		t.Error("that the sender reads counts as if somebody got more")
	}
	want(at.Add(SourcePatience), "m1:failed m2:failed; ended failed")

	sealed := u.shown()
	sealed.DeliveryRecord = proto.CloneOf(sealed.DeliveryRecord)
	sealed.Delivery.Sealed, sealed.Delivery.Length = true, 10
	u.desk.put(t, view.ReceiptKey("d", "m2"), &groupv1.Receipt{Member: "m2", State: isComplete})
	u.desk.write(t, sealed)
	for range 5 {
		getsOn(m1, at)
		at = at.Add(FinishPatience * 3 / 4)
		want(at, "")
	}
	want(at.Add(FinishPatience), "m1:slow; ended")
}

// A member that waits for its turn at its program has the others' time once that comes, and so has the agent that feeds it. That it waits
// is no progress of the others.
func TestWhoHasItsTurnHasPatience(t *testing.T) {
	u, begun := serve(t, new(groupv1.DeliverySpec)), time.Now()
	m1 := placement.MemberID("m1")
	wantFailed := func(report *groupv1.DeliveryReport, at time.Time, want ...string) {
		t.Helper()
		u.progress.take(m1, heard(m1, report, u.tree), u.tree, at)
		u.observe(u.shown(), at)
		if failed := slices.Sorted(maps.Keys(decide(u.facts(u.shown(), at)).failed)); !slices.Equal(failed, want) {
			t.Errorf("after %v %v have failed, want %v", at.Sub(begun), failed, want)
		}
	}
	at := begun
	for range 10 {
		wantFailed(&groupv1.DeliveryReport{Paused: true, Queued: true}, at)
		if detail := u.underWay("m1", false).GetDetail(); at.Equal(begun) && !strings.Contains(detail, "waits for its turn") {
			t.Errorf("it is said of it: %q", detail)
		}
		at = at.Add(StuckPatience / 11)
	}
	at = at.Add(10 * BusyPatience)
	wantFailed(&groupv1.DeliveryReport{Paused: true, Queued: true}, at, "m2")
	wantFailed(&groupv1.DeliveryReport{Paused: true, Queued: true}, begun.Add(QueuePatience), "m1", "m2")
	turn := at.Add(time.Second)
	wantFailed(new(groupv1.DeliveryReport), turn)
	if since := u.judge(turn, false).lacksSince(m1); since.Before(turn) {
		t.Errorf("it could have had something for %v", turn.Sub(since))
	}
	wantFailed(new(groupv1.DeliveryReport), turn.Add(BusyPatience), "m1", "m2")
}
