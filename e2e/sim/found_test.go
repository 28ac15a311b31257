package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// These are problems that seeds have found, reduced to what is needed.

// wantAll runs a scenario in which, in the end, nothing keeps anybody from getting everything.
func wantAll(t *testing.T, s scenario) {
	t.Helper()
	runs := newTally()
	dir := scratch(t)
	synctest.Test(t, func(t *testing.T) { live(t, s, dir, runs) })
	if runs.outcomes["complete"] != len(s.receivers)*len(s.deliveries) {
		t.Errorf("outcomes: %v, want all complete", runs)
	}
}

// A member that has everything never dials again. Its agent, which begins anew with less room than
// the object needs, must not wait for it.
func TestWhoHasAllIsNotWaitedFor(t *testing.T) {
	wantAll(t, scenario{
		agents:     []place{{"a1", "a1", "x", 1 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a1"}},
		shape:      simnet.Shape{Latency: time.Millisecond},
		policy:     sdk.Policy{ControlMode: sdk.Hop, SlowMember: sdk.SlowMember{Action: sdk.Pace}},
		deliveries: []parcel{{name: "object-0", size: 3 << 20}},
		faults: simnet.Schedule{
			{Until: 20 * time.Second, Kind: simnet.SlowDown, A: "a1", B: "r2", Rate: 300 << 10}, // r1 has all after 7 s, r2 after 10
			{From: 8500 * time.Millisecond, Until: 8800 * time.Millisecond, Kind: simnet.Crash, A: "a1"},
		},
	})
}

// A slow agent in the middle of a chain moves to the chain's end, and holds up nobody.
func TestSlowAgentMovesLower(t *testing.T) {
	s := scenario{
		agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "x", 16 << 20}, {"a3", "a3", "x", 16 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}, {name: "r3", node: "a3"}},
		shape:      simnet.Shape{Latency: time.Millisecond, Rate: 2 << 20},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 4 << 20}},
	}
	for _, host := range []string{"a1", "a3"} {
		s.faults = append(s.faults, simnet.Fault{Until: time.Minute, Kind: simnet.SlowDown, A: host, B: "a2", Rate: slowRate})
	}
	wantAll(t, s)
}

// An agent that moves nothing, and does not even keep its link to its parent, is found out
// although the parent, after it began anew for it, has less than the member that waits.
func TestIdleAgentThatHasItsParentBeginAnew(t *testing.T) {
	wantAll(t, scenario{
		agents:     []place{{"a1", "a1", "x", 425153}, {"a2", "a2", "x", 298698}, {"a3", "a3", "x", 1 << 20}, {"a4", "a4", "x", 1 << 20}},
		idler:      &place{"idle", "idle", "x", 1},
		receivers:  []place{{name: "r1", node: "a2"}, {name: "r2", node: "r2"}, {name: "r3", node: "a3"}},
		shape:      simnet.Shape{Latency: 9 * time.Millisecond, Rate: 50866},
		policy:     sdk.Policy{ControlMode: sdk.Hop, AckLevel: sdk.Durable, SlowMember: sdk.SlowMember{Action: sdk.Detach}, DataPlane: sdk.TLS},
		deliveries: []parcel{{name: "object-0", size: 1694182, after: 10133 * time.Millisecond}},
		faults: simnet.Schedule{
			{From: 1558 * time.Millisecond, Until: 18308 * time.Millisecond, Kind: simnet.CutBoth, A: "a1", B: "a4"},
			{From: 28634 * time.Millisecond, Until: 35884 * time.Millisecond, Kind: simnet.Stop, A: "a1"},
			{From: 33013 * time.Millisecond, Until: 44904 * time.Millisecond, Kind: simnet.CutOne, A: "a3", B: "r2"}, // r2 goes to another
			{From: 54598 * time.Millisecond, Until: 74598 * time.Millisecond, Kind: simnet.Crash, A: "r2"},           // and to the idle one after this
		},
	})
}

// A member whose agent dies goes to another, whose cache no longer has what it lacks. There it waits until the other
// member is done, which takes longer than a slow member may be behind.
func TestWhoWaitsForOthersIsNotGivenUp(t *testing.T) {
	wantAll(t, scenario{
		agents:     []place{{"a1", "a1", "x", 512 << 10}, {"a2", "a2", "x", 512 << 10}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}},
		shape:      simnet.Shape{Latency: time.Millisecond, Rate: 300 << 10},
		policy:     sdk.Policy{ControlMode: sdk.Hop, SlowMember: sdk.SlowMember{Action: sdk.Evict, LagTime: 8 * time.Second}},
		deliveries: []parcel{{name: "object-0", size: 6 << 20}},
		faults: simnet.Schedule{
			{Until: 10 * time.Second, Kind: simnet.SlowDown, A: "a2", B: "r2", Rate: 100 << 10},
			{From: 3 * time.Second, Until: time.Minute, Kind: simnet.Crash, A: "a2"}, // r2 has 300 KiB, and a1 has no more the next
		},
	})
}
