package delivery

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// A manager that is cut off hears of nothing that moves, and nobody is stuck for that: not before it has heard nothing of that for long
// when it could.
func TestNobodyIsStuckWhileTheManagerIsCutOff(t *testing.T) {
	u, begun := serve(t, new(groupv1.DeliverySpec)), time.Now()
	stuck := func(at time.Time) int {
		u.observe(u.shown(), at)
		return len(decide(u.facts(u.shown(), at)).failed)
	}
	stuck(begun) // since when somebody minds
	long := begun.Add(2 * time.Minute)
	u.desk.hearing = cutOff(long)
	if failed := stuck(long); failed > 0 {
		t.Errorf("%d members have failed while the manager is cut off", failed)
	}
	if failed := stuck(long.Add(StuckPatience - time.Second)); failed > 0 {
		t.Errorf("%d members have failed when it has heard again for less than %v", failed, StuckPatience)
	}
	if failed := stuck(long.Add(StuckPatience)); failed != 2 {
		t.Errorf("%d members have failed when nothing moved for %v, want both", failed, StuckPatience)
	}
}

// What a sender has sealed before it went may have reached its agent while the manager is cut off: that one has time to find it again.
func TestHandingOverIsWaitedForWhileTheManagerIsCutOff(t *testing.T) {
	u, now := serve(t, new(groupv1.DeliverySpec)), time.Now().Add(time.Minute)
	delivery := u.shown()
	delivery.GetDelivery().Sealed, delivery.GetDelivery().Length, u.senderGone = true, 1, time.Now()
	delivery.SenderIncarnation++ // its session has ended
	u.desk.hearing = cutOff(now)
	if v := decide(u.facts(delivery, now)); v.ended {
		t.Errorf("the delivery is %s", v)
	}
	if v := decide(u.facts(delivery, now.Add(2*HandoverPatience))); v.reason != SenderLost {
		t.Errorf("the delivery is %s, want %s", v, SenderLost)
	}
}
