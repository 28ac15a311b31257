package sim

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// P11: the manager runs, but its cable is out, or its switch looks for loops: it hears nobody, or only the agent beside it. It does not
// conclude that anybody is gone, and nobody begins anew.
func TestManagerIsCutOff(t *testing.T) {
	const from, lasts = 5 * time.Second, 100 * time.Second
	for name, beside := range map[string]string{"from all": "", "from all but one agent": "a1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := overTwoAgents()
			for _, host := range s.hosts() {
				if host != managerHost && host != beside {
					s.faults = append(s.faults, simnet.Fault{From: from, Until: from + lasts, Kind: simnet.CutBoth, A: managerHost, B: host})
				}
			}
			inWorld(t, s, func(*world) {}, func(w *world) {
				if changes := w.deliverSlowly(from+lasts+20*time.Second).TreeVersion - 1; changes > 0 {
					w.Errorf("the delivery's tree was changed %d times by a manager that heard nobody", changes)
				}
			})
		})
	}
}

// P11: what the manager sends is lost, as by a bad cable pair, and what others send arrives: they give it up, one after the other, and
// cannot connect anew. It moves who seems to have no agent any more, which nobody hears, and takes none of them for gone.
func TestManagerIsNotHeard(t *testing.T) {
	const from, lasts = 5 * time.Second, 100 * time.Second
	s := overTwoAgents()
	for _, host := range s.hosts() {
		if host != managerHost {
			s.faults = append(s.faults, simnet.Fault{From: from, Until: from + lasts, Kind: simnet.CutOne, A: managerHost, B: host})
		}
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		members := w.members()
		w.deliverSlowly(from + lasts + 20*time.Second)
		if after := w.members(); !maps.Equal(after, members) {
			w.Errorf("the members are %v, and were %v", after, members)
		}
	})
}

// members returns which sessions are joined.
func (w *world) members() map[string]uint64 {
	w.Helper()
	members, err := w.operator.Members(context.Background(), "g")
	w.must(err)
	incarnations := make(map[string]uint64)
	for _, member := range members {
		incarnations[member.Name] = member.Incarnation
	}
	return incarnations
}

// Most members are killed at once: their machines say so, and nobody takes the manager for cut off. They are gone after their time.
func TestMostAreKilled(t *testing.T) {
	s := scenario{
		agents:    []place{{"a1", "a1", "x", 16 << 20}},
		receivers: []place{{name: "r1", node: "a1"}, {name: "r2", node: "a1"}, {name: "r3", node: "a1"}, {name: "r4", node: "a1"}},
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		for _, r := range w.receivers {
			w.network.Host(r.name).Kill()
			w.killed(r.name)
		}
		time.Sleep(12 * time.Second)
		group, err := w.operator.Group(context.Background(), "g")
		w.must(err)
		if group.Members != 1 { // the sender
			w.Errorf("12 s after four of five were killed there are %d members, want 1", group.Members)
		}
	})
}

// deliverSlowly sends an object that takes so long, while what is to happen happens, and returns how it ended.
func (w *world) deliverSlowly(lasts time.Duration) sdk.Delivery {
	w.Helper()
	p := w.deliveries[0]
	out, err := w.sending.Send(context.Background(), w.write(p), sdk.SendOptions{MaxBytesPerSecond: uint64(float64(p.size) / lasts.Seconds())})
	w.must(err)
	w.faults.Run(context.Background(), w.network, w.killed, w.restarted)
	ended := w.awaitEnd(out.ID(), lasts)
	w.checkOutcome(p, ended)
	if ended.State != sdk.DeliveryComplete {
		w.Errorf("the delivery is %s", standing(ended))
	}
	return ended
}

// The streams of all agents break at once, and cannot be opened anew for some seconds, as where what is on the way to the manager starts anew.
// Members are heard all the while. The agents live: who feeds whom stays, also when one of them is back before the other.
func TestAllAgentsAreCutOff(t *testing.T) {
	const from = 5 * time.Second
	s := overTwoAgents()
	for agent, lasts := range map[string]time.Duration{"a1": 2 * time.Second, "a2": 4 * time.Second} {
		s.faults = append(s.faults,
			simnet.Fault{From: from, Until: from, Kind: simnet.Break, A: managerHost, B: agent},
			simnet.Fault{From: from, Until: from + lasts, Kind: simnet.CutBoth, A: managerHost, B: agent})
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		if changes := w.deliverSlowly(20 * time.Second).TreeChanges[1:]; len(changes) > 0 {
			w.Errorf("the delivery's tree was changed: %+v", changes)
		}
	})
}
