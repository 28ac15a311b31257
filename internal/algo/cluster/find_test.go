package cluster_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/algo/cluster"
)

const (
	threshold = 2 * time.Millisecond
	ms        = time.Millisecond
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// network is what has been measured, in the words of a test.
type network struct {
	testing.TB
	times *cluster.Times
	nodes []cluster.Node
	found *cluster.Clusters
	now   time.Time
}

func newNetwork(t testing.TB, nodes ...string) *network {
	n := &network{TB: t, times: cluster.NewTimes(), now: start}
	for _, node := range nodes {
		name, label, _ := strings.Cut(node, "=")
		n.nodes = append(n.nodes, cluster.Node{Name: name, Label: label})
	}
	return n
}

// say makes a node say what it has measured.
func (n *network) say(from, to string, rtt time.Duration) { n.times.Take(from, to, rtt, n.now) }

// near makes two nodes measure the same time.
func (n *network) near(a, b string, rtt time.Duration) {
	n.say(a, b, rtt)
	n.say(b, a, rtt)
}

// all makes each pair of some nodes measure the same time.
func (n *network) all(rtt time.Duration, nodes ...string) {
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			n.near(a, b, rtt)
		}
	}
}

func (n *network) want(clusters ...string) {
	n.Helper()
	n.found = cluster.Find(n.nodes, n.times, threshold, n.found, n.now)
	var got []string
	for _, label := range slices.Sorted(maps.Keys(n.found.All())) {
		got = append(got, label+": "+strings.Join(n.found.All()[label], " "))
	}
	if diff := cmp.Diff(clusters, got); diff != "" {
		n.Errorf("clusters (-want +got):\n%s", diff)
	}
}

// "Put two hosts in the same cluster only if […] the unicast latency between them is less
// than a specified threshold" (002 §3.1.2).
func TestThreshold(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "d")
	n.near("a", "b", ms)
	n.near("c", "d", threshold)
	n.near("a", "c", 40*ms)
	n.near("b", "d", threshold+1)
	n.want("~a: a b", "~c: c d")
}

// A chain of near nodes does not put its ends together.
func TestChain(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "d")
	n.near("a", "b", 1500*time.Microsecond)
	n.near("b", "c", 1500*time.Microsecond)
	n.near("c", "d", 1500*time.Microsecond)
	n.near("a", "c", 3*ms)
	n.near("b", "d", 3*ms)
	n.near("a", "d", 4500*time.Microsecond)
	n.want("~a: a b", "~c: c d")
}

// Nothing is known: everybody is alone.
func TestNothingMeasured(t *testing.T) { newNetwork(t, "a", "b").want("~a: a", "~b: b") }

// "[…] only if they share a router" (002 §3.1.2): labels say that, and no time contradicts them. A
// node without a label may be near the nodes of a label.
func TestLabels(t *testing.T) {
	n := newNetwork(t, "a=x", "b=x", "c=y", "d", "e")
	n.near("a", "b", 90*ms)
	n.all(ms, "a", "c")
	n.near("c", "d", ms)
	n.near("a", "d", 30*ms)
	n.want("x: a b", "y: c d", "~e: e")
}

// A node joins a large cluster only if it is known to be near several of its nodes, and far from none.
func TestPartlyKnown(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "d", "e", "f")
	n.all(ms, "a", "b", "c", "d")
	n.near("e", "a", ms)
	n.near("e", "b", ms)
	n.want("~a: a b c d", "~e: e", "~f: f")
	n.near("e", "c", ms)
	n.near("f", "a", ms)
	n.near("f", "b", ms)
	n.near("f", "c", ms)
	n.near("f", "d", 20*ms)
	n.want("~a: a b c d e", "~f: f")
}

// Clusters that were found one by one become one when they turn out to be near.
func TestMerge(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "d")
	n.near("a", "b", ms)
	n.near("c", "d", ms)
	n.want("~a: a b", "~c: c d")
	n.all(ms, "a", "b", "c", "d")
	n.want("~a: a b c d")
}

// A round trip is the longer of what both say: a node does not come nearer by saying so.
func TestLiar(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "liar")
	n.all(ms, "a", "b", "c")
	for _, victim := range []string{"a", "b", "c"} {
		n.say("liar", victim, 50*time.Microsecond)
	}
	n.want("~a: a b c", "~liar: liar") // nobody else has measured the liar
	for _, victim := range []string{"a", "b", "c"} {
		n.say(victim, "liar", 40*ms)
	}
	n.want("~a: a b c", "~liar: liar")
	if rtt, known := n.times.Between("a", "liar", n.now); rtt != 40*ms || !known {
		t.Errorf("the round trip to the liar is %v, %v", rtt, known)
	}
}

// A liar with an accomplice next to its victims is still far from them.
func TestAccomplice(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "accomplice", "liar")
	n.all(ms, "a", "b", "c", "accomplice")
	n.near("accomplice", "liar", 50*time.Microsecond)
	for _, victim := range []string{"a", "b", "c"} {
		n.say("liar", victim, 50*time.Microsecond)
		n.say(victim, "liar", 40*ms)
	}
	n.want("~a: a accomplice b c", "~liar: liar")
}

func TestImpossibleTimes(t *testing.T) {
	for _, rtt := range []time.Duration{-ms, 0, time.Nanosecond, time.Hour} {
		if cluster.NewTimes().Take("a", "b", rtt, start) {
			t.Errorf("%v was believed", rtt)
		}
	}
	if cluster.NewTimes().Take("a", "a", ms, start) {
		t.Error("a node's time to itself was believed")
	}
}

// Noise around the threshold moves nobody, neither in nor out.
func TestHysteresis(t *testing.T) {
	for _, together := range []bool{true, false} {
		n := newNetwork(t, "a", "b", "c")
		first := 2100 * time.Microsecond
		if together {
			first = 1900 * time.Microsecond
		}
		n.all(first, "a", "b", "c")
		n.found = cluster.Find(n.nodes, n.times, threshold, nil, n.now)
		want := fmt.Sprint(n.found.All())
		random := rand.New(rand.NewPCG(1, 0))
		for range 100 {
			n.now = n.now.Add(cluster.Refresh)
			n.all(2050*time.Microsecond+time.Duration(random.IntN(900))*time.Microsecond, "a", "b", "c")
			n.found = cluster.Find(n.nodes, n.times, threshold, n.found, n.now)
			if got := fmt.Sprint(n.found.All()); got != want {
				t.Fatalf("%s became %s", want, got)
			}
		}
	}
}

// Of the latest times the shortest counts until it is old; after that the node may leave.
func TestFullQueue(t *testing.T) {
	n := newNetwork(t, "a", "b")
	n.near("a", "b", ms)
	n.near("a", "b", 300*ms) // a queue was full
	n.want("~a: a b")
	for range 4 { // the path has changed
		n.near("a", "b", 9*ms)
	}
	n.want("~a: a", "~b: b")
}

// A cluster keeps its name when its first node goes. That node finds the name taken when it comes back elsewhere.
func TestNames(t *testing.T) {
	n := newNetwork(t, "a", "b", "c")
	n.all(ms, "a", "b", "c")
	n.want("~a: a b c")
	n.nodes = n.nodes[1:]
	n.want("~a: b c")
	for range 4 {
		n.near("a", "b", 50*ms)
		n.near("a", "c", 50*ms)
	}
	n.nodes = append(n.nodes, cluster.Node{Name: "a"})
	n.want("~a: b c", "~a~: a")
}

// Times that are old no longer count.
func TestAge(t *testing.T) {
	n := newNetwork(t, "a", "b")
	n.near("a", "b", ms)
	n.now = n.now.Add(cluster.MaxAge)
	n.want("~a: a", "~b: b")
	n.times.Forget(n.now)
	if left := n.times.Of("a", start); len(left) != 0 {
		t.Errorf("%v is remembered", left)
	}
}

// A node that comes back elsewhere is measured anew: the old times are forgotten at once.
func TestDrop(t *testing.T) {
	n := newNetwork(t, "a", "b", "c")
	n.all(ms, "a", "b", "c")
	n.want("~a: a b c")
	n.times.Drop("b")
	n.want("~a: a c", "~b: b")
	n.near("a", "b", 40*ms)
	if rtt, known := n.times.Between("a", "b", n.now); rtt != 40*ms || !known {
		t.Errorf("a to b is %v, %v", rtt, known)
	}
}

// A guest, which measures but is not measured, is of the cluster to which it is near.
func TestGuest(t *testing.T) {
	n := newNetwork(t, "a", "b", "c", "d")
	n.all(ms, "a", "b", "c")
	n.want("~a: a b c", "~d: d")
	for _, test := range []struct {
		name   string
		times  map[string]time.Duration
		before string
		want   string
	}{
		{"unknown", nil, "", ""},
		{"near all", map[string]time.Duration{"a": ms, "b": ms, "c": ms, "d": 9 * ms}, "", "~a"},
		{"one is far", map[string]time.Duration{"a": ms, "b": ms, "c": 9 * ms}, "", ""},
		{"too few known", map[string]time.Duration{"a": ms, "b": ms}, "", ""},
		{"near one that is alone", map[string]time.Duration{"d": ms}, "", "~d"},
		{"was there", map[string]time.Duration{"a": 2900 * time.Microsecond}, "~a", "~a"},
		{"was there and is far", map[string]time.Duration{"a": 9 * ms}, "~a", ""},
	} {
		if got := n.found.Guest(test.times, test.before); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
