package cluster_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/cluster"
)

// plane is a network of sites in a plane: nodes of a site are near each other, and sites are far
// from each other. Every measurement has noise of its own.
type plane struct {
	*network
	random *rand.Rand
	site   map[string]int
	at     [][2]float64 // in milliseconds
}

// newPlane makes sites at random places, with so many nodes each.
func newPlane(t testing.TB, seed uint64, sites, each int) *plane {
	p := &plane{network: newNetwork(t), random: rand.New(rand.NewPCG(seed, 0)), site: make(map[string]int)}
	for site := range sites {
		p.at = append(p.at, [2]float64{p.random.Float64() * 100, p.random.Float64() * 100})
		for range each {
			name := fmt.Sprintf("n%04d", p.random.IntN(10000))
			if _, taken := p.site[name]; taken {
				continue
			}
			p.site[name] = site
			p.nodes = append(p.nodes, cluster.Node{Name: name})
		}
	}
	return p
}

// tries is how often a node tries before it says what it has measured.
const tries = 3

// measure returns what one node measures of another: never less than the path takes.
func (p *plane) measure(from, to string) time.Duration {
	a, b := p.at[p.site[from]], p.at[p.site[to]]
	x, y := a[0]-b[0], a[1]-b[1]
	rtt := time.Duration((x*x + y*y) / 100 * float64(ms))
	if p.site[from] != p.site[to] {
		rtt += 4 * ms
	}
	noise := p.random.ExpFloat64()
	for range tries - 1 {
		noise = min(noise, p.random.ExpFloat64())
	}
	return rtt + 100*time.Microsecond + time.Duration(noise*float64(500*time.Microsecond))
}

func nobody(string) bool { return false }

// round lets every node measure the nodes that it is told to measure, and finds the clusters. It returns the number of
// measurements.
func (p *plane) round() (measured int) {
	for _, node := range p.nodes {
		names, _ := p.found.Next(node.Name, p.times, nobody, p.now)
		for _, name := range names {
			p.say(node.Name, name, p.measure(node.Name, name))
		}
		measured += len(names)
	}
	p.now = p.now.Add(2 * time.Second)
	p.find()
	return measured
}

func (p *plane) find() {
	p.found = cluster.Find(p.nodes, p.times, threshold, p.found, p.now)
}

// wrong returns by how much there are too many clusters, and how many nodes are in a cluster with nodes of another site.
func (p *plane) wrong() (split, mixed int) {
	sites := make(map[int]bool)
	for _, site := range p.site {
		sites[site] = true
	}
	for _, names := range p.found.All() {
		for _, name := range names {
			if p.site[name] != p.site[names[0]] {
				mixed++
			}
		}
	}
	return len(p.found.All()) - len(sites), mixed
}

// If every node measures what it is told to, the sites are found in a few rounds, without measuring
// all pairs. At no time are nodes of two sites in one cluster.
func TestSitesAreFound(t *testing.T) {
	for _, size := range []struct {
		sites, each, rounds int
		seeds               uint64
	}{{2, 3, 3, 20}, {5, 8, 6, 10}, {20, 5, 10, 5}, {1, 100, 10, 2}, {50, 10, 12, 1}} {
		for seed := range size.seeds {
			p := newPlane(t, seed, size.sites, size.each)
			p.find()
			rounds, measured := 0, 0
			for split := 1; split > 0 && rounds < size.rounds; rounds++ {
				measured += p.round()
				var mixed int
				if split, mixed = p.wrong(); mixed > 0 {
					t.Fatalf("seed %d: %d nodes are in a cluster of another site", seed, mixed)
				}
			}
			if split, _ := p.wrong(); split != 0 {
				t.Errorf("seed %d: %d × %d: after %d rounds there are %d clusters too many", seed, size.sites, size.each, rounds, split)
			}
			t.Logf("%d × %d: %d rounds, %.1f measurements of each", size.sites, size.each, rounds, float64(measured)/float64(len(p.nodes)))
		}
	}
}

// A group that asks for a longer threshold than others has sites that are no farther from each other as one, though what nodes
// measure follows from the usual threshold.
func TestLongerThreshold(t *testing.T) {
	const longer = 20 * ms
	for seed := range uint64(5) {
		p := newPlane(t, seed, 4, 12)
		for site := range p.at { // three of them 5 to 8 ms from each other, and one far from these
			p.at[site] = [2]float64{float64(10*site + site/3*100), 0}
		}
		p.find()
		for range 12 {
			p.round()
		}
		if split, mixed := p.wrong(); split != 0 || mixed > 0 {
			t.Errorf("seed %d: at the usual one there are %d clusters too many, and %d nodes in one of another site", seed, split, mixed)
		}
		if all := cluster.Find(p.nodes, p.times, longer, nil, p.now).All(); len(all) != 2 {
			t.Errorf("seed %d: at %v there are %d clusters, want 2: %v", seed, longer, len(all), all)
		}
	}
}

// Noise moves nobody even if each node knows only some of the others, and the nodes that came first are gone.
func TestNoiseWhereAPartIsKnown(t *testing.T) {
	p := newPlane(t, 1, 1, 100)
	for p.find(); len(p.found.All()) > 1; {
		p.round()
	}
	slices.SortFunc(p.nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	p.nodes = p.nodes[20:]
	for range 10 {
		p.now = p.now.Add(cluster.Refresh)
		for _, node := range p.nodes {
			for other := range p.times.Of(node.Name, p.now) {
				p.say(node.Name, other, 2050*time.Microsecond+time.Duration(p.random.IntN(900))*time.Microsecond)
			}
		}
		if p.find(); len(p.found.All()) != 1 {
			t.Fatalf("one cluster became %d", len(p.found.All()))
		}
	}
}

// No node has to measure more at once than a round allows and, once everything is known, more than what is old.
func TestRoundsEnd(t *testing.T) {
	p := newPlane(t, 1, 5, 8)
	p.find()
	for range 30 {
		p.round()
	}
	before := p.now
	for _, node := range p.nodes {
		names, urgent := p.found.Next(node.Name, p.times, nobody, before)
		if urgent || len(names) > 0 && before.Sub(start) < cluster.Refresh {
			t.Errorf("%s is to measure %v, urgently: %v", node.Name, names, urgent)
		}
		if again, _ := p.found.Next(node.Name, p.times, nobody, before.Add(cluster.Refresh)); len(again) != cluster.Round {
			t.Errorf("%s is to measure %d again, want %d", node.Name, len(again), cluster.Round)
		}
	}
}

// scatter returns random nodes, some with labels, of which some pairs are measured, in random order.
func scatter(t testing.TB, random *rand.Rand) *network {
	n := newNetwork(t)
	for i := range 2 + random.IntN(8) {
		node := cluster.Node{Name: string(rune('a' + i))}
		if random.IntN(5) == 0 {
			node.Label = "zone-" + string(rune('x'+random.IntN(2)))
		}
		n.nodes = append(n.nodes, node)
	}
	for _, a := range n.nodes {
		for _, b := range n.nodes {
			if a.Name < b.Name && random.IntN(4) > 0 {
				n.near(a.Name, b.Name, time.Duration(1+random.IntN(4000))*time.Microsecond)
			}
		}
	}
	return n
}

// The definition in plain words: labels hold. No time between two nodes of a cluster that no label
// gives is longer than the threshold. And no two found clusters could be one, as far as all is
// known between them.
func TestClustersAreAsDefined(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := scatter(t, random)
		n.found = cluster.Find(n.nodes, n.times, threshold, nil, n.now)
		n.checkLabels(seed)
		n.checkWithin(seed)
		n.checkApart(seed)
		got := fmt.Sprint(n.found.All())
		random.Shuffle(len(n.nodes), func(i, j int) { n.nodes[i], n.nodes[j] = n.nodes[j], n.nodes[i] })
		if again := fmt.Sprint(cluster.Find(n.nodes, n.times, threshold, nil, n.now).All()); again != got {
			t.Errorf("seed %d: in another order %s, not %s", seed, again, got)
		}
		if still := fmt.Sprint(cluster.Find(n.nodes, n.times, threshold, n.found, n.now).All()); still != got {
			t.Errorf("seed %d: with nothing new %s, not %s", seed, still, got)
		}
	}
}

func (n *network) checkLabels(seed uint64) {
	for _, node := range n.nodes {
		if node.Label != "" && n.found.Of(node.Name) != node.Label {
			n.Errorf("seed %d: %s of %s is in %s", seed, node.Name, node.Label, n.found.Of(node.Name))
		}
	}
}

func (n *network) labelled(name string) bool {
	return slices.ContainsFunc(n.nodes, func(node cluster.Node) bool { return node.Name == name && node.Label != "" })
}

func (n *network) checkWithin(seed uint64) {
	for _, names := range n.found.All() {
		for i, a := range names {
			for _, b := range names[:i] {
				rtt, known := n.times.Between(a, b, n.now)
				if bound := !n.labelled(a) || !n.labelled(b); known && rtt > threshold && bound {
					n.Errorf("seed %d: %s and %s are together, %v apart", seed, a, b, rtt)
				}
			}
		}
	}
}

func (n *network) checkApart(seed uint64) {
	labels := slices.Sorted(maps.Keys(n.found.All()))
	for i, a := range labels {
		for _, b := range labels[:i] {
			if a[:1] == cluster.Mark && b[:1] == cluster.Mark && n.couldBeOne(n.found.All()[a], n.found.All()[b]) {
				n.Errorf("seed %d: %s and %s could be one", seed, a, b)
			}
		}
	}
}

func (n *network) couldBeOne(a, b []string) bool {
	for _, one := range a {
		for _, other := range b {
			if rtt, known := n.times.Between(one, other, n.now); !known || rtt > threshold {
				return false
			}
		}
	}
	return true
}

func BenchmarkFind500(b *testing.B) {
	p := newPlane(b, 1, 50, 10)
	p.find()
	for range 15 {
		p.round()
	}
	for b.Loop() {
		p.find()
	}
}

func BenchmarkNext500(b *testing.B) {
	p := newPlane(b, 1, 50, 10)
	p.find()
	for range 5 {
		p.round()
	}
	for b.Loop() {
		p.found.Next(p.nodes[0].Name, p.times, nobody, p.now)
	}
}
