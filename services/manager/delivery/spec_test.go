package delivery

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

func fileSpec() *groupv1.DeliverySpec {
	return &groupv1.DeliverySpec{Name: "f", Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Length: 1}
}

func datagrams(how *groupv1.DatagramSpec) func(*groupv1.DeliverySpec) {
	return func(s *groupv1.DeliverySpec) {
		s.Kind, s.Length, s.LengthUnknown, s.Datagrams = groupv1.DeliveryKind_DELIVERY_KIND_STREAM, 0, true, how
	}
}

func TestSpecs(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*groupv1.DeliverySpec)
		field  string
	}{
		"a file":             {func(*groupv1.DeliverySpec) {}, ""},
		"any characters":     {func(s *groupv1.DeliverySpec) { s.Name = "…\n\\ weights" }, ""},
		"the longest name":   {func(s *groupv1.DeliverySpec) { s.Name = strings.Repeat("x", 255) }, ""},
		"a longer one":       {func(s *groupv1.DeliverySpec) { s.Name = strings.Repeat("x", 256) }, "spec.name"},
		"no kind":            {func(s *groupv1.DeliverySpec) { s.Kind = 0 }, "spec.kind"},
		"a kind to come":     {func(s *groupv1.DeliverySpec) { s.Kind = 99 }, "spec.kind"},
		"a mode to come":     {func(s *groupv1.DeliverySpec) { s.ControlMode = 99 }, "spec.control_mode"},
		"odd congestion":     {func(s *groupv1.DeliverySpec) { s.Congestion = 99 }, "spec.congestion"},
		"odd permissions":    {func(s *groupv1.DeliverySpec) { s.Mode = 0o100644 }, "spec.mode"},
		"a past deadline":    {func(s *groupv1.DeliverySpec) { s.Deadline = durationpb.New(-1) }, "spec.deadline"},
		"a negative bound":   {func(s *groupv1.DeliverySpec) { s.LatencyBound = durationpb.New(-1) }, "spec.latency_bound"},
		"a trickle":          {func(s *groupv1.DeliverySpec) { s.MaxBytesPerSecond = 4095 }, "spec.max_bytes_per_second"},
		"kept for days":      {func(s *groupv1.DeliverySpec) { s.Keep = durationpb.New(48 * time.Hour) }, "spec.keep"},
		"length and none":    {func(s *groupv1.DeliverySpec) { s.LengthUnknown = true }, "spec.length"},
		"a stream's length":  {func(s *groupv1.DeliverySpec) { s.Kind = groupv1.DeliveryKind_DELIVERY_KIND_STREAM }, "spec.length_unknown"},
		"odd slow policy":    {func(s *groupv1.DeliverySpec) { s.SlowMember = &groupv1.SlowMemberPolicy{Action: 99} }, "spec.slow_member.action"},
		"datagrams":          {datagrams(&groupv1.DatagramSpec{ParityData: 10, ParityShards: 2}), ""},
		"a file in them":     {func(s *groupv1.DeliverySpec) { s.Datagrams = &groupv1.DatagramSpec{} }, "spec.datagrams"},
		"fresh for hours":    {datagrams(&groupv1.DatagramSpec{Fresh: durationpb.New(time.Hour)}), "spec.datagrams.fresh"},
		"parity of nothing":  {datagrams(&groupv1.DatagramSpec{ParityShards: 2}), "spec.datagrams.parity_shards"},
		"too much parity":    {datagrams(&groupv1.DatagramSpec{ParityData: 10, ParityShards: 129}), "spec.datagrams.parity_data"},
		"an empty directory": {func(s *groupv1.DeliverySpec) { s.Kind, s.Length = groupv1.DeliveryKind_DELIVERY_KIND_DIRECTORY, 0 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := fileSpec()
			tt.change(spec)
			err := checkSpec(spec)
			var invalid *ledger.Invalid
			if errors.As(err, &invalid) != (tt.field != "") || tt.field != "" && invalid.Violations[0].Field != tt.field {
				t.Errorf("%v, want a problem with %q", err, tt.field)
			}
		})
	}
	if checkSpec(nil) == nil {
		t.Error("no spec at all is fine")
	}
}

func TestPolicyDecidesWhatIsLeftOpen(t *testing.T) {
	const (
		hop, endToEnd = groupv1.ControlMode_CONTROL_MODE_HOP, groupv1.ControlMode_CONTROL_MODE_END_TO_END
		detach, pace  = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH, groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE
		evict         = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	)
	for _, tt := range []struct {
		name         string
		asked, group groupv1.ControlMode
		slow         *groupv1.SlowMemberPolicy
		want         groupv1.SlowMemberAction
	}{
		{"nothing asked, hop", 0, hop, slowDefault(hop), detach},
		{"nothing asked, end to end", 0, endToEnd, slowDefault(endToEnd), pace},
		{"the other mode, the group's default", endToEnd, hop, slowDefault(hop), pace},
		{"the other mode back", hop, endToEnd, slowDefault(endToEnd), detach},
		{"the other mode, decided by the group", endToEnd, hop, &groupv1.SlowMemberPolicy{Action: evict, LagBytes: 5}, evict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := fileSpec()
			spec.ControlMode = tt.asked
			got := withPolicy(spec, &groupv1.Policy{ControlMode: tt.group, SlowMember: tt.slow})
			if got.GetSlowMember().GetAction() != tt.want {
				t.Errorf("slow members: %v, want %v", got.GetSlowMember(), tt.want)
			}
		})
	}
	most := func(asked, limit uint64) uint64 {
		spec := fileSpec()
		spec.MaxBytesPerSecond = asked
		return withPolicy(spec, &groupv1.Policy{Limits: &groupv1.Limits{MaxBytesPerSecond: limit}}).GetMaxBytesPerSecond()
	}
	if most(0, 0) != 0 || most(7, 0) != 7 || most(0, 5) != 5 || most(7, 5) != 5 || most(3, 5) != 3 {
		t.Error("the rate is not the smaller of the two")
	}
	plain := withPolicy(fileSpec(), &groupv1.Policy{DataPlane: groupv1.DataPlane_DATA_PLANE_PLAINTEXT})
	if plain.GetDataPlane() != groupv1.DataPlane_DATA_PLANE_PLAINTEXT || plain.GetKeep().AsDuration() != keepDefault {
		t.Errorf("decided as %v", plain)
	}
}

// How long a delivery may take, and is kept, is the sender's to say, and otherwise the group's. A stream ends when its source does.
func TestPolicyDecidesHowLong(t *testing.T) {
	policy := &groupv1.Policy{Keep: durationpb.New(time.Hour), Deadline: durationpb.New(time.Minute)}
	own := fileSpec()
	own.Keep, own.Deadline = durationpb.New(time.Second), durationpb.New(2*time.Minute)
	stream := fileSpec()
	stream.Kind, stream.Length, stream.LengthUnknown = groupv1.DeliveryKind_DELIVERY_KIND_STREAM, 0, true
	for name, tt := range map[string]struct {
		asked          *groupv1.DeliverySpec
		policy         *groupv1.Policy
		keep, deadline time.Duration
	}{
		"the group's":  {fileSpec(), policy, time.Hour, time.Minute},
		"the sender's": {own, policy, time.Second, 2 * time.Minute},
		"nobody's":     {fileSpec(), &groupv1.Policy{}, keepDefault, 0},
		"a stream":     {stream, policy, time.Hour, 0},
	} {
		got := withPolicy(tt.asked, tt.policy)
		if got.GetKeep().AsDuration() != tt.keep || got.GetDeadline().AsDuration() != tt.deadline {
			t.Errorf("%s: kept for %v, within %v, want %v and %v", name, got.GetKeep().AsDuration(), got.GetDeadline().AsDuration(), tt.keep, tt.deadline)
		}
	}
}

// Limits for slow members that a delivery asks for are joined with the group's, or are refused where they would have no effect.
func TestLimitsForSlowMembers(t *testing.T) {
	type slow = groupv1.SlowMemberPolicy
	const (
		detach, pace = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_DETACH, groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE
		evict        = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	)
	evicting := &slow{Action: evict, LagBytes: 100, LagTime: durationpb.New(time.Second)}
	for name, tt := range map[string]struct {
		asked, group, want *slow
		refused            string
	}{
		"nothing asked":               {nil, evicting, evicting, ""},
		"another limit":               {&slow{LagBytes: 5}, evicting, &slow{Action: evict, LagBytes: 5, LagTime: durationpb.New(time.Second)}, ""},
		"the same action":             {&slow{Action: evict}, evicting, evicting, ""},
		"another action":              {&slow{Action: pace, FloorBytesPerSecond: 7}, evicting, &slow{Action: pace, FloorBytesPerSecond: 7}, ""},
		"evicting without limits":     {&slow{Action: evict}, &slow{Action: detach}, &slow{Action: evict}, "evicts nobody"},
		"a lag where it is paced":     {&slow{LagBytes: 5}, &slow{Action: pace}, &slow{Action: pace, LagBytes: 5}, "lag_bytes: is for evict"},
		"a time where it is paced":    {&slow{LagTime: durationpb.New(1)}, &slow{Action: pace}, &slow{Action: pace, LagTime: durationpb.New(1)}, "lag_time: is for evict"},
		"a floor where it is evicted": {&slow{FloorBytesPerSecond: 7}, evicting, &slow{Action: evict, FloorBytesPerSecond: 7, LagBytes: 100, LagTime: durationpb.New(time.Second)}, "is for pace"},
	} {
		t.Run(name, func(t *testing.T) {
			merged := mergeSlow(tt.asked, tt.group)
			if !proto.Equal(merged, tt.want) {
				t.Errorf("%v, want %v", merged, tt.want)
			}
			err := checkSlow(tt.asked, merged)
			if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)) {
				t.Errorf("%v, want %q", err, tt.refused)
			}
		})
	}
}

func TestPrefixes(t *testing.T) {
	delivery := func(id string) view.Delivery {
		return view.Delivery{DeliveryRecord: &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Id: id}}}
	}
	if got, err := theOne("abcd", []view.Delivery{delivery("abcd1")}); err != nil || got.ID() != "abcd1" {
		t.Errorf("%v %v", got.ID(), err)
	}
	if _, err := theOne("abcd", []view.Delivery{delivery("abcd1"), delivery("abcd2")}); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("two: %v", err)
	}
	if _, err := theOne("abcd", nil); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
}

// When a sender had sent all is not known if it says so to a new leader at once.
func TestWhatWasSentUnseen(t *testing.T) {
	record := &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Sender: "s", CreateTime: timestamppb.New(begin)}}
	for _, test := range []struct {
		led, first, want float64 // when the manager began to lead, what it is told first, and when all was sent
	}{{0, 1000, 1}, {60, 1000, -1}, {60, 400, 62}} {
		p := newProgress(view.Delivery{DeliveryRecord: record}, after(test.led))
		p.inherited = test.led > 0
		p.take(placement.MemberID("s"), &groupv1.DeliveryReport{Bytes: uint64(test.first)}, nil, after(test.led+1))
		p.sealed, p.length = true, 1000
		p.take(placement.MemberID("s"), &groupv1.DeliveryReport{Bytes: 1000}, nil, after(test.led+2))
		var want time.Time
		if test.want >= 0 {
			want = after(test.want)
		}
		if !p.sent.Equal(want) {
			t.Errorf("led at %v, told %v first: all was sent at %v, want %v", test.led, test.first, p.sent, want)
		}
	}
}

// The indices of paper 000, section IV-B.
func TestMeasurements(t *testing.T) {
	record := &managerv1.DeliveryRecord{
		Delivery: &groupv1.Delivery{Length: 1000, SentBytes: 1000, Sealed: true, Receipts: []*groupv1.Receipt{
			{Member: "a", State: isComplete, Elapsed: durationpb.New(10 * time.Second)},
			{Member: "b", State: isComplete, Elapsed: durationpb.New(20 * time.Second)},
			{Member: "late", State: isComplete, Late: true, Elapsed: durationpb.New(500 * time.Second)},
		}},
		Members: []*managerv1.Participant{{Name: "a"}, {Name: "b"}},
	}
	p := newProgress(view.Delivery{DeliveryRecord: record}, begin)
	p.begun, p.sent = begin, after(10)
	measuring{record, p, after(20)}.measure()
	m := record.GetDelivery().GetMeasurements()
	if m.GetSendBytesPerSecond() != 100 || m.GetReceptionBytesPerSecond() != 50 || m.GetEffectiveThroughput() != 0.5 {
		t.Errorf("measured as %v, want 100, 50 and 0.5", m)
	}
	if a, b := record.GetDelivery().GetReceipts()[0].GetStretch(), record.GetDelivery().GetReceipts()[1].GetStretch(); a != 1 || b != 2 {
		t.Errorf("stretches %v and %v, want 1 and 2", a, b)
	}
	// It was hashed, and that is known, long before it is sent.
	record.GetDelivery().SentBytes, record.SealTime = 500, timestamppb.New(after(1))
	p.sent = time.Time{}
	measuring{record, p, after(20)}.measure()
	if got := record.GetDelivery().GetMeasurements().GetSendBytesPerSecond(); got != 25 {
		t.Errorf("half of it was sent at %d bytes per second, want 25", got)
	}
	// All of it was sent while another manager led: nobody knows how fast.
	record.GetDelivery().SentBytes = 1000
	for _, receipt := range record.GetDelivery().GetReceipts() {
		receipt.Stretch = 0
	}
	measuring{record, p, after(20)}.measure()
	if m := record.GetDelivery().GetMeasurements(); m.GetSendBytesPerSecond() != 0 || m.GetEffectiveThroughput() != 0 || m.GetReceptionBytesPerSecond() != 50 {
		t.Errorf("measured as %v, want no rate of sending", m)
	}
	if got := record.GetDelivery().GetReceipts()[0].GetStretch(); got != 0 {
		t.Errorf("a stretch of %v of a time that nobody knows", got)
	}
	// One member still receives, with a receipt that says no more than that.
	record.GetDelivery().Receipts = []*groupv1.Receipt{
		{Member: "a", State: isComplete, Elapsed: durationpb.New(10 * time.Second)},
		{Member: "b", State: groupv1.ReceiptState_RECEIPT_STATE_RECEIVING, Bytes: 200},
	}
	measuring{record, p, after(20)}.measure()
	if got := record.GetDelivery().GetMeasurements().GetReceptionBytesPerSecond(); got != 10 {
		t.Errorf("what is under way comes at %d bytes per second, want 10", got)
	}
	if stretch(time.Second, 2*time.Second) != 1 || stretch(time.Second, 0) != 1 {
		t.Error("a member is faster than the sender")
	}
}
