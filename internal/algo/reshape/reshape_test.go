package reshape_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/reshape"
	"github.com/groupcast/groupcast/internal/algo/tree"
)

const (
	megabyte = 1_000_000
	tick     = 100 * time.Millisecond
)

// network is a chain of agents, each with a link of its own, and how data flows along it.
type network struct {
	t      *tree.Tree
	watch  *reshape.Watch
	now    time.Time
	length uint64
	down   map[string]uint64 // the rate that an agent's link takes; for the first agent, the rate of the sender
	up     map[string]uint64 // the rate at which an agent gives to all that it feeds, if less than a link carries
	weight map[string]uint64 // of the link to an agent; links share what a parent gives in proportion to it
	bytes  map[string]uint64
	looked map[string]uint64 // bytes at the last look
	due    time.Time
	moves  []reshape.Move
	// refused are the kinds of moves that could not be made when they were first found; nil lets all be made.
	refused map[reshape.Why]bool
	moved   []time.Time          // when they were
	stays   bool                 // nobody moves
	slow    map[string]uint64    // who is known to be
	silent  map[string]time.Time // who says nothing until then
	flows   reshape.Flows
	ended   map[string]time.Time // when they had all
}

// chain returns a sender and agents a00, a01, … in a chain whose links take the given rates.
func chain(t rapid.TB, length, uplink uint64, rates ...uint64) *network {
	t.Helper()
	nodes := []tree.Node{{Name: "s", Cluster: "x"}}
	n := &network{
		watch: reshape.NewWatch(), ended: map[string]time.Time{}, now: time.Unix(0, 0), length: length, up: map[string]uint64{}, weight: map[string]uint64{},
		slow: map[string]uint64{}, silent: map[string]time.Time{}, down: map[string]uint64{}, bytes: map[string]uint64{}, looked: map[string]uint64{},
	}
	for i, rate := range rates {
		name := fmt.Sprintf("a%02d", i)
		n.down[name] = rate
		nodes = append(nodes, tree.Node{Name: name, Kind: tree.Agent, Cluster: "x", Uplink: uplink})
	}
	built, err := tree.Build("s", nodes, tree.Bound{Load: tree.Load{Bytes: 100_000 * megabyte}})
	if err != nil {
		t.Fatal(err)
	}
	n.t = built
	return n
}

// run lets time pass until all agents have everything, but not longer than most.
func (n *network) run(most time.Duration) {
	for end := n.now.Add(most); n.now.Before(end) && !n.done(); n.now = n.now.Add(tick) {
		n.flow()
		if !n.now.Before(n.due) {
			n.look()
		}
	}
}

func (n *network) done() bool {
	for name := range n.down {
		if n.bytes[name] < n.length {
			return false
		}
	}
	return true
}

// flow moves bytes down the tree, from the bottom up, so that nothing passes two agents in one tick.
func (n *network) flow() {
	names := n.t.Names()
	slices.Reverse(names)
	for _, name := range names[:len(names)-1] {
		parent, _ := n.t.Parent(name)
		has, rate := n.length, n.down[name]
		if parent != "s" {
			has, rate = n.bytes[parent], min(rate, n.share(parent, name))
		}
		n.bytes[name] = max(n.bytes[name], min(has, n.bytes[name]+rate*uint64(tick)/uint64(time.Second)))
		if n.bytes[name] == n.length && n.ended[name].IsZero() {
			n.ended[name] = n.now
		}
	}
}

// share returns the rate at which an agent gives to a child.
func (n *network) share(parent, child string) uint64 {
	var all uint64
	for _, fed := range n.t.Children(parent) {
		all += cmp.Or(n.weight[fed], 1)
	}
	return cmp.Or(n.up[parent], 100*megabyte) * cmp.Or(n.weight[child], 1) / all
}

func (n *network) look() {
	flows := reshape.Flows{}
	for name := range n.down {
		if n.now.Before(n.silent[name]) {
			flows[name] = n.flows[name]
			continue
		}
		flows[name] = reshape.Flow{Bytes: n.bytes[name], At: n.now, Rate: n.bytes[name] - n.looked[name]}
		n.looked[name] = n.bytes[name]
	}
	n.due, n.flows = n.now.Add(time.Second), flows // the rates are bytes per second
	if n.stays {
		return
	}
	move, found, _ := n.watch.Next(n.t, flows, n.length, n.now)
	n.learn()
	if !found {
		return
	}
	after, err := move.In(n.t)
	if err != nil {
		n.watch.Stays(move.Node, n.now)
		return
	}
	if n.refused != nil && !n.refused[move.Why] {
		n.refused[move.Why] = true
		return
	}
	n.watch.Moved(move, n.t, n.now)
	n.t, n.moves, n.moved = after, append(n.moves, move), append(n.moved, n.now)
}

// learn notes which agents were found to be slow, or not to be.
func (n *network) learn() {
	for name, rate := range n.watch.Slow() {
		if n.slow[name] = rate; rate == 0 {
			delete(n.slow, name)
		}
	}
}

func (n *network) wantMoves(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, move := range n.moves {
		got = append(got, move.Node)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v moved, want %v\n%+v\n%v", got, want, n.moves, n.t)
	}
}

// "This scheme forces a host with the longest latency to move to the bottom of its cluster
// where it will no longer adversely affect other hosts" (002 §3.1.2).
func TestSlowAgentMovesToTheBottom(t *testing.T) {
	n := chain(t, 1000*megabyte, 0, 10*megabyte, megabyte, 10*megabyte, 10*megabyte, 10*megabyte)
	n.run(110 * time.Second)
	n.wantMoves(t, "a01")
	if got := n.t.Path("a01"); len(got) != 6 {
		t.Errorf("a01 is fed over %v", got)
	}
	for _, name := range []string{"a02", "a03", "a04"} {
		if n.bytes[name] != n.length {
			t.Errorf("%s has %d bytes of %d", name, n.bytes[name], n.length)
		}
	}
	if slow := n.slow; len(slow) != 1 || slow["a01"] == 0 || slow["a01"] > megabyte {
		t.Errorf("known to be slow: %v, want a01 with a megabyte per second", slow)
	}
}

// A network that does not change causes no moves: neither where the sender is the limit, nor
// where the uplinks are, which are known.
func TestEqualAgentsStay(t *testing.T) {
	for name, n := range map[string]*network{
		"the sender is the limit": chain(t, 1000*megabyte, 0, slices.Repeat([]uint64{10 * megabyte}, 5)...),
		"the uplinks are":         chain(t, 1000*megabyte, 10*megabyte, 1000*megabyte, 10*megabyte, 10*megabyte, 10*megabyte),
		"it is soon over":         chain(t, 4*megabyte, 0, 10*megabyte, megabyte, 10*megabyte, 10*megabyte),
	} {
		t.Run(name, func(t *testing.T) {
			n.run(200 * time.Second)
			n.wantMoves(t)
		})
	}
}

// Where nothing is known of the parent, one move shows that the next agent takes no more, and a swap to and fro
// shows that the parent is not to blame. The same holds if the parent's uplink is less than it is said to be.
func TestOneTrialForEachLimit(t *testing.T) {
	for _, uplink := range []uint64{0, 1000 * megabyte} {
		n := chain(t, 3000*megabyte, uplink, 1000*megabyte, 10*megabyte, 10*megabyte, 10*megabyte, 10*megabyte)
		n.run(400 * time.Second)
		n.wantMoves(t, "a01", "a02", "a00")
		n.wantSlow(t, "")
	}
}

// An agent that gives slowly goes to the bottom, where it gives to nobody, wherever it was and whatever its uplink is said
// to be.
func TestSlowGiverMovesToTheBottom(t *testing.T) {
	for _, uplink := range []uint64{0, 1000 * megabyte} {
		for _, slow := range []string{"a00", "a01", "a02"} {
			n := chain(t, 3000*megabyte, uplink, slices.Repeat([]uint64{10 * megabyte}, 5)...)
			n.up[slow] = megabyte
			n.run(400 * time.Second)
			if len(n.moves) != 3 || n.moves[2].Node != slow || n.moves[2].Why != reshape.GivesSlowly || n.moves[2].Rate > megabyte {
				t.Errorf("%+v", n.moves)
			}
			if got := n.t.Children(slow); len(got) != 0 || !n.done() {
				t.Errorf("%s feeds %v; all have all: %t\n%v", slow, got, n.done(), n.t)
			}
			n.wantSlow(t, slow)
		}
	}
}

// A link may get a larger share of what the parent gives than the link of the agent that was there before, because
// members get less. That does not make the former agent slow.
func TestWhoTakesFromOthersIsNotFaster(t *testing.T) {
	n := chain(t, 1000*megabyte, 0, slices.Repeat([]uint64{10 * megabyte}, 5)...)
	var err error
	if n.t, err = n.t.With(tree.Node{Name: "m", Kind: tree.Member, Cluster: "x", Agent: "a01"}); err != nil {
		t.Fatal(err)
	}
	n.down["m"] = 10 * megabyte
	n.up["a01"] = 2 * megabyte
	n.weight["a03"], n.weight["a04"] = 4, 4
	n.run(400 * time.Second)
	if len(n.moves) != 3 || n.moves[2].Node != "a01" || n.moves[2].Why != reshape.GivesSlowly {
		t.Errorf("%+v", n.moves)
	}
	n.wantSlow(t, "a01")
}

// An agent that feeds several slow takers is back in its place after one of them was tried there.
func TestWhoFeedsSlowAgentsStays(t *testing.T) {
	n := chain(t, 400*megabyte, 0, 10*megabyte, 10*megabyte, 10*megabyte, 10*megabyte, megabyte, megabyte, megabyte)
	n.run(600 * time.Second)
	n.wantMoves(t, "a04", "a05", "a03")
	if got := n.t.Path("a03"); len(got) != 5 {
		t.Errorf("a03 is fed over %v", got)
	}
	n.wantSlow(t, "")
}

// A move that cannot be made is found again, also one that ends a trial.
func TestMovesThatCannotBeMadeAreFoundAgain(t *testing.T) {
	for end, rates := range map[reshape.Why][]uint64{
		reshape.TakesSlowly: {10 * megabyte, 10 * megabyte, 10 * megabyte, 10 * megabyte, megabyte, megabyte, megabyte},
		reshape.GivesSlowly: {10 * megabyte, 10 * megabyte, 10 * megabyte, 10 * megabyte, 10 * megabyte},
	} {
		n := chain(t, 400*megabyte, 0, rates...)
		if n.refused = make(map[reshape.Why]bool); end == reshape.GivesSlowly {
			n.up["a01"] = megabyte
		}
		n.run(600 * time.Second)
		if last := n.moves[len(n.moves)-1]; last.Why != end {
			t.Errorf("the last move is %+v, want one for %d: %+v", last, end, n.moves)
		}
		if !n.refused[end] {
			t.Errorf("no move for %d was refused", end)
		}
	}
}

// wantSlow checks who is known to be slow; nobody, if the name is empty.
func (n *network) wantSlow(t *testing.T, want string) {
	t.Helper()
	if slow := slices.Collect(maps.Keys(n.slow)); len(slow) != min(1, len(want)) || len(slow) > 0 && slow[0] != want {
		t.Errorf("known to be slow: %v, want %q", n.slow, want)
	}
}

// An agent that takes more once another feeds it was not slow: the path to it was, or its parent gave it little.
func TestWhoTakesMoreElsewhereIsNotSlow(t *testing.T) {
	n := chain(t, 3000*megabyte, 0, 10*megabyte, megabyte, 10*megabyte, 10*megabyte, 10*megabyte)
	n.run(60 * time.Second)
	n.wantMoves(t, "a01")
	n.wantSlow(t, "a01")
	n.run(30 * time.Second)
	n.wantSlow(t, "a01")
	n.down["a01"] = 10 * megabyte
	n.run(10 * time.Second)
	n.wantSlow(t, "")
}

// What was found is told once: otherwise a caller that remembers it for a while would do so as long as the delivery lasts.
func TestSlownessIsToldOnce(t *testing.T) {
	n := chain(t, 1000*megabyte, 0, 10*megabyte, megabyte, 10*megabyte, 10*megabyte, 10*megabyte)
	n.run(60 * time.Second)
	n.wantSlow(t, "a01")
	clear(n.slow)
	n.run(30 * time.Second)
	n.wantSlow(t, "")
}

// An agent that says nothing for a while, because its stream to the manager stands, is not behind for that.
func TestSilenceIsNotLag(t *testing.T) {
	for _, who := range []string{"a00", "a01"} {
		n := chain(t, 3000*megabyte, 1000*megabyte, slices.Repeat([]uint64{20 * megabyte}, 4)...)
		n.run(5 * time.Second)
		for name := range n.down { // all took more at first
			n.down[name] = 10 * megabyte
		}
		for at := 20 * time.Second; at < 100*time.Second; at += 20 * time.Second {
			n.run(20 * time.Second)
			n.silent[who] = n.now.Add(8 * time.Second)
		}
		n.wantMoves(t)
	}
}

// What an agent took once does not count for ever: after ten minutes its children are compared with what it has taken since.
func TestBestRatesAreForgotten(t *testing.T) {
	n := chain(t, 30_000*megabyte, 1000*megabyte, slices.Repeat([]uint64{20 * megabyte}, 4)...)
	atRate := func(rate uint64, long time.Duration, names ...string) {
		for _, name := range names {
			n.down[name] = rate
		}
		n.run(long)
	}
	atRate(20*megabyte, 5*time.Second, "a00", "a01", "a02", "a03")
	atRate(10*megabyte, 11*time.Minute, "a00", "a01", "a02", "a03")
	atRate(0, 3*time.Second, "a01") // much waits for it then
	atRate(10*megabyte, time.Minute, "a01")
	n.wantMoves(t)
}

// An agent that takes as much as the one above it stays, though much waits for it from when slow ones were above it.
func TestSeveralSlowAgents(t *testing.T) {
	n := chain(t, 2000*megabyte, 0, 10*megabyte, megabyte, 2*megabyte, 10*megabyte, 10*megabyte, 10*megabyte)
	n.run(210 * time.Second)
	n.wantMoves(t, "a01", "a02")
	for _, name := range []string{"a03", "a04", "a05"} {
		if n.bytes[name] != n.length {
			t.Errorf("%s has %d bytes of %d", name, n.bytes[name], n.length)
		}
	}
}

// "No node moves twice within its hysteresis time", however its link changes, and the tree stays valid.
func TestOscillatingLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.SampledFrom([]uint64{megabyte, 5 * megabyte, 10 * megabyte}), 2, 8).Draw(t, "rates")
		n := chain(t, 600*megabyte, 0, rates...)
		for n.now.Before(time.Unix(120, 0)) && !n.done() {
			n.run(time.Duration(rapid.IntRange(1, 10).Draw(t, "seconds")) * time.Second)
			changed := fmt.Sprintf("a%02d", rapid.IntRange(0, len(rates)-1).Draw(t, "changed"))
			n.down[changed] = rapid.SampledFrom([]uint64{megabyte, 5 * megabyte, 10 * megabyte}).Draw(t, "rate")
			if err := n.t.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		n.checkRests(t)
	})
}

// checkRests checks that nobody has moved twice within its hysteresis time. Two agents that change places have both moved. Only what ends that
// comes sooner: the agent that went below goes back, so that both move again, or to the bottom.
func (n *network) checkRests(t rapid.TB) {
	t.Helper()
	last := map[string]int{}
	for i, move := range n.moves {
		for _, name := range move.Moving() {
			before, again := last[name]
			if last[name] = i; !again || n.moved[i].Sub(n.moved[before]) >= 30*time.Second {
				continue
			}
			swap, ends := n.moves[before], move.Why == reshape.GivesSlowly || move.Why == reshape.TakesSlowly
			if !ends || swap.Why != reshape.Tries || swap.Node != move.Parent || swap.Parent != move.Node {
				t.Fatalf("%s moved twice within %v: %+v, %+v", name, n.moved[i].Sub(n.moved[before]), swap, move)
			}
		}
	}
}

// An agent that was tried in the place of another, and is back below it, rests from then on like that one.
func TestWhoWasTriedRestsToo(t *testing.T) {
	n := chain(t, 600*megabyte, 0, megabyte, megabyte, 5*megabyte, megabyte, megabyte, megabyte)
	for _, next := range []struct {
		long time.Duration
		name string
		rate uint64
	}{
		{time.Second, "a03", 5 * megabyte},
		{13 * time.Second, "a00", 5 * megabyte},
		{4 * time.Second, "a02", megabyte},
		{3 * time.Second, "a03", megabyte},
		{8 * time.Second, "a00", megabyte},
	} {
		n.run(next.long)
		n.down[next.name] = next.rate
	}
	n.run(90 * time.Second)
	n.checkRests(t)
	n.wantMoves(t, "a01", "a04", "a02", "a03", "a00", "a05", "a03")
}

// random returns a chain of agents whose links take one of three rates.
func random(t *testing.T, source *rand.Rand) *network {
	rates := make([]uint64, 2+source.IntN(7))
	for i := range rates {
		rates[i] = []uint64{megabyte, 5 * megabyte, 10 * megabyte}[source.IntN(3)]
	}
	return chain(t, 600*megabyte, 0, rates...)
}

// If links stay as they are, moves are worth it: for each agent that is done much later than without moves, many are done
// much earlier. It is not promised that no agent is later: what an agent gives to others is not known before it is tried.
func TestMovesHelpManyMoreThanTheyHarm(t *testing.T) {
	const seed, much = 1, 30 * time.Second
	earlier, later := 0, 0
	for i := range uint64(150) {
		moving, still := random(t, rand.New(rand.NewPCG(seed, i))), random(t, rand.New(rand.NewPCG(seed, i)))
		still.stays = true
		for _, n := range []*network{moving, still} {
			if n.run(20 * time.Minute); !n.done() {
				t.Fatalf("network %d of seed %d: not all have all: %v", i, seed, n.bytes)
			}
		}
		for name := range moving.down {
			switch gain := still.ended[name].Sub(moving.ended[name]); {
			case gain > much:
				earlier++
			case gain < -much:
				later++
			}
		}
	}
	t.Logf("%d agents have all more than %v earlier than without moves, %d later", earlier, much, later)
	if earlier < 50 || earlier < 10*later {
		t.Errorf("%d agents have all more than %v earlier than without moves, and %d later", earlier, much, later)
	}
}

// If the next agent takes less than the one that moved, that says nothing of the agent above, of which the moved one took more: the
// next one goes below again.
func TestSlowerHeirGoesBelowAgain(t *testing.T) {
	n := chain(t, 600*megabyte, 0, 10*megabyte, 5*megabyte, megabyte)
	n.run(time.Hour)
	n.wantMoves(t, "a01", "a02")
	if got := n.t.Path("a01"); len(got) != 3 {
		t.Errorf("a01 is fed over %v", got)
	}
	if took := n.ended["a01"].Sub(time.Unix(0, 0)); took > 150*time.Second {
		t.Errorf("a01 has all after %v, and could after 120 s", took)
	}
}
