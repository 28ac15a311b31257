package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// evictions are rules by which who hangs is given up: the bytes are more than any cache here has room for.
func evictions() map[string]*groupv1.SlowMemberPolicy {
	const evict = groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	return map[string]*groupv1.SlowMemberPolicy{
		"TIME":  {Action: evict, LagTime: durationpb.New(5 * time.Second)},
		"BYTES": {Action: evict, LagBytes: 64 << 20},
	}
}

// A member whose disk hangs does not read what it cannot write, though it answers. If the rule for slow members does not wait for it, it
// holds up nobody with what was under way to it either. It goes on when it can.
func TestC6WhoHangsAndAnswersHoldsUpNobody(t *testing.T) {
	for name, spec := range patientWithNobody() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangs := newMember("hangs")
			hangs.goesOn = make(chan struct{})
			wantOtherNotHeldUp(t, spec, hangs, func() { close(hangs.goesOn) })
		})
	}
}

// Nor does one that reads a byte a second, and answers.
func TestC6WhoReadsAByteASecondHoldsUpNobody(t *testing.T) {
	for name, spec := range patientWithNobody() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drips := newMember("drips")
			drips.piece, drips.pace = 1, time.Second
			wantOtherNotHeldUp(t, spec, drips, drips.quicken)
		})
	}
}

// Nor does one that has not asked its agent for anything yet, since it compares what it has, or its disk hangs. It is not given up: it has
// everything when the others are done.
func TestC6WhoHasNotAskedYetHoldsUpNobody(t *testing.T) {
	specs := patientWithNobody()
	for name, spec := range modes() {
		floor := &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_PACE, FloorBytesPerSecond: 1 << 20}
		specs[name+"-FLOOR"] = &groupv1.DeliverySpec{ControlMode: spec.GetControlMode(), DataPlane: spec.GetDataPlane(), SlowMember: floor}
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 40<<20, spec)
			w.start("sa1", 16<<20)
			w.tree("sa1", "sender", "other", "late")
			w.deliver("sa1", map[*member]string{newMember("other"): "sa1"})
			w.deliver("sa1", map[*member]string{newMember("late"): "sa1"})
		})
	}
}

// patientWithNobody returns deliveries in all modes, whose rules for slow members do not wait for any.
func patientWithNobody() map[string]*groupv1.DeliverySpec {
	specs := modes()
	for name, spec := range maps.Clone(specs) {
		for how, evict := range evictions() {
			specs[name+"-EVICT-"+how] = &groupv1.DeliverySpec{ControlMode: spec.GetControlMode(), DataPlane: spec.GetDataPlane(), SlowMember: evict}
		}
	}
	return specs
}

// wantOtherNotHeldUp checks that a member gets everything beside a slow one, which gets it when it is no longer slow, unless the rule is
// to evict it.
func wantOtherNotHeldUp(t *testing.T, spec *groupv1.DeliverySpec, slow *member, quicken func()) {
	t.Helper()
	w := newWorld(t, 40<<20, spec)
	w.start("sa1", 16<<20) // more than sockets hold
	w.tree("sa1", "sender", "other", slow.name)
	other := newMember("other")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var running, pulling sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = w.send(ctx, "sa1") })
	pulling.Go(func() { _ = w.pull(ctx, slow, func() string { return "sa1" }) })
	_ = w.pull(ctx, other, func() string { return "sa1" })
	if !bytes.Equal(other.got.Bytes(), w.content) {
		t.Errorf("the other has %d bytes while one is slow", other.has())
	}
	quicken()
	pulling.Wait()
	evicted := spec.GetSlowMember().GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
	if whole := bytes.Equal(slow.got.Bytes(), w.content); whole == evicted {
		t.Errorf("who was slow has %d bytes, all of it: %t", slow.has(), whole)
	}
}

// Where a member hangs below three agents in a row, the last of them gives it up, and the agents do not give up each other: end to end, all
// of them stop acknowledging in the same moment. That is so whichever of them has the least room.
func TestWhoHangsCostsNoAgent(t *testing.T) {
	for how, evict := range evictions() {
		for _, mode := range []string{"CONTROL_MODE_HOP", "CONTROL_MODE_END_TO_END"} {
			for where, rooms := range map[string][3]uint64{"": {16, 16, 16}, "-LITTLE-FIRST": {8, 16, 16}, "-LITTLE-BETWEEN": {16, 8, 16}} {
				t.Run(mode+"-"+how+where, func(t *testing.T) {
					t.Parallel()
					spec := modes()[mode+"-DATA_PLANE_PLAINTEXT"]
					spec = &groupv1.DeliverySpec{ControlMode: spec.GetControlMode(), DataPlane: spec.GetDataPlane(), SlowMember: evict}
					wantOnlyGivenUp(t, spec, rooms)
				})
			}
		}
	}
}

// wantOnlyGivenUp has a member hang below agents with so many MiB of room, and checks that it alone is given up.
func wantOnlyGivenUp(t *testing.T, spec *groupv1.DeliverySpec, rooms [3]uint64) {
	t.Helper()
	w := newWorld(t, 80<<20, spec)
	for i, room := range rooms {
		w.start(fmt.Sprintf("sa%d", i+1), room<<20)
	}
	w.tree("sa1", "sender", "sa2", "other")
	w.tree("sa2", "sa1", "sa3")
	w.tree("sa3", "sa2", "hangs")
	other, hangs := newMember("other"), newMember("hangs")
	hangs.goesOn = make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = w.send(ctx, "sa1") })
	running.Go(func() { _ = w.pull(ctx, hangs, func() string { return "sa3" }) })
	defer close(hangs.goesOn)
	_ = w.pull(ctx, other, func() string { return "sa1" })
	if !other.isDone() {
		t.Errorf("the other has %d bytes while one hangs", other.has())
	}
	for child, parent := range map[string]string{"sa2": "sa1", "sa3": "sa2", "hangs": "sa3"} {
		if evicted := w.childOf(parent, child).GetEvicted(); evicted != (child == "hangs") {
			t.Errorf("%s is given up: %t", child, evicted)
		}
	}
}

// A member that was detached as it hung, and comes again, waits for the others to be done, also end to end: if all began again for it
// whenever it takes something, they would not get on.
func TestWhoHungWaitsForTheOthers(t *testing.T) {
	const size = 40 << 20
	for _, mode := range []string{"CONTROL_MODE_HOP", "CONTROL_MODE_END_TO_END"} {
		t.Run(mode, func(t *testing.T) {
			spec := modes()[mode+"-DATA_PLANE_PLAINTEXT"]
			w := newWorld(t, size, spec)
			w.start("sa1", 16<<20)
			w.tree("sa1", "sender", "other", "hangs")
			other, hangs := newMember("other"), newMember("hangs")
			hangs.goesOn = make(chan struct{})
			other.pace = 5 * time.Millisecond
			var delivering sync.WaitGroup
			delivering.Go(func() { w.deliver("sa1", map[*member]string{other: "sa1", hangs: "sa1"}) })
			isConnected := func() bool { return w.childOf("sa1", "hangs").GetConnected() }
			w.await("it is fed", isConnected)
			w.await("its link is ended", func() bool { return !isConnected() })
			close(hangs.goesOn)
			w.await("it has come again", isConnected)
			w.await("the other has nearly all", func() bool { return other.has() > size*15/16 })
			if restarts := w.agents["sa1"].count(w, "restarts"); restarts > 0 && !other.isDone() {
				t.Errorf("begun again %v times before the other is done", restarts)
			}
			delivering.Wait()
		})
	}
}
