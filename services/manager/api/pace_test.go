package api

import (
	"testing"
	"testing/synctest"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// A member that says too much waits, on whichever of its streams it says that, and also where it opens another, or speaks as a relay. A session
// agent does not, nor does another member.
func TestOneMembersStreamsHaveOnePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p paces
		message := &groupv1.KeepSessionRequest{Name: "m"}
		takes := func(id identity.ID, messages int) time.Duration {
			its, end := p.begin(id)
			defer end()
			begun := time.Now()
			for range messages {
				if err := its.wait(t.Context(), message); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begun)
		}
		member := identity.ID{Role: identity.Member, Name: "m"}
		const atOnce, perSecond = paceBurst / (paceCost + 64), 1024
		if took := takes(member, atOnce); took > 0 {
			t.Errorf("what may come at once takes %v", took)
		}
		if took := takes(member, perSecond); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("what may come in a second takes %v", took)
		}
		if took := takes(identity.RelayOf("g", "m"), perSecond); took < 900*time.Millisecond {
			t.Errorf("as a relay, the same takes %v", took)
		}
		for _, other := range []identity.ID{{Role: identity.Member, Name: "n"}, {Role: identity.Agent, Name: "a"}} {
			if took := takes(other, perSecond); took > 0 {
				t.Errorf("to %s, the same takes %v", other, took)
			}
		}
		time.Sleep(time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.of) > 0 {
			t.Errorf("%d are remembered that have long gone", len(p.of))
		}
	})
}
