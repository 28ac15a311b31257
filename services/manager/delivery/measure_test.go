package delivery

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// A member that is not heard of any more is unknown since its last word, not since its session expired, also where it was dead before the
// delivery began. The delivery waits for it from when it was found to be gone.
func TestUnknownSinceTheLastWord(t *testing.T) {
	u := serve(t, fileSpec())
	expired := time.Now()
	said := expired.Add(-12 * time.Second)
	u.desk.hearing = cutOff(said)
	gone := []store.Op{store.Put(view.EndedKey("g", "m1"), view.EncodeEnded(0, groupv1.MemberState_MEMBER_STATE_EXPIRED)), store.Delete(view.MemberKey("g", "m1"))}
	if _, err := u.desk.store.Commit(t.Context(), u.desk.ledger.Term(), nil, gone); err != nil {
		t.Fatal(err)
	}
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.observe(u.shown(), expired)
	for what, receipt := range map[string]*groupv1.Receipt{"under way": u.underWay("m1", false), "at the end": u.unknownReceipt("m1", expired.Add(time.Minute))} {
		if got := receipt.GetChangeTime().AsTime(); receipt.GetState() != groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN || !got.Equal(said) {
			t.Errorf("%s it is %v since %v, want %v", what, receipt.GetState(), got, said)
		}
	}
	if since := u.member(u.shown(), "m1", time.Now()).unknownSince; !since.Equal(expired) {
		t.Errorf("it is waited for from %v, want %v", since, expired)
	}
}

// What a link carried counts until its last byte, whenever that is told. No report of an agent takes it back to before the delivery began, or
// ahead of now.
func TestLinksAreMeasuredByTheirLastByte(t *testing.T) {
	const told, second = 10, 1000
	agent, member := identity.ID{Role: identity.Agent, Name: "a"}, placement.MemberID("m")
	current, err := tree.Restore([]tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}},
		{Node: tree.Node{Name: agent.String(), Kind: tree.Agent}, Parent: "member/s"},
		{Node: tree.Node{Name: member.String(), Kind: tree.Member}, Parent: agent.String()},
	}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		since *durationpb.Duration
		want  uint64
	}{
		"eight seconds ago":  {durationpb.New(8 * time.Second), told * second / 2},
		"now":                {durationpb.New(0), second},
		"not said":           {nil, second},
		"before it began":    {durationpb.New(time.Hour), 0},
		"before it is later": {durationpb.New(-time.Hour), second},
	} {
		p := &progress{begun: begin, nodes: make(map[identity.ID]*nodeProgress), links: make(map[link]*carriage), acked: make(map[string]uint64)}
		p.take(agent, &groupv1.DeliveryReport{Children: []*groupv1.ChildReport{{Name: "m", SentBytes: told * second, SinceSent: test.since}}}, current, after(told))
		uses := measuring{progress: p}.links()
		if len(uses) != 1 || uses[0].GetBytes() != told*second || uses[0].GetBytesPerSecond() != test.want {
			t.Errorf("%s: the links are measured as %v, want %d/s", name, uses, test.want)
		}
	}
}

// A delivery that goes on where all have a half is measured by the half that is sent: as fast as its sender may be, and with the cache that
// this half took. Where a member lacks little, it is not slow for that.
func TestWhatWasThereIsNotMeasured(t *testing.T) {
	agent := identity.ID{Role: identity.Agent, Name: "a"}
	current, err := tree.Restore([]tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}}, {Node: tree.Node{Name: agent.String(), Kind: tree.Agent}, Parent: "member/s"},
	}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	record := &managerv1.DeliveryRecord{
		Delivery: &groupv1.Delivery{Sender: "s", Length: 1000, SentBytes: 1000, Sealed: true, State: groupv1.DeliveryState_DELIVERY_STATE_COMPLETE, Receipts: []*groupv1.Receipt{
			{Member: "half", State: isComplete, Elapsed: durationpb.New(20 * time.Second)},
			{Member: "nearly all", State: isComplete, Elapsed: durationpb.New(10 * time.Second)},
		}},
		Members: []*managerv1.Participant{{Name: "half"}, {Name: "nearly all"}},
	}
	p := newProgress(view.Delivery{DeliveryRecord: record}, begin)
	p.begun, p.sealed, p.length = begin, true, 1000
	sender := &groupv1.DeliveryReport{Bytes: 1000, Fed: &groupv1.ChildReport{Name: "a", SentBytes: 500}}
	p.take(p.sender, sender, current, after(10))
	p.take(agent, &groupv1.DeliveryReport{Bytes: 1000, MaxCachedBytes: 250}, current, after(10))
	measuring{record, p, after(20)}.measure()
	m := record.GetDelivery().GetMeasurements()
	if m.GetSendBytesPerSecond() != 50 || m.GetReceptionBytesPerSecond() != 25 || m.GetEffectiveThroughput() != 0.5 || m.GetCaches()[0].GetRatio() != 0.5 {
		t.Errorf("measured as %v, want 50, 25, 0.5 and 0.5", m)
	}
	if got := record.GetSendTime().AsDuration(); got != 10*time.Second {
		t.Errorf("the sender took %v, want 10s", got)
	}
	receipt := &groupv1.Receipt{Member: "beside the record", Elapsed: durationpb.New(30 * time.Second)}
	record.Delivery.Receipts = []*groupv1.Receipt{receipt}
	if addStretch(record); receipt.GetStretch() != 3 {
		t.Errorf("a stretch of %v, want 3", receipt.GetStretch())
	}
}

// Nobody receives anything of a delivery that all had already, or that failed: it is no measure of deliveries that are sent.
func TestWhatNobodyReceivesIsNoMeasure(t *testing.T) {
	for what, test := range map[string]struct {
		delivery *groupv1.Delivery
		want     uint64 // observations
	}{
		"all had it":         {&groupv1.Delivery{State: groupv1.DeliveryState_DELIVERY_STATE_COMPLETE}, 0},
		"canceled":           {&groupv1.Delivery{State: groupv1.DeliveryState_DELIVERY_STATE_FAILED, SentBytes: 100}, 0},
		"to a part":          {&groupv1.Delivery{State: groupv1.DeliveryState_DELIVERY_STATE_PARTIAL, SentBytes: 1000}, 0},
		"sent, and complete": {&groupv1.Delivery{State: groupv1.DeliveryState_DELIVERY_STATE_COMPLETE, SentBytes: 1000}, 1},
	} {
		d := test.delivery
		d.Length, d.EndTime = 1000, timestamppb.New(after(4))
		d.Receipts = []*groupv1.Receipt{{Member: "a", State: isComplete, Elapsed: durationpb.New(4 * time.Second)}}
		record := &managerv1.DeliveryRecord{Delivery: d, Members: []*managerv1.Participant{{Name: "a"}}}
		p := newProgress(view.Delivery{DeliveryRecord: record}, begin)
		p.begun, p.sealed, p.length = begin, true, 1000
		measuring{record, p, after(4)}.measure()
		if got := d.GetMeasurements().GetReceptionBytesPerSecond(); got != 250*test.want {
			t.Errorf("%s: received at %d bytes per second, want %d", what, got, 250*test.want)
		}
		registry := prometheus.NewRegistry()
		NewMetrics(registry).measured(d.GetMeasurements())
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			switch family.GetName() {
			case "groupcast_manager_delivery_reception_bytes_per_second", "groupcast_manager_delivery_effective_throughput_ratio":
				if got := family.GetMetric()[0].GetHistogram().GetSampleCount(); got != test.want {
					t.Errorf("%s: %s has %d observations, want %d", what, family.GetName(), got, test.want)
				}
			}
		}
	}
}

// A delivery is measured for good once all of its agents have told that they are done with it. What the sender sent is known when it has ended.
func TestAllAgentsRest(t *testing.T) {
	a, b, m := identity.ID{Role: identity.Agent, Name: "a"}, identity.ID{Role: identity.Agent, Name: "b"}, placement.MemberID("m")
	k := &keeper{
		assigned: map[identity.ID]*groupv1.Assignment{a: {}, b: {}, m: {}},
		progress: &progress{nodes: make(map[identity.ID]*nodeProgress)},
	}
	report := func(id identity.ID, resting bool) {
		k.progress.nodes[id] = &nodeProgress{report: &groupv1.DeliveryReport{Resting: resting}}
	}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"nobody has reported", func() {}, false},
		{"one rests", func() { report(a, true) }, false},
		{"the other works", func() { report(b, false) }, false},
		{"both rest", func() { report(b, true) }, true},
		{"one feeds a late member", func() { report(a, false) }, false},
	} {
		step.do()
		if got := k.allRest(); got != step.want {
			t.Errorf("%s: all rest: %v", step.what, got)
		}
	}
}

// Where members had the end already, the sender's time is that until it last sent something.
func TestTheEndWasThere(t *testing.T) {
	record := &managerv1.DeliveryRecord{
		Delivery: &groupv1.Delivery{Sender: "s", Length: 1000, SentBytes: 1000, Sealed: true, State: groupv1.DeliveryState_DELIVERY_STATE_COMPLETE, Receipts: []*groupv1.Receipt{
			{Member: "m", State: isComplete, Elapsed: durationpb.New(20 * time.Second)},
		}},
		SealTime: timestamppb.New(begin),
	}
	p := newProgress(view.Delivery{DeliveryRecord: record}, begin)
	current, err := tree.Restore([]tree.Link{{Node: tree.Node{Name: "member/s", Kind: tree.Member}}, {Node: tree.Node{Name: "agent/a", Kind: tree.Agent}, Parent: "member/s"}}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	p.begun, p.sealed, p.length, p.hashed = begin, true, 1000, true
	for _, at := range []float64{10, 15} { // nothing comes after the first report
		p.take(p.sender, &groupv1.DeliveryReport{Bytes: 700, Fed: &groupv1.ChildReport{Name: "a", SentBytes: 40}}, current, after(at))
	}
	measuring{record, p, after(20)}.measure()
	d := record.GetDelivery()
	if m := d.GetMeasurements(); m.GetCarriedBytes() != 40 || d.GetReceipts()[0].GetStretch() != 2 {
		t.Errorf("carried %d bytes with a stretch of %v", m.GetCarriedBytes(), d.GetReceipts()[0].GetStretch())
	}
}

// What is sent again once all was sent, as for a member that begins anew, took none of the time in which that was.
func TestWhatIsSentAgainIsNoRate(t *testing.T) {
	record := &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Sender: "s", Length: 1000, SentBytes: 1000, Sealed: true}}
	p := newProgress(view.Delivery{DeliveryRecord: record}, begin)
	current, err := tree.Restore([]tree.Link{{Node: tree.Node{Name: "member/s", Kind: tree.Member}}, {Node: tree.Node{Name: "agent/a", Kind: tree.Agent}, Parent: "member/s"}}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	p.begun, p.sealed, p.length = begin, true, 1000
	for _, sent := range []uint64{1000, 1900} {
		p.take(p.sender, &groupv1.DeliveryReport{Bytes: 1000, Fed: &groupv1.ChildReport{Name: "a", SentBytes: sent}}, current, after(10))
	}
	measuring{record, p, after(30)}.measure()
	if m := record.GetDelivery().GetMeasurements(); m.GetSendBytesPerSecond() != 100 || m.GetLinks()[0].GetBytes() != 1900 {
		t.Errorf("measured as %v, want 100 bytes a second, and 1900 in all", m)
	}
}

// The sender's own link has what it carried: less than the sender is at where the agent had a part already.
func TestSendersLinkHasWhatItCarried(t *testing.T) {
	p := &progress{sender: placement.MemberID("s")}
	a, b := identity.ID{Role: identity.Agent, Name: "a"}, identity.ID{Role: identity.Agent, Name: "b"}
	said := &groupv1.DeliveryReport{Bytes: 100, Fed: &groupv1.ChildReport{Name: "a", SentBytes: 40}}
	if toA, toB := p.sentTo(a, said, nil), p.sentTo(b, said, nil); toA != 40 || toB != 0 {
		t.Errorf("%d went to the one that is fed, and %d to another", toA, toB)
	}
	said.Fed = nil
	if got := p.sentTo(a, said, nil); got != 100 {
		t.Errorf("of one that does not say it, %d", got)
	}
}

// Each link of a stream in datagrams has what it carried itself, also once its sender feeds another agent; one of an earlier version tells of
// all of them together.
func TestEachLinkHasItsOwnDatagrams(t *testing.T) {
	use := func(sent uint64) *groupv1.DatagramUse { return &groupv1.DatagramUse{Sent: sent} }
	feeding := func(agent string) *tree.Tree {
		current, err := tree.Restore([]tree.Link{{Node: tree.Node{Name: "member/s", Kind: tree.Member}}, {Node: tree.Node{Name: "agent/" + agent, Kind: tree.Agent}, Parent: "member/s"}}, tree.Bound{})
		if err != nil {
			t.Fatal(err)
		}
		return current
	}
	toA, toB := feeding("a"), feeding("b")
	for name, tt := range map[string]struct {
		told func(agent string, sent uint64) *groupv1.ChildReport
		want uint64
	}{
		"of this version": {func(agent string, sent uint64) *groupv1.ChildReport {
			return &groupv1.ChildReport{Name: agent, Datagrams: use(sent)}
		}, 5},
		"of an earlier version": {func(agent string, _ uint64) *groupv1.ChildReport { return &groupv1.ChildReport{Name: agent} }, 15},
	} {
		p := newProgress(view.Delivery{DeliveryRecord: &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Sender: "s"}}}, begin)
		p.take(p.sender, &groupv1.DeliveryReport{DatagramUse: use(10), Fed: tt.told("a", 10)}, toA, after(1))
		p.take(p.sender, &groupv1.DeliveryReport{DatagramUse: use(10), Fed: tt.told("a", 10)}, toB, after(2)) // it was not given the other one yet
		if got := p.links[link{p.sender, placement.AgentID("b")}]; got.use != nil {
			t.Errorf("a sender %s: a link that there was not yet has %v", name, got.use)
		}
		p.take(p.sender, &groupv1.DeliveryReport{DatagramUse: use(15), Fed: tt.told("b", 5)}, toB, after(3))
		for agent, want := range map[string]uint64{"a": 10, "b": tt.want} {
			if got := p.links[link{p.sender, placement.AgentID(agent)}].use.GetSent(); got != want {
				t.Errorf("a sender %s: %d datagrams to %s, want %d", name, got, agent, want)
			}
		}
	}
}

// An agent counts anew what it sends to a child, where it was started again or the child was elsewhere meanwhile. What it had said goes on. Agents
// of earlier versions do not name their counts: only that one says less shows that it began anew.
func TestLinkThatIsCountedAnew(t *testing.T) {
	current, err := tree.Restore([]tree.Link{
		{Node: tree.Node{Name: "member/s", Kind: tree.Member}},
		{Node: tree.Node{Name: "agent/a", Kind: tree.Agent}, Parent: "member/s"},
		{Node: tree.Node{Name: "member/m", Kind: tree.Member}, Parent: "agent/a"},
	}, tree.Bound{})
	if err != nil {
		t.Fatal(err)
	}
	agent, member := placement.AgentID("a"), placement.MemberID("m")
	type step struct{ count, told, want uint64 }
	for name, steps := range map[string][]step{
		"of an earlier version":   {{0, 100, 100}, {0, 150, 150}, {0, 0, 150}, {0, 20, 170}, {0, 10, 180}, {0, 40, 210}},
		"past what it was":        {{7, 50, 50}, {8, 80, 130}, {8, 90, 140}, {6, 95, 235}, {6, 100, 240}},
		"less than it was":        {{7, 50, 50}, {8, 10, 60}, {9, 10, 70}, {9, 60, 120}},
		"by an upgrade, and back": {{0, 50, 50}, {7, 80, 130}, {7, 90, 140}, {0, 100, 240}, {0, 110, 250}},
	} {
		datagrams := newProgress(view.Delivery{DeliveryRecord: &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Sender: "s"}}}, begin)
		bytes := newProgress(view.Delivery{DeliveryRecord: &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Sender: "s"}}}, begin)
		for i, tt := range steps {
			child := &groupv1.ChildReport{Name: "m", SentBytes: 1000 * tt.told, Count: tt.count, Datagrams: &groupv1.DatagramUse{Sent: tt.told, Trips: 1}}
			datagrams.take(agent, heard(agent, &groupv1.DeliveryReport{Children: []*groupv1.ChildReport{child}}, current), current, after(float64(i)))
			if got := datagrams.links[link{agent, member}]; got.bytes != 1000*tt.want || got.use.GetSent() != tt.want {
				t.Errorf("%s: told %d, it carried %d bytes in %d datagrams, want %d of these", name, tt.told, got.bytes, got.use.GetSent(), tt.want)
			}
			child = &groupv1.ChildReport{Name: "m", SentBytes: tt.told, Count: tt.count}
			bytes.take(agent, heard(agent, &groupv1.DeliveryReport{Children: []*groupv1.ChildReport{child}}, current), current, after(float64(i)))
			if got := bytes.links[link{agent, member}]; got.bytes != tt.want {
				t.Errorf("%s: told %d, it carried %d bytes, want %d", name, tt.told, got.bytes, tt.want)
			}
		}
	}
}
