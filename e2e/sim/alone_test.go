package sim

import (
	"context"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A member that is joined, and that a firewall keeps from every agent's data port, has FAILED(no_path) after a minute or two, and the others
// get all: also where nobody gets further than the slowest, because the mode says so or the caches are smaller than the object.
func TestWhoReachesNoAgentHoldsUpNobody(t *testing.T) {
	evict := sdk.SlowMember{Action: sdk.Evict, LagTime: 30 * time.Second}
	for name, policy := range map[string]sdk.Policy{
		"end to end":        {ControlMode: sdk.EndToEnd},
		"end to end, evict": {ControlMode: sdk.EndToEnd, SlowMember: evict},
		"hop":               {ControlMode: sdk.Hop},
		"hop, evict":        {ControlMode: sdk.Hop, SlowMember: evict},
	} {
		for agents, at := range map[string][]place{
			"one agent":  {{"a1", "a1", "x", 16 << 20}},
			"two agents": {{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
		} {
			t.Run(name+", "+agents, func(t *testing.T) {
				s := scenario{
					agents: at, policy: policy,
					receivers:  []place{{name: "r1", node: "a1"}, {name: "alone", node: "a1"}, {name: "r2", node: at[len(at)-1].node}},
					deliveries: []parcel{{name: "object-0", size: 40 << 20}},
				}
				inWorld(t, s, func(*world) {}, func(w *world) {
					for _, agent := range at {
						w.network.Cut(agent.name, "alone")
					}
					out, err := w.sending.Send(context.Background(), w.write(w.deliveries[0]), sdk.SendOptions{})
					w.must(err)
					ended := w.awaitEnd(out.ID(), 5*time.Minute)
					took := ended.Ended.Sub(ended.Created)
					for _, receipt := range ended.Receipts {
						got := string(receipt.State) + receipt.Reason
						if want := map[bool]string{true: "failedno_path", false: "complete"}[receipt.Member == "alone"]; got != want || took > 3*time.Minute {
							t.Errorf("%s: %s after %v, want %s", receipt.Member, got, took, want)
						}
					}
				})
			})
		}
	}
}
