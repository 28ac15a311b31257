package window_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// lies are what a client, or its kernel, may tell of itself.
var lies = map[string]func(*window.Client){
	"no round trip":       everyConnection(func(c *window.Connection) { c.RTT, c.LeastRTT = 0, 0 }),
	"negative round trip": everyConnection(func(c *window.Connection) { c.RTT, c.LeastRTT = -time.Second, -time.Hour }),
	"endless round trip":  everyConnection(func(c *window.Connection) { c.RTT = math.MaxInt64 }),
	"acknowledgements come 20 times later": everyConnection(func(c *window.Connection) {
		c.RTT, c.LeastRTT = 20*c.RTT, 20*c.LeastRTT
	}),
	"they do now and then": everyConnection(func(c *window.Connection) { c.RTT *= 20 }),
	"no least round trip":  everyConnection(func(c *window.Connection) { c.LeastRTT = 0 }),
	"no number": func(c *window.Client) {
		c.Throughput, c.Minimum, c.Cap = nan, nan, nan
		everyConnection(func(c *window.Connection) { c.Throughput = nan })(c)
	},
	"endless throughput": func(c *window.Client) {
		c.Throughput = window.Rate(math.Inf(1))
		everyConnection(func(c *window.Connection) { c.Throughput = window.Rate(math.Inf(1)) })(c)
	},
	"negative throughput": func(c *window.Client) {
		c.Throughput = -1e9
		everyConnection(func(c *window.Connection) { c.Throughput = -1e9 })(c)
	},
	"no segments":       everyConnection(func(c *window.Connection) { c.MSS = 0 }),
	"huge segments":     everyConnection(func(c *window.Connection) { c.MSS = math.MaxInt32 }),
	"a negative window": everyConnection(func(c *window.Connection) { c.Window = -1 }),
	"nothing came":      everyConnection(func(c *window.Connection) { c.Received, c.Idle = 0, true }),
	"much is lost":      everyConnection(func(c *window.Connection) { c.OutOfOrder = uint64(c.Age) }),
}

var nan = window.Rate(math.NaN())

func everyConnection(lie func(*window.Connection)) func(*window.Client) {
	return func(c *window.Client) {
		for j := range c.Connections {
			lie(&c.Connections[j])
		}
	}
}

// lengthening are the lies by which a round trip seems longer than it is, as it does where others fill a queue on a client's way.
var lengthening = []string{"endless round trip", "acknowledgements come 20 times later", "they do now and then"}

// C63: whatever one client tells of itself, the others keep what they had before it did. If it makes its round trips longer, it gets more
// of what is left beyond the targets, and the others keep nine tenths of what they had. For no 5 s have they less than their targets.
func TestC63LiesHurtNobodyElse(t *testing.T) {
	const settled, lie, end = 10 * second, 40 * second, 80 * second
	for name, change := range lies {
		t.Run(name, func(t *testing.T) {
			kept := .97
			if slices.Contains(lengthening, name) {
				kept = .9
			}
			s := newSite(10*mbit, 200e3, controller(t, window.Groupcast))
			all := six(s, true)
			s.run(lie)
			s.lie = func(facts *window.Facts) { change(&facts.Clients[1]) }
			s.run(end - lie)
			for i, u := range all {
				before, since := u.mean(settled, lie), u.mean(lie, end)
				t.Logf("%s: %.3f Mbit/s, before the lie %.3f", u.Name, since/mbit, before/mbit)
				if i != 1 && since < kept*before {
					t.Errorf("%s: %.3f Mbit/s, before the lie %.3f, want at least %.3f of that", u.Name, since/mbit, before/mbit, kept)
				}
			}
			wantTargets(t, slices.Delete(all, 1, 2), 1, 5*second, lie, end)
		})
	}
}

// anyRate returns a rate that nobody should tell.
func anyRate(t *rapid.T, label string) window.Rate {
	return window.Rate(rapid.OneOf(
		rapid.Float64(), rapid.Float64Range(0, 1e8), rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}),
	).Draw(t, label))
}

func anyTime(t *rapid.T, label string) time.Duration {
	return time.Duration(rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 1e9), rapid.Just(int64(0))).Draw(t, label))
}

func anyFacts(t *rapid.T) window.Facts {
	id := uint64(0)
	connection := rapid.Custom(func(t *rapid.T) window.Connection {
		id++
		return window.Connection{
			ID: id, Age: anyTime(t, "age"), RTT: anyTime(t, "rtt"), LeastRTT: anyTime(t, "least"), MSS: rapid.Int().Draw(t, "mss"),
			Throughput: anyRate(t, "throughput"), Received: rapid.Uint64().Draw(t, "received"), OutOfOrder: rapid.Uint64().Draw(t, "out of order"),
			Window: rapid.Int().Draw(t, "window"), Idle: rapid.Bool().Draw(t, "idle"),
		}
	})
	client := rapid.Custom(func(t *rapid.T) window.Client {
		return window.Client{
			Name: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "name")), Target: anyRate(t, "target"), Minimum: anyRate(t, "minimum"), Cap: anyRate(t, "cap"),
			Priority: rapid.Int().Draw(t, "priority"), MaxConnections: rapid.Int().Draw(t, "most"), Active: rapid.Bool().Draw(t, "active"),
			Throughput: anyRate(t, "throughput"), Remaining: rapid.Uint64().Draw(t, "remaining"),
			Connections: rapid.SliceOfN(connection, 0, 4).Draw(t, "connections"),
		}
	})
	return window.Facts{
		Link:    window.Link{Rate: anyRate(t, "link"), Others: anyRate(t, "others"), Memory: rapid.Int().Draw(t, "memory")},
		Clients: rapid.SliceOfN(client, 0, 5).Draw(t, "clients"),
	}
}

// Whatever it is told, every controller decides about everybody, in order, with windows that the
// kernel takes, and within the memory.
func TestAnyFactsAreDecidedUpon(t *testing.T) {
	for _, name := range window.Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c, err := window.New(name, window.Options{})
				if err != nil {
					t.Fatal(err)
				}
				now := time.Unix(1e9, 0)
				for range rapid.IntRange(1, 5).Draw(t, "steps") {
					facts := anyFacts(t)
					now = now.Add(time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "passes")))
					wantPlausible(t, facts, c.Step(now, facts))
					if first := c.First(); first < 0 || first > 1<<20 {
						t.Fatalf("a first window of %d", first)
					}
				}
			})
		})
	}
}

func wantPlausible(t *rapid.T, facts window.Facts, d window.Decision) {
	if len(d.Shares) != len(facts.Clients) || bad(d.Available) {
		t.Fatalf("%d shares for %d clients, %v available", len(d.Shares), len(facts.Clients), d.Available)
	}
	for i, client := range facts.Clients {
		share := d.Shares[i]
		if share.Name != client.Name || len(share.Windows) != len(client.Connections) || share.Reason == "" || share.Bottleneck == "" || bad(share.Rate) {
			t.Fatalf("share %+v for %+v", share, client)
		}
		if most := client.MaxConnections; share.Connections < 0 || share.Connections > 16 || most > 0 && share.Connections > most {
			t.Fatalf("%d connections, at most %d", share.Connections, most)
		}
		for j, w := range share.Windows {
			if w.ID != client.Connections[j].ID || w.Bytes < 0 || w.Bytes > math.MaxInt32 || w.State == "" {
				t.Fatalf("window %+v for %+v", w, client.Connections[j])
			}
		}
	}
}

func bad(r window.Rate) bool { return math.IsNaN(float64(r)) || r < 0 || math.IsInf(float64(r), 0) }
