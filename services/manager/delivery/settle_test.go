package delivery

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// A member that had not all of a delivery when that ended gets it later. From then on measurements are those of a complete delivery, also when
// the delivery is not kept any more: what its link has carried since counts, and it may be the slowest.
func TestWhoGetsItAfterTheEndIsMeasured(t *testing.T) {
	u := serve(t, fileSpec())
	u.desk.keepers["d"] = u.keeper
	begun := u.progress.begun
	feed := func(m1 uint64, at time.Time) {
		u.note(placement.AgentID("a"), &groupv1.DeliveryReport{Bytes: 1000, Resting: true, Children: []*groupv1.ChildReport{{Name: "m1", SentBytes: m1}, {Name: "m2", SentBytes: 1000}}}, at)
	}
	got := func(name string, after time.Duration, at time.Time) *groupv1.Receipt {
		return &groupv1.Receipt{Member: name, State: isComplete, Bytes: 1000, Elapsed: durationpb.New(after), ChangeTime: timestamppb.New(at)}
	}
	sealed := u.shown()
	sealed.DeliveryRecord = proto.CloneOf(sealed.DeliveryRecord)
	sealed.Delivery.Sealed, sealed.Delivery.Length = true, 1000
	u.desk.write(t, sealed)
	u.progress.sealed, u.progress.length = true, 1000
	u.note(placement.MemberID("s"), &groupv1.DeliveryReport{Bytes: 1000, Fed: &groupv1.ChildReport{Name: "a", SentBytes: 1000}}, begun.Add(10*time.Second))
	feed(200, begun.Add(10*time.Second))
	u.end(&groupv1.Receipt{Member: "m1", State: isFailed, Reason: Left}, got("m2", 10*time.Second, begun.Add(10*time.Second)))
	settle := func() {
		t.Helper()
		now := time.Now()
		due, err := u.settle(t.Context(), u.shown(), now)
		if err == nil && !due.IsZero() {
			_, err = u.settle(t.Context(), u.shown(), due)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, reception, toM1 uint64) {
		t.Helper()
		shown := u.desk.Show(u.shown())
		m := shown.GetMeasurements()
		if m.GetReceptionBytesPerSecond() != reception || m.GetLinks()[0].GetBytes() != toM1 {
			t.Errorf("%s it was received at %d bytes per second, and m1 was sent %d, want %d and %d", when, m.GetReceptionBytesPerSecond(), m.GetLinks()[0].GetBytes(), reception, toM1)
		}
	}
	want("at the end", 0, 200)
	settle()
	want("when measured", 0, 200)

	u.desk.put(t, view.ReceiptKey("d", "m1"), got("m1", 20*time.Second, time.Now()))
	if err := u.desk.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	feed(1000, time.Now())
	want("with the receipt", 50, 1000)
	settle()
	want("when measured again", 50, 1000)
	u.desk.close(u.keeper)
	want("when it is not kept", 50, 1000)
	if state := u.shown().GetDelivery().GetState(); state != groupv1.DeliveryState_DELIVERY_STATE_PARTIAL {
		t.Errorf("it ended %v", state)
	}
}

// Agents that rested before a member came back have yet to tell what they sent it.
func TestWhoComesBackAtTheEndIsWaitedForToBeMeasured(t *testing.T) {
	u := serve(t, fileSpec())
	u.end(&groupv1.Receipt{Member: "m1", State: isComplete, ChangeTime: timestamppb.New(time.Now().Add(time.Second))}, &groupv1.Receipt{Member: "m2", State: isComplete})
	a := identity.ID{Role: identity.Agent, Name: "a"}
	u.assigned[a] = &groupv1.Assignment{}
	u.note(a, &groupv1.DeliveryReport{Resting: true}, time.Now())
	if due, err := u.settle(t.Context(), u.shown(), time.Now().Add(settlePause)); err != nil || due.IsZero() {
		t.Errorf("it is measured at once: %v", err)
	}
}
