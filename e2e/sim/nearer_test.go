package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// apart makes a receiver be far from one agent and near another.
func (w *world) apart(receiver, far, near string) {
	for agent, latency := range map[string]time.Duration{far: 30 * time.Millisecond, near: time.Millisecond} {
		w.network.Shape(receiver, agent, simnet.Shape{Latency: latency})
		w.network.Shape(agent, receiver, simnet.Shape{Latency: latency})
	}
}

// slowly sends an object over links on which it takes about a given time, and returns what became of it.
func (w *world) slowly(lasts time.Duration, meanwhile func()) sdk.Delivery {
	w.Helper()
	p := w.deliveries[0]
	for _, agent := range w.agents {
		w.network.Shape(senderHost, agent.name, simnet.Shape{Latency: time.Millisecond, Rate: simnet.Rate(float64(p.size) / lasts.Seconds())})
	}
	// It is told the rate, too: a sender that is so slow may send several copies.
	out, err := w.sending.Send(context.Background(), w.write(p), sdk.SendOptions{MaxBytesPerSecond: uint64(p.size) / uint64(lasts.Seconds())})
	w.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		meanwhile()
	}()
	ended := w.awaitEnd(out.ID(), 2*lasts)
	<-done
	w.checkOutcome(p, ended)
	if ended.State != sdk.DeliveryComplete {
		w.Errorf("the delivery is %s", standing(ended))
	}
	return ended
}

// carriedBy returns how much each link of a delivery carried.
func carriedBy(ended sdk.Delivery) map[string]uint64 {
	carried := map[string]uint64{}
	for _, link := range ended.Measurements.Links {
		carried[link.From+">"+link.To] = link.Bytes
	}
	return carried
}

// moves returns the times at which nodes of a delivery moved to better parents.
func moves(of sdk.Delivery) (times []time.Time) {
	for _, change := range of.TreeChanges {
		if change.Cause == "parent_nearer" {
			times = append(times, change.Time)
		}
	}
	return times
}

// inWorld runs a test in a world in which all have measured each other.
func inWorld(t *testing.T, s scenario, shape, test func(w *world)) {
	inWorldAt(t, scratch(t), s, shape, test)
}

// inWorldAt is inWorld in a directory that already contains something.
func inWorldAt(t *testing.T, dir string, s scenario, shape, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s, dir)
		defer w.say()
		defer w.operator.Close()
		defer w.stopAll()
		w.network.ShapeAll(simnet.Shape{Latency: time.Millisecond})
		shape(w)
		w.populate()
		time.Sleep(10 * time.Second)
		test(w)
		time.Sleep(2 * time.Second) // the last answers are still under way
	})
}

// If an agent comes while data flows, and is far nearer to a receiver than the receiver's own
// agent, it feeds the receiver from then on with what it still lacks: "a better parent appears".
func TestReceiverMovesToAnAgentThatComes(t *testing.T) {
	s := scenario{
		agents:     []place{{"a1", "a1", "x1", 16 << 20}},
		receivers:  []place{{name: "r1", node: "r1"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 14 << 20}},
	}
	inWorld(t, s, func(w *world) { w.apart("r1", "a1", "a2") }, func(w *world) {
		ended := w.slowly(5*time.Minute, func() {
			time.Sleep(30 * time.Second)
			w.startAgent(place{"a2", "a2", "x2", 16 << 20})
		})
		if got := moves(ended); len(got) != 1 {
			t.Errorf("%d moves, want one: %+v", len(got), ended.TreeChanges)
		}
		carried := carriedBy(ended)
		whole := uint64(s.deliveries[0].size)
		if carried["a2>r1"] == 0 || carried["a1>r1"] == 0 || carried["a2>r1"]+carried["a1>r1"] > whole*101/100 {
			t.Errorf("the links carried %v of %d bytes: want a part over each, and none twice", carried, whole)
		}
		w.programs["a2"].stop()
		w.isOver(w.programs["a2"])
	})
}

// So does an agent that is far nearer to the sender: it becomes the ingress, and feeds the former one.
func TestSenderMovesToAnAgentThatComes(t *testing.T) {
	for _, mode := range []sdk.ControlMode{sdk.Hop, sdk.EndToEnd} {
		t.Run(string(mode), func(t *testing.T) {
			s := scenario{
				agents:     []place{{"a1", "a1", "x1", 16 << 20}},
				receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "r2"}},
				policy:     sdk.Policy{ControlMode: mode},
				deliveries: []parcel{{name: "object-0", size: 14 << 20}},
			}
			inWorld(t, s, func(*world) {}, func(w *world) {
				ended := w.slowly(5*time.Minute, func() {
					time.Sleep(30 * time.Second)
					w.network.Shape(senderHost, "a2", simnet.Shape{Latency: time.Millisecond, Rate: simnet.Rate(s.deliveries[0].size / 300)})
					w.startAgent(place{"a2", senderHost, "x2", 16 << 20})
				})
				if got := moves(ended); len(got) != 1 {
					t.Errorf("%d moves, want one: %+v", len(got), ended.TreeChanges)
				}
				carried := carriedBy(ended)
				whole := uint64(s.deliveries[0].size)
				first, then := carried["sender>a1"], carried["a2>a1"]
				if first == 0 || then == 0 || first+then > whole*101/100 || carried["sender>a2"] > then*101/100 {
					t.Errorf("the links carried %v of %d bytes: want a part over each, and none twice", carried, whole)
				}
				w.programs["a2"].stop()
				w.isOver(w.programs["a2"])
			})
		})
	}
}

// A link that oscillates moves a receiver at most five times in ten minutes; if it oscillates
// faster than distances are measured, at most once.
func TestOscillatingLink(t *testing.T) {
	const bound = 5 // in ten minutes
	for name, c := range map[string]struct {
		period, lasts time.Duration
		least, most   int
	}{
		"every seven minutes": {7 * time.Minute, 24 * time.Minute, 2, 3},
		"every half minute":   {30 * time.Second, 12 * time.Minute, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario{
				agents:     []place{{"a1", "a1", "x1", 16 << 20}, {"a2", "a2", "x2", 16 << 20}},
				receivers:  []place{{name: "r1", node: "r1"}},
				policy:     sdk.Policy{ControlMode: sdk.Hop},
				deliveries: []parcel{{name: "object-0", size: 14 << 20}},
			}
			inWorld(t, s, func(w *world) { w.apart("r1", "a2", "a1") }, func(w *world) {
				ended := w.slowly(c.lasts, func() {
					far, near := "a1", "a2"
					for end := time.Now().Add(c.lasts - c.period); time.Now().Before(end); far, near = near, far {
						time.Sleep(c.period)
						w.apart("r1", far, near)
					}
				})
				got := moves(ended)
				if len(got) < c.least || len(got) > c.most {
					t.Errorf("%d moves, want %d to %d: %+v", len(got), c.least, c.most, ended.TreeChanges)
				}
				for i := range got {
					if later := i + bound; later < len(got) && got[later].Sub(got[i]) < 10*time.Minute {
						t.Errorf("%d moves within ten minutes: %v", bound+1, got)
					}
				}
				t.Logf("%d moves", len(got))
			})
		})
	}
}
