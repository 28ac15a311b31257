package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/view"
)

// running is a running delivery with this spec.
func running(spec *groupv1.DeliverySpec) view.Delivery {
	return view.Delivery{DeliveryRecord: &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{
		Id: "d", Group: "g", Sender: "s", Spec: spec, State: groupv1.DeliveryState_DELIVERY_STATE_RUNNING,
	}}}
}

// strayed is a delivery in whose tree a member of one zone is fed by the agent of another, though its own has one.
func strayed(t *testing.T) *rearrangement {
	t.Helper()
	w := watching(t, "s>a@x", "a>b@y", "b>m1@x", "b>m2@y")
	member := &groupv1.Member{Name: "m1", Labels: map[string]string{"zone": "x"}}
	sender := &groupv1.Member{Name: "s"}
	r := w.rearrangement()
	r.network = placement.Network{Sender: sender, Receivers: []*groupv1.Member{member}}
	return r
}

// seekFor looks for better parents for a while, and returns when the member moved to the agent of its zone; never if it did not.
func (r *rearrangement) seekFor(long time.Duration) (moved time.Duration) {
	return r.seekIn(running(fileSpec()), long, func() {})
}

// seekIn does so in a delivery whose nodes report each second.
func (r *rearrangement) seekIn(delivery view.Delivery, long time.Duration, report func()) (moved time.Duration) {
	begun := time.Now()
	for time.Since(begun) < long {
		report()
		r.now, r.history = time.Now(), nil
		if r.seekNearer(delivery); r.feeder("m1") == named("a").String() {
			return time.Since(begun)
		}
		time.Sleep(time.Second)
	}
	return 0
}

func (r *rearrangement) feeder(name string) string {
	by, _ := r.tree.Parent(named(name).String())
	return by
}

// A member goes to a nearer agent. It does not go back to one whose bytes were damaged, and not soon to one that gave it nothing.
func TestNobodyGoesBackToWhoServedItBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if moved := strayed(t).seekFor(time.Minute); moved == 0 {
			t.Error("it stays with the farther agent for no reason")
		}
		r := strayed(t)
		r.progress.nodes[named("m1")] = &nodeProgress{damagedBy: []string{"agent/a"}, report: &groupv1.DeliveryReport{}}
		if moved := r.seekFor(time.Hour); moved > 0 {
			t.Errorf("after %v it is back at the agent whose bytes were damaged", moved)
		}
		r = strayed(t)
		r.seekFor(time.Minute)
		if !r.moveUnfed(named("m1"), "it got nothing") {
			t.Fatal("it is not moved")
		}
		if moved := r.seekFor(time.Hour); moved < 10*time.Minute {
			t.Errorf("after %v it is back at the agent that gave it nothing", moved)
		}
	})
}
