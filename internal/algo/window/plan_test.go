package window_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/window"
)

var update = flag.Bool("update", false, "write the golden files anew")

// wantPlan compares the drawing of a decision with testdata.
func wantPlan(t *testing.T, name string, got window.Decision) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// uploading returns three clients: one of high priority, one of low, and one that sends little.
func uploading(window int) window3 {
	facts := long(50*ms, 100*ms, 80*ms)
	for i, c := range []struct {
		name            string
		target, minimum float64
		priority        int
		throughput      float64
	}{{"probe", 4, 2, 2, 5}, {"archive", 2, 1, 0, 2.5}, {"sensor", 1, .5, 1, .1}} {
		client := &facts.Clients[i]
		client.Name, client.Priority = c.name, c.priority
		client.Target, client.Minimum, client.Throughput = mbits(c.target), mbits(c.minimum), mbits(c.throughput)
		client.Connections[0].Throughput, client.Connections[0].Window = client.Throughput, window
	}
	return window3{facts}
}

type window3 struct{ window.Facts }

func mbits(n float64) window.Rate { return window.Rate(n * mbit) }

// queued has all wait before the access link.
func (f window3) queued(share float64) window.Facts {
	for i := range f.Clients {
		one := &f.Clients[i].Connections[0]
		one.RTT += 60 * ms
		f.Clients[i].Throughput = window.Rate(share) * f.Clients[i].Throughput
		one.Throughput = f.Clients[i].Throughput
	}
	return f.Facts
}

// The plans for a link that has more than the targets need, less than that, less than the minimums need, and for one that others
// fill.
func TestPlans(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	wantPlan(t, "first", b.step(uploading(0).Facts))
	wantPlan(t, "room", b.advance(2*second, uploading(32e3).Facts))
	wantPlan(t, "queue", b.step(uploading(32e3).queued(1)))
	wantPlan(t, "short", b.advance(3*second, uploading(24e3).queued(.6)))
	wantPlan(t, "crowded", b.advance(4*second, uploading(24e3).queued(.6)))
	scarce := newBench(t, window.Groupcast, window.Options{})
	facts := uploading(8e3).Facts
	facts.Link.Rate = mbits(3)
	facts.Link.Others = mbits(1)
	wantPlan(t, "others", scarce.advance(2*second, facts))
}

// A link that has less than the minimums is divided by the ratio of targets, whoever has priority.
func TestPlanOfLessThanTheMinimums(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	b.advance(3*second, uploading(8e3).Facts)
	wantPlan(t, "scarce", b.advance(2*second, uploading(8e3).queued(.3)))
}

// 003 §III-B: "the optimal number of aggregated TCP connections should be decided depending on
// network condition". A client that needs more than one window can hold has as many connections as it needs: 10
// Gbit/s over 10 ms are 12.5 MB, of windows of 2 MiB.
func TestOneWindowIsNotEnough(t *testing.T) {
	b := newBench(t, window.Groupcast, window.Options{})
	facts := long(10 * ms)
	facts.Link.Rate, facts.Clients[0].Target = 20e3*mbit, 10e3*mbit
	d := b.step(facts)
	if got := d.Shares[0].Connections; got < 6 || got > 8 {
		t.Errorf("%d connections", got)
	}
	facts.Clients[0].MaxConnections = 3
	if got := newBench(t, window.Groupcast, window.Options{}).step(facts).Shares[0].Connections; got != 3 {
		t.Errorf("%d connections of 3", got)
	}
}
