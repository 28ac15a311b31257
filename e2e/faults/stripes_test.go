package faults_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/faults"
	"github.com/groupcast/groupcast/e2e/lab/link"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// far is a cable on which one connection gets only a small part of the rate.
var far = link.Shape{Rate: 50 * link.Mbit, Delay: 20 * time.Millisecond, Loss: 0.005, Queue: link.Packets(200)}

// farNet puts the sender's agent behind such a cable: it is far from the sender, and from the other
// agent, which is near its members.
func farNet(t *testing.T, flags ...string) *faults.Net {
	return faults.Start(t, faults.Topology{
		Agents: 2, Members: "bb", Policy: []string{"--congestion", "reno"},
		Cables: map[string]link.Shape{"agent-a": far}, Flags: map[string][]string{"agent-a": flags},
	})
}

// farLinks returns the use of links to and from the agent behind that cable.
func farLinks(d *groupv1.Delivery) (uses []*groupv1.LinkUse) {
	for _, use := range d.GetMeasurements().GetLinks() {
		if use.GetTo() == "agent-a" || use.GetFrom() == "agent-a" {
			uses = append(uses, use)
		}
	}
	return uses
}

func elapsed(d *groupv1.Delivery, member string) time.Duration {
	i := slices.IndexFunc(d.GetReceipts(), func(r *groupv1.Receipt) bool { return r.GetMember() == member })
	return d.GetReceipts()[i].GetElapsed().AsDuration()
}

// A far link has several stripes, but no more than the agent there may have, and is several times as fast as
// a single connection; the delivery says how many stripes there are, and why.
func TestFarLinkHasStripes(t *testing.T) {
	took := map[string]time.Duration{}
	for _, tt := range []struct {
		name        string
		flags       []string
		least, most uint32
	}{
		{"one", []string{"--data-stripes", "1"}, 1, 1},
		{"four", []string{"--data-stripes", "4"}, 2, 4},
		{"many", nil, 2, 16},
	} {
		n := farNet(t, tt.flags...)
		p := n.Push(n.Object("model", 8<<20))
		n.AwaitComplete(p)
		d := n.Delivery(p.ID)
		took[tt.name] = elapsed(d, "m2")
		t.Logf("%s: %v", tt.name, took[tt.name])
		for _, use := range farLinks(d) {
			t.Logf("  %v", use)
			if count := max(1, use.GetStripes().GetCount()); count < tt.least || count > tt.most {
				t.Errorf("%s: %v", tt.name, use)
			}
		}
	}
	if took["one"] < 2*took["many"] {
		t.Errorf("%v with one connection, %v with stripes", took["one"], took["many"])
	}
}

// The rate of a far link goes up and down, and the link is cut for moments: its stripes break and
// come back, and what arrives is complete and right.
func TestFarLinkComesAndGoes(t *testing.T) {
	n := farNet(t)
	cable := n.Machine("agent-a").Cable
	random := rand.New(rand.NewPCG(1, 0))
	p := n.Push(n.Object("model", 24<<20))
	n.AwaitBytes(p, "m1", 1<<20)
	for range 6 {
		for _, act := range []func() error{
			func() error { return cable.Step(2 * link.Mbit) }, cable.Cut, cable.Heal, func() error { return cable.Step(far.Rate) },
		} {
			if err := act(); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Duration(random.IntN(600)) * time.Millisecond) // the fault's own pace
		}
	}
	healed := time.Now()
	n.AwaitComplete(p)
	if took := time.Since(healed); took > 30*time.Second {
		t.Errorf("complete %v after all was healed, want 30s at most", took)
	}
	t.Log(farLinks(n.Delivery(p.ID)))
}
