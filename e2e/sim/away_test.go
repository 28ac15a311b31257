package sim

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

const (
	// awayTime is how long all managers may be gone.
	awayTime = 10 * time.Minute
	// brokenAfter is how long after that began every link breaks.
	brokenAfter = 9 * time.Minute
)

// P11: all managers are gone for ten minutes, in which bytes go on flowing. Late in this time every link breaks, and is opened
// anew with capabilities that no manager has renewed. Members put what is complete into its place, and when a manager is back
// everything becomes COMPLETE. It makes no difference whether capabilities were about to be renewed or had to be renewed a
// while ago.
func TestManagersAreGoneForTenMinutes(t *testing.T) {
	for name, gone := range map[string]time.Duration{ // after the beginning
		"before capabilities are renewed": identity.CapabilityRenewal - 5*time.Second,
		// When links break, the capabilities from the beginning would have expired by anybody's clock.
		"when they have been": identity.CapabilityLifetime + time.Minute - brokenAfter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := overTwoAgents()
			s.faults = simnet.Schedule{{From: gone, Until: gone + awayTime, Kind: simnet.Crash, A: managerHost}}
			s.breakAll(gone + brokenAfter)
			inWorld(t, s, func(*world) {}, func(w *world) { w.deliverWithoutManagers(gone) })
		})
	}
}

// overTwoAgents is a scenario with an object for three members: one agent feeds one of them, another agent the two others.
func overTwoAgents() scenario {
	return scenario{
		agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}, {name: "r3", node: "a2"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 10 << 20}},
	}
}

// breakAll makes all connections break except those with the manager.
func (s *scenario) breakAll(at time.Duration) {
	hosts := s.hosts()[1:]
	for i, a := range hosts {
		for _, b := range hosts[i+1:] {
			s.faults = append(s.faults, simnet.Fault{From: at, Until: at, Kind: simnet.Break, A: a, B: b})
		}
	}
}

// deliverWithoutManagers sends an object. The managers are gone after some time; the delivery would take until shortly
// before they are back.
func (w *world) deliverWithoutManagers(gone time.Duration) {
	w.Helper()
	p, lasts := w.deliveries[0], gone+brokenAfter+20*time.Second
	path := w.write(p)
	out, err := w.sending.Send(context.Background(), path, sdk.SendOptions{MaxBytesPerSecond: uint64(float64(p.size) / lasts.Seconds())})
	w.must(err)
	happens := make(chan struct{})
	go func() {
		defer close(happens)
		w.faults.Run(context.Background(), w.network, w.killed, w.restarted)
	}()
	time.Sleep(gone + brokenAfter - time.Second)
	for _, r := range w.receivers {
		if _, err := os.Stat(filepath.Join(w.into(r.name), p.name)); err == nil {
			w.Errorf("%s has all before the links break: nothing is shown", r.name)
		}
	}
	time.Sleep(awayTime - brokenAfter)
	for _, r := range w.receivers {
		if err := same(path, filepath.Join(w.into(r.name), p.name)); err != nil {
			w.Errorf("%s, while no manager is there: %v", r.name, err)
		}
	}
	<-happens
	ended := w.awaitEnd(out.ID(), time.Minute)
	w.checkOutcome(p, ended)
	if ended.State != sdk.DeliveryComplete {
		w.Errorf("the delivery is %s", standing(ended))
	}
}
