package sdk

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// receipts returns those of members a, b and so on, with so many bytes each.
func receipts(state groupv1.ReceiptState, bytes ...uint64) (list []*groupv1.Receipt) {
	for i, n := range bytes {
		list = append(list, &groupv1.Receipt{Member: string(rune('a' + i)), State: state, Bytes: n})
	}
	return list
}

// A manager that has just begun to lead does not know yet how many bytes anybody has: a watch that goes on there does not show none.
func TestWatchRemembersWhatANewManagerDoesNotKnow(t *testing.T) {
	const receiving, failed = groupv1.ReceiptState_RECEIPT_STATE_RECEIVING, groupv1.ReceiptState_RECEIPT_STATE_FAILED
	unknown := func(bytes ...uint64) []*groupv1.Receipt {
		list := receipts(receiving, bytes...)
		for _, receipt := range list {
			receipt.BytesUnknown = receipt.GetBytes() == 0
		}
		return list
	}
	watched := remembering()
	for _, tt := range []struct {
		what string
		says *groupv1.Delivery
		sent uint64
		had  []uint64
	}{
		{"the first", &groupv1.Delivery{SentBytes: 100, Receipts: receipts(receiving, 70, 50)}, 100, []uint64{70, 50}},
		{"one that has just begun", &groupv1.Delivery{Receipts: unknown(0, 0)}, 100, []uint64{70, 50}},
		{"one that has heard of a", &groupv1.Delivery{SentBytes: 110, Receipts: unknown(80, 0)}, 110, []uint64{80, 50}},
		{"a takes all again", &groupv1.Delivery{SentBytes: 120, Receipts: receipts(receiving, 10, 60)}, 120, []uint64{10, 60}},
		{"b has begun anew", &groupv1.Delivery{SentBytes: 120, Receipts: receipts(receiving, 10, 0)}, 120, []uint64{10, 0}},
		{"both have ended with nothing", &groupv1.Delivery{SentBytes: 120, Receipts: receipts(failed, 0, 0)}, 120, []uint64{0, 0}},
	} {
		got := watched(tt.says)
		if got.SentBytes != tt.sent || got.Receipts[0].Bytes != tt.had[0] || got.Receipts[1].Bytes != tt.had[1] {
			t.Errorf("%s: %d bytes sent, receipts %+v; want %d and %v", tt.what, got.SentBytes, got.Receipts, tt.sent, tt.had)
		}
	}
}

// What a sender chooses is what the managers are asked for; what it leaves open is the group's.
func TestOptionsAreAskedFor(t *testing.T) {
	for _, tt := range []struct {
		options SendOptions
		want    *groupv1.DeliverySpec
	}{
		{SendOptions{}, &groupv1.DeliverySpec{}},
		{
			SendOptions{LatencyBound: 50 * time.Millisecond, Deadline: time.Minute, Keep: time.Hour, ControlMode: Hop, Congestion: BBR},
			&groupv1.DeliverySpec{
				LatencyBound: durationpb.New(50 * time.Millisecond), Deadline: durationpb.New(time.Minute), Keep: durationpb.New(time.Hour),
				ControlMode: groupv1.ControlMode_CONTROL_MODE_HOP, Congestion: groupv1.Congestion_CONGESTION_BBR,
			},
		},
	} {
		if got, err := tt.options.spec(); err != nil || !proto.Equal(got, tt.want) {
			t.Errorf("%+v: %v, %v", tt.options, got, err)
		}
	}
}

// Options that can have no effect are refused, no matter who is to get what.
func TestOptionsAreChecked(t *testing.T) {
	for why, options := range map[string]SendOptions{
		"":                                 {SlowMember: SlowMember{LagBytes: 5}, Deadline: time.Second, Name: "a"}, // the group may evict
		"behind is for evict":              {SlowMember: SlowMember{Action: Pace, LagTime: time.Second}},
		"floor in bytes per second is":     {SlowMember: SlowMember{Action: Detach, FloorBytesPerSecond: 5}},
		"latency bound: is -1s: want":      {LatencyBound: -time.Second},
		"deadline: is -1s: want nothing":   {Deadline: -time.Second},
		"fresh: is -1s: want nothing":      {Datagrams: DatagramOptions{Fresh: -time.Second}},
		"contains a slash":                 {Name: "../a"},
		`"up" is not one of hop, end-to-e`: {ControlMode: "up"},
	} {
		err := options.Check()
		if (err == nil) != (why == "") || err != nil && (CodeOf(err) != InvalidArgument || !strings.Contains(err.Error(), why)) {
			t.Errorf("%+v: %v, want %q", options, err, why)
		}
	}
}
