package reshape_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
)

const ms = time.Millisecond

// distances is a tree, its members, and the round trips between all nodes as they are now.
type distances struct {
	t     *tree.Tree
	seek  *reshape.Seek
	nodes []tree.Node
	rtt   map[tree.Pair]time.Duration
	now   time.Time
	moved map[string][]time.Time
}

// sites returns a sender, agents at sites of their own, and members that are at no site.
func sites(t rapid.TB, agents, members int, rtt func(a, b string) time.Duration) *distances {
	t.Helper()
	d := &distances{seek: reshape.NewSeek(), now: time.Unix(0, 0), rtt: map[tree.Pair]time.Duration{}, moved: map[string][]time.Time{}}
	d.nodes = []tree.Node{{Name: "s"}}
	for i := range agents {
		d.nodes = append(d.nodes, tree.Node{Name: fmt.Sprint("a", i), Kind: tree.Agent, Cluster: fmt.Sprint("x", i)})
	}
	for i := range members {
		d.nodes = append(d.nodes, tree.Node{Name: fmt.Sprint("m", i)})
	}
	for i, a := range d.nodes {
		for _, b := range d.nodes[:i] {
			d.rtt[tree.Pair{A: a.Name, B: b.Name}] = rtt(a.Name, b.Name)
		}
	}
	built, err := tree.Build("s", d.nodes, tree.Bound{RTT: tree.RTTs{Nodes: d.rtt}})
	if err != nil {
		t.Fatal(err)
	}
	d.t = built
	return d
}

// run lets time pass, with a look at every pause, and returns how many nodes moved.
func (d *distances) run(t rapid.TB, most time.Duration) (moves int) {
	t.Helper()
	for end := d.now.Add(most); d.now.Before(end); d.now = d.now.Add(reshape.SeekPause) {
		after, gains := d.seek.Next(d.whole(t), d.nodes, func(_, _ *tree.Tree) bool { return true }, d.now)
		for _, gain := range gains {
			d.moved[gain.Node] = append(d.moved[gain.Node], d.now)
			parent, still := after.Parent(gain.Node) // an agent may have lost those that it fed to a better one
			if still && parent != gain.To || gain.To == gain.From {
				t.Fatalf("%+v, and it is fed by %s", gain, parent)
			}
		}
		if err := after.Validate(); err != nil {
			t.Fatal(err)
		}
		d.t, moves = after, moves+len(gains)
	}
	return moves
}

// whole returns the tree with the present measurements, and with the agents that were left out of it.
func (d *distances) whole(t rapid.TB) *tree.Tree {
	t.Helper()
	whole := d.t.Measured(tree.RTTs{Nodes: d.rtt})
	for _, node := range d.nodes {
		if _, has := whole.Node(node.Name); has {
			continue
		}
		with, err := whole.With(node)
		if err != nil {
			t.Fatal(err)
		}
		whole = with
	}
	return whole
}

func equal(string, string) time.Duration { return 20 * ms }

// set changes the round trip between two nodes.
func (d *distances) set(a, b string, rtt time.Duration) {
	if _, has := d.rtt[tree.Pair{A: a, B: b}]; has {
		a, b = b, a
	}
	d.rtt[tree.Pair{A: b, B: a}] = rtt
}

// "The capability to reconstruct the structures in response to changing network conditions that
// affect delay" (002 §3.1.2): a node gets a better parent once that has been better for a while.
func TestBetterParentIsTaken(t *testing.T) {
	d := sites(t, 3, 1, equal)
	if moves := d.run(t, time.Minute); moves != 0 {
		t.Fatalf("%d moves, and nothing changed", moves)
	}
	from, _ := d.t.Parent("m0")
	for _, to := range []string{"a0", "a1", "a2"} {
		if to != from {
			d.set(to, "m0", 4*ms)
			break
		}
	}
	if moves := d.run(t, 10*time.Second); moves != 0 {
		t.Fatalf("%d moves before it was better for long", moves)
	}
	if moves := d.run(t, 10*time.Minute); moves != 1 {
		t.Fatalf("%d moves, want one", moves)
	}
}

// A parent that is better for a moment moves nobody.
func TestBetterForAMoment(t *testing.T) {
	d := sites(t, 2, 1, equal)
	from, _ := d.t.Parent("m0")
	for range 100 {
		d.set(from, "m0", 40*ms)
		d.run(t, 10*time.Second)
		d.set(from, "m0", 20*ms)
		d.run(t, 5*time.Second)
	}
	if len(d.moved) > 0 {
		t.Errorf("moved: %v", d.moved)
	}
}

// The members of a group do not all move at once.
func TestFewMoveAtATime(t *testing.T) {
	d := sites(t, 2, 20, equal)
	for i := range 20 {
		for _, agent := range []string{"a0", "a1"} {
			d.set(agent, fmt.Sprint("m", i), map[string]time.Duration{"a0": 40 * ms, "a1": 4 * ms}[agent])
		}
	}
	for range 60 {
		if moves := d.run(t, reshape.SeekPause); moves > 8 {
			t.Fatalf("%d moved at a time", moves)
		}
	}
}

// An oscillating link moves a node at most five times in any ten minutes, whatever its period; and
// a network that no longer changes comes to rest.
func TestOscillatingDistances(t *testing.T) {
	total, most := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pick := rapid.SampledFrom([]time.Duration{ms, 4 * ms, 20 * ms, 60 * ms})
		d := sites(t, rapid.IntRange(2, 4).Draw(t, "agents"), rapid.IntRange(1, 3).Draw(t, "members"), func(string, string) time.Duration {
			return pick.Draw(t, "rtt")
		})
		node := rapid.Custom(func(t *rapid.T) string { return rapid.SampledFrom(d.nodes).Draw(t, "node").Name })
		for d.now.Before(time.Unix(1200, 0)) {
			if a, b := node.Draw(t, "a"), node.Draw(t, "b"); a != b {
				d.set(a, b, pick.Draw(t, "rtt"))
			}
			total += d.run(t, time.Duration(rapid.IntRange(5, 120).Draw(t, "seconds"))*time.Second)
		}
		for name, at := range d.moved {
			for i := range at {
				j := i
				for j < len(at) && at[j].Sub(at[i]) < 10*time.Minute {
					j++
				}
				if most = max(most, j-i); j-i > 5 {
					t.Fatalf("%s moved %d times in ten minutes: %v", name, j-i, at[i:j])
				}
			}
		}
		d.run(t, 15*time.Minute)
		if moves := d.run(t, 5*time.Minute); moves > 0 {
			t.Fatalf("%d moves in a network that does not change", moves)
		}
	})
	if t.Logf("%d moves, at most %d of a node in ten minutes", total, most); total == 0 {
		t.Error("nobody ever moved")
	}
}

// This is the fastest that a link can oscillate and have an effect: whenever the node has moved, its new parent is far again.
func TestOscillatingAsFastAsItMoves(t *testing.T) {
	d := sites(t, 2, 1, equal)
	for d.now.Before(time.Unix(600, 0)) {
		from, _ := d.t.Parent("m0")
		for _, agent := range []string{"a0", "a1"} {
			d.set(agent, "m0", 4*ms)
		}
		d.set(from, "m0", 40*ms)
		d.run(t, reshape.SeekPause)
	}
	if got := len(d.moved["m0"]); got != 5 {
		t.Errorf("it moved %d times in ten minutes, want 5: %v", got, d.moved)
	}
}
