package tree_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// cables is a small network as it is laid: each node is where some cables meet, and bytes go the shortest way.
type cables struct {
	network
	ways map[[2]string][]int // the cables on the way from one node to another; each direction of a cable has a number of its own
	time map[[2]string]time.Duration
}

// lay returns a network of up to 8 nodes at the corners of a random graph, all round trips measured.
func lay(source *rand.Rand) cables {
	c := cables{random(source, false), map[[2]string][]int{}, map[[2]string]time.Duration{}}
	name := func(i int) string { return c.nodes[i].Name }
	cable := 0
	join := func(a, b int) {
		delay := time.Millisecond + time.Duration(source.Int64N(int64(50*time.Millisecond)))
		for _, way := range [][2]string{{name(a), name(b)}, {name(b), name(a)}} {
			if _, known := c.time[way]; !known {
				c.ways[way], c.time[way] = []int{cable}, delay
				cable++
			}
		}
	}
	for i := range c.nodes {
		c.nodes[i].Cluster = ""
		if i > 0 {
			join(i, source.IntN(i))
		}
	}
	for range len(c.nodes) / 2 {
		if a, b := source.IntN(len(c.nodes)), source.IntN(len(c.nodes)); a != b {
			join(a, b)
		}
	}
	for over := range c.nodes {
		for a := range c.nodes {
			for b := range c.nodes {
				there, on := [2]string{name(a), name(over)}, [2]string{name(over), name(b)}
				way := [2]string{name(a), name(b)}
				sum := c.time[there] + c.time[on]
				if c.time[there] == 0 || c.time[on] == 0 || a == b || c.time[way] != 0 && c.time[way] <= sum {
					continue
				}
				c.time[way], c.ways[way] = sum, append(append([]int{}, c.ways[there]...), c.ways[on]...)
			}
		}
	}
	for way, delay := range c.time {
		c.bound.RTT.Nodes[tree.Pair{A: way[0], B: way[1]}] = 2 * delay
	}
	return c
}

// strain returns the number of copies on the busiest cable, and the mean factor by which the way to a member is
// longer than by unicast.
func (c cables) strain(parent map[string]string) (stress int, stretch float64) {
	var copies [64]int
	members := 0
	for _, node := range c.nodes[1:] {
		for _, cable := range c.ways[[2]string{parent[node.Name], node.Name}] {
			copies[cable]++
			stress = max(stress, copies[cable])
		}
		if node.Kind == tree.Member {
			took := time.Duration(0)
			for at := node.Name; at != c.sender; at = parent[at] {
				took += c.time[[2]string{parent[at], at}]
			}
			stretch += float64(took) / float64(c.time[[2]string{c.sender, node.Name}])
			members++
		}
	}
	return stress, stretch / float64(max(1, members))
}

// Stress and stretch of Build's trees are compared with the least that any tree has; Build minimizes neither for its own sake.
func TestCopiesAgainstTheOptimum(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 0))
	var stress, stretch, optimal float64
	worst := 0.0
	searched := 0
	for searched < *networksToSearch {
		c := lay(source)
		leastStress, leastStretch := 0, 0.0
		c.each(func(parent map[string]string, _ time.Duration) {
			copies, longer := c.strain(parent)
			if leastStress == 0 || copies < leastStress {
				leastStress = copies
			}
			if leastStretch == 0 || longer < leastStretch {
				leastStretch = longer
			}
		})
		if leastStress == 0 || leastStretch == 0 {
			continue // no tree keeps the limit, or there is no member
		}
		built, err := tree.Build(c.sender, c.nodes, c.bound)
		if err != nil {
			t.Fatal(err)
		}
		copies, longer := c.strain(parents(built))
		searched++
		stress += float64(copies) / float64(leastStress)
		stretch += longer / leastStretch
		worst = max(worst, longer/leastStretch)
		optimal += float64(one(copies == leastStress))
	}
	n := float64(searched)
	said := fmt.Sprintf("%d networks: copies on a cable %.3f of the least, the least in %.3f; stretch %.3f of the least, %.2f at most", searched, stress/n, optimal/n, stretch/n, worst)
	t.Log(said)
	if stress/n > 1.5 || stretch/n > 1.3 {
		t.Error(said)
	}
}
