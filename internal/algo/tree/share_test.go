package tree

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawTree draws a tree of a few clusters, and of agents and members without one.
func drawTree(t *rapid.T) *Tree {
	nodes := []Node{drawNode(t, "s", Member)}
	for i := range rapid.IntRange(0, 60).Draw(t, "others") {
		nodes = append(nodes, drawNode(t, fmt.Sprintf("n%02d", i), Kind(rapid.IntRange(0, 1).Draw(t, "kind"))))
	}
	bound := Bound{RTT: drawTimes(t, nodes), Load: Load{Bytes: rapid.SampledFrom([]uint64{0, 1 << 20, 1 << 40}).Draw(t, "load")}}
	built, err := Build("s", nodes, bound)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func drawNode(t *rapid.T, name string, kind Kind) Node {
	return Node{
		Name: name, Kind: kind, Cluster: rapid.SampledFrom([]string{"", "x", "y", "z", "w"}).Draw(t, "cluster"),
		Uplink: rapid.Uint64Range(0, 3).Draw(t, "uplink"), Agent: rapid.SampledFrom([]string{"", "", "n00", "n01", "n02"}).Draw(t, "beside"),
	}
}

func drawTimes(t *rapid.T, nodes []Node) RTTs {
	rtt := RTTs{Nodes: map[Pair]time.Duration{}, Clusters: map[Pair]time.Duration{}}
	labels := []string{"x", "y", "z", "w"}
	for range rapid.IntRange(0, 20).Draw(t, "times") {
		a, b := rapid.SampledFrom(nodes).Draw(t, "a"), rapid.SampledFrom(nodes).Draw(t, "b")
		rtt.Nodes[Pair{a.Name, b.Name}] = time.Duration(rapid.IntRange(0, 5).Draw(t, "time"))
		rtt.Clusters[Pair{rapid.SampledFrom(labels).Draw(t, "c"), rapid.SampledFrom(labels).Draw(t, "d")}] = time.Duration(rapid.IntRange(0, 5).Draw(t, "time"))
	}
	return rtt
}

// change lets a node die, sink, have another uplink or join; where that is impossible it returns the tree as it is.
func change(t *rapid.T, before *Tree) *Tree {
	var after *Tree
	var err error
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0:
		after, err = before.Without(rapid.SampledFrom(before.Names()).Draw(t, "dead"))
	case 1:
		after, err = before.Lower(rapid.SampledFrom(before.Names()).Draw(t, "slow"), rapid.Uint64Range(0, 3).Draw(t, "rate"))
	case 2:
		after = before.Rated(map[string]uint64{rapid.SampledFrom(before.Names()).Draw(t, "rated"): rapid.Uint64Range(0, 3).Draw(t, "uplink")})
	case 3:
		node, _ := before.Node(rapid.SampledFrom(before.Names()).Draw(t, "moves"))
		if node.Kind == Member {
			node.Cluster = rapid.SampledFrom([]string{"", "x", "y", "z", "w", "v"}).Draw(t, "to")
		}
		if nearer, _, found := before.Nearer(node); found {
			after = nearer
			break
		}
		after = before
	default:
		name := rapid.StringMatching("n0[0-9]|j[0-9]{3}").Draw(t, "joins")
		after, err = before.With(drawNode(t, name, Kind(rapid.IntRange(0, 1).Draw(t, "kind"))))
	}
	if err != nil {
		return before
	}
	return after
}

// Versions of a tree share what they have in common, and no version shows what has changed in another.
func TestVersionsStayAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := []*Tree{drawTree(t)}
		drawn := []string{versions[0].String()}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			next := change(t, rapid.SampledFrom(versions).Draw(t, "of"))
			versions, drawn = append(versions, next), append(drawn, next.String())
		}
		for i, version := range versions {
			if got := version.String(); got != drawn[i] {
				t.Fatalf("version %d is\n%s\nand was\n%s", i, got, drawn[i])
			}
		}
	})
}

// After many changes, what a tree remembers of ways, links and sites is the same as if it were computed anew from who feeds whom.
func TestChangedIsAsFoundAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := drawTree(t)
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			now = change(t, now)
		}
		if got, want := now.String(), now.Measured(now.bound.RTT).String(); got != want {
			t.Fatalf("the tree is\n%s\nfound anew it is\n%s", got, want)
		}
		for _, p := range now.all() {
			links := 0
			for _, child := range p.children {
				links += rank(now.beside(child) != now.number(p.node.Name))
			}
			if p.links != links {
				t.Fatalf("%s is said to feed %d, and feeds %d", p.node.Name, p.links, links)
			}
		}
		labels := map[string]int{}
		for _, p := range now.all() {
			labels[p.node.Cluster]++
		}
		for number := range now.sites.length {
			wantSite(t, now, now.sites.at(number))
		}
		for label, nodes := range labels {
			if number, known := now.labels.find(label); !known || now.sites.at(number).nodes != nodes {
				t.Fatalf("%d nodes are of %q, and its site is number %d, with %d", nodes, label, number, now.sites.at(number).nodes)
			}
		}
		if now.labels.count != len(labels) {
			t.Fatalf("%d labels are known, and nodes have %d", now.labels.count, len(labels))
		}
	})
}

// wantSite compares what is remembered of a site with a look at all its agents.
func wantSite(t *rapid.T, now *Tree, s *site) {
	entries := map[int]bool{}
	for _, agent := range s.agents {
		entries[now.at(agent).entry] = true
	}
	if s.settled != (len(entries) == 1) {
		t.Fatalf("a site entered at %v is settled: %v", slices.Collect(maps.Keys(entries)), s.settled)
	}
	for _, agent := range s.agents {
		if !s.settled {
			return
		}
		if s.full && now.excess(agent) == 0 {
			t.Fatalf("%s has room, and its site is said to have none", now.at(agent).node.Name)
		}
		if now.comparePlaces(agent, s.best) < 0 {
			t.Fatalf("%s is better than %s", now.at(agent).node.Name, now.at(s.best).node.Name)
		}
	}
}

// The best parent found by looking at one agent of each site is also the best of all agents.
func TestCandidatesHoldTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := drawTree(t)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			now = change(t, now)
		}
		now.fanOut = rapid.IntRange(1, 3).Draw(t, "fan-out")
		for number := range now.sites.length {
			now.unsettle(number)
		}
		now = now.done()
		with := now.next()
		at := with.add(drawNode(t, "late", Kind(rapid.IntRange(0, 1).Draw(t, "kind"))))
		with.goBeside(at)
		r := with.repair()
		if !r.anyFed() {
			return
		}
		for _, by := range []choice{total, nearest} {
			got, want := r.best(r.withRoom(r.candidates(at)), at, by), r.best(r.withRoom(r.parents(at)), at, by)
			if got != want {
				t.Fatalf("%+v is chosen, and the best is %+v\n%v", got, want, now)
			}
		}
	})
}

// Differing names exactly the nodes whose neighbours have changed.
func TestDiffering(t *testing.T) {
	neighbours := func(of *Tree, name string) string {
		if _, known := of.index.find(name); !known {
			return "none"
		}
		parent, _ := of.Parent(name)
		return fmt.Sprint(parent, of.Children(name))
	}
	rapid.Check(t, func(t *rapid.T) {
		before := drawTree(t)
		after := before
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			after = change(t, after)
		}
		var want []string
		for _, name := range after.Names() {
			if neighbours(before, name) != neighbours(after, name) {
				want = append(want, name)
			}
		}
		got := after.Differing(before)
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Fatalf("%v differ, want %v", got, want)
		}
	})
}

// A directory holds the same as a map, in every edition.
func TestDirectory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			directory
			want map[string]int
		}
		now := version{newDirectory(0, 0), map[string]int{}}
		var all []version
		for edition := range uint64(rapid.IntRange(1, 20).Draw(t, "editions")) {
			now = version{directory{slices.Clone(now.shelves), now.count}, maps.Clone(now.want)}
			for range rapid.IntRange(0, 40).Draw(t, "changes") {
				name := fmt.Sprint(rapid.IntRange(0, 999).Draw(t, "name"))
				if _, known := now.want[name]; known {
					now.remove(edition+1, name)
					delete(now.want, name)
					continue
				}
				now.want[name] = len(all)
				now.put(edition+1, name, len(all))
			}
			all = append(all, now)
		}
		for _, v := range all {
			if v.count != len(v.want) {
				t.Fatalf("%d names, want %d", v.count, len(v.want))
			}
			for i := range 1000 {
				want, has := v.want[fmt.Sprint(i)]
				if got, found := v.find(fmt.Sprint(i)); found != has || got != want {
					t.Fatalf("%d is %d, %v, want %d, %v", i, got, found, want, has)
				}
			}
		}
	})
}
