package relay_test

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// What a member cannot write, as where its disk hangs, it does not read, though it answers: who is not waited for by the rule
// for slow ones holds up nobody with what was under way to it. It goes on when it can.
func TestC6WhoHangsAndAnswersHoldsUpNobody(t *testing.T) {
	specs := modes()
	for name, spec := range maps.Clone(specs) {
		evict := &groupv1.SlowMemberPolicy{Action: groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT, LagTime: durationpb.New(2 * time.Second)}
		specs[name+"-EVICT"] = &groupv1.DeliverySpec{ControlMode: spec.GetControlMode(), DataPlane: spec.GetDataPlane(), SlowMember: evict}
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 40<<20, spec)
			w.start("sa1", 16<<20) // more than sockets hold
			w.tree("sa1", "sender", "other", "hangs")
			other, hangs := newMember("other"), newMember("hangs")
			hangs.goesOn = make(chan struct{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var running, pulling sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() { _ = w.send(ctx, "sa1") })
			pulling.Go(func() { _ = w.pull(ctx, hangs, func() string { return "sa1" }) })
			_ = w.pull(ctx, other, func() string { return "sa1" })
			if !bytes.Equal(other.got.Bytes(), w.content) {
				t.Errorf("the other has %d bytes while one hangs", other.has())
			}
			close(hangs.goesOn)
			pulling.Wait()
			evicted := spec.GetSlowMember().GetAction() == groupv1.SlowMemberAction_SLOW_MEMBER_ACTION_EVICT
			if whole := bytes.Equal(hangs.got.Bytes(), w.content); whole == evicted {
				t.Errorf("who hung has %d bytes, all of it: %t", hangs.has(), whole)
			}
		})
	}
}

// Who was detached as it hung, and comes again, waits for the others to be done, end to end, too: if all began again for it
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
