package tree_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// internet is a network of the transit-stub kind: domains of routers that are joined and, at each
// router, some stubs. A stub is a router with computers around it.
type internet struct {
	delay [][]time.Duration // between routers that have a link, one way
	next  [][]int           // the next router on the way from one to another
	stubs []int             // routers with computers
	at    map[string]int    // the router of each computer
}

const (
	domains, routersEach, stubsEach, computersEach = 4, 4, 3, 20

	lanDelay = 500 * time.Microsecond
)

// transitStub returns a network of nearly a thousand computers.
func transitStub(seed uint64) *internet {
	source := rand.New(rand.NewPCG(seed, 0))
	transit := domains * routersEach
	n := &internet{at: map[string]int{}}
	for range transit * (1 + stubsEach) {
		n.delay = append(n.delay, make([]time.Duration, transit*(1+stubsEach)))
	}
	join := func(a, b int, least, most time.Duration) {
		delay := least + time.Duration(source.Int64N(int64(most-least)))
		n.delay[a][b], n.delay[b][a] = delay, delay
	}
	for router := range transit {
		domain, inside := router/routersEach, router%routersEach
		join(router, domain*routersEach+(inside+1)%routersEach, 5*time.Millisecond, 20*time.Millisecond)
		for other := range domain {
			if inside == 0 {
				join(router, other*routersEach+source.IntN(routersEach), 20*time.Millisecond, 60*time.Millisecond)
			}
		}
		for range stubsEach {
			stub := transit + len(n.stubs)
			n.stubs = append(n.stubs, stub)
			join(router, stub, time.Millisecond, 5*time.Millisecond)
			for i := range computersEach {
				n.at[fmt.Sprintf("s%02d-%02d", len(n.stubs), i)] = stub
			}
		}
	}
	n.findRoutes()
	return n
}

// findRoutes finds the shortest way between any two routers.
func (n *internet) findRoutes() {
	count := len(n.delay)
	shortest := make([][]time.Duration, count)
	n.next = make([][]int, count)
	for a := range count {
		shortest[a], n.next[a] = slices.Clone(n.delay[a]), make([]int, count)
		for b := range count {
			n.next[a][b] = b
		}
	}
	for over := range count {
		for a := range count {
			for b := range count {
				if shortest[a][over] == 0 || shortest[over][b] == 0 || a == b {
					continue
				}
				if sum := shortest[a][over] + shortest[over][b]; shortest[a][b] == 0 || sum < shortest[a][b] {
					shortest[a][b], n.next[a][b] = sum, n.next[a][over]
				}
			}
		}
	}
}

// walk goes from one computer to another and calls link for each link on the way.
func (n *internet) walk(from, to string, link func(a, b string, delay time.Duration)) {
	if from == to {
		return
	}
	name := func(router int) string { return fmt.Sprint("r", router) }
	link(from, name(n.at[from]), lanDelay)
	for at := n.at[from]; at != n.at[to]; {
		next := n.next[at][n.at[to]]
		link(name(at), name(next), n.delay[at][next])
		at = next
	}
	link(name(n.at[to]), to, lanDelay)
}

// nodes returns an agent and a member on each computer, and the measured times between stubs, which are the clusters.
func (n *internet) nodes() (nodes []tree.Node, rtt tree.RTTs) {
	rtt.Clusters = map[tree.Pair]time.Duration{}
	for computer, stub := range n.at {
		cluster := fmt.Sprint("stub-", stub)
		nodes = append(nodes, agent(computer, cluster, gigabit), member("m-"+computer, cluster, computer))
		for other, far := range n.at {
			pair := tree.Pair{A: cluster, B: fmt.Sprint("stub-", far)}
			if _, known := rtt.Clusters[pair]; !known && other != computer {
				n.walk(computer, other, func(_, _ string, delay time.Duration) { rtt.Clusters[pair] += 2 * delay })
			}
		}
	}
	return nodes, rtt
}

// strain is what an arrangement asks of a network.
type strain struct {
	worst, mean float64 // stretch: the time to a computer, divided by that of unicast
	most        int     // stress: the number of copies on the busiest link
	trunk       int     // the same for links between routers
	total       time.Duration
	depth       int
}

// strain sends one copy along each edge of an arrangement.
func (n *internet) strain(sender string, parent map[string]string) (s strain) {
	copies, sum := map[string]int{}, 0.0
	for computer := range n.at {
		if up, fed := parent[computer]; fed {
			n.walk(up, computer, func(a, b string, delay time.Duration) {
				copies[a+">"+b]++
				s.most = max(s.most, copies[a+">"+b])
				if strings.HasPrefix(a, "r") && strings.HasPrefix(b, "r") {
					s.trunk = max(s.trunk, copies[a+">"+b])
				}
				s.total += delay
			})
		}
		var took, direct time.Duration
		hops := 0
		for at := computer; at != sender; at = parent[at] {
			n.walk(parent[at], at, func(_, _ string, delay time.Duration) { took += delay })
			hops++
		}
		n.walk(sender, computer, func(_, _ string, delay time.Duration) { direct += delay })
		if computer != sender {
			stretch := float64(took) / float64(direct)
			sum, s.worst, s.depth = sum+stretch, max(s.worst, stretch), max(s.depth, hops)
		}
	}
	s.mean = sum / float64(len(n.at)-1)
	return s
}

// computers returns the parents of a tree's agents; the sender is at the ingress.
func computersOf(built *tree.Tree) map[string]string {
	parent := map[string]string{}
	for _, name := range built.Names() {
		node, _ := built.Node(name)
		if up, _ := built.Parent(name); node.Kind == tree.Agent && up != built.Sender() {
			parent[name] = up
		}
	}
	return parent
}

// randomTree gives each computer a random parent among the earlier computers that feed fewer than limit.
func (n *internet) randomTree(source *rand.Rand, sender string, limit int) map[string]string {
	names := []string{}
	for computer := range n.at {
		names = append(names, computer)
	}
	slices.Sort(names)
	source.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	at := slices.Index(names, sender)
	names[0], names[at] = names[at], names[0]
	parent, children := map[string]string{}, map[string]int{}
	for i, name := range names[1:] {
		for {
			if up := names[source.IntN(i+1)]; children[up] < limit {
				parent[name] = up
				children[up]++
				break
			}
		}
	}
	return parent
}

// strains is what several networks come to with one kind of tree.
type strains []strain

// table adds a row to a table: means over the networks, and the worst of all.
func (s strains) table(w io.Writer, name string) {
	var depth, most, trunk int
	var mean, worst, total float64
	for _, one := range s {
		depth, most, trunk = max(depth, one.depth), max(most, one.most), max(trunk, one.trunk)
		mean, worst, total = mean+one.mean, max(worst, one.worst), total+one.total.Seconds()
	}
	n := float64(len(s))
	fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%d\t%d\t%.1f\t\n", name, depth, mean/n, worst, most, trunk, total/n)
}

// "Minimize duplicate packets along router-to-router links which are more costly" (002 §3.1.2):
// trees are compared with a star, in which the sender feeds all, and with a random tree, on several networks.
func TestStretchAndStress(t *testing.T) {
	const networks, sender = 8, "s01-00"
	names := []string{"a stream", "100 KB", "10 MB", "1 GB", "random tree, 3 each", "star"}
	loads := []tree.Load{{}, {Bytes: 100_000}, {Bytes: 10_000_000}, {Bytes: 1_000_000_000}}
	all := make([]strains, len(names))
	computers := 0
	for seed := uint64(1); seed <= networks; seed++ {
		n := transitStub(seed)
		computers += len(n.at)
		nodes, rtt := n.nodes()
		feedsAll := map[string]string{}
		for computer := range n.at {
			if computer != sender {
				feedsAll[computer] = sender
			}
		}
		var rows strains
		for _, load := range loads {
			rows = append(rows, n.strain(sender, computersOf(build(t, "m-"+sender, nodes, tree.Bound{RTT: rtt, Load: load}))))
		}
		random, star := n.strain(sender, n.randomTree(rand.New(rand.NewPCG(seed, 1)), sender, 3)), n.strain(sender, feedsAll)
		for i, r := range rows {
			if r.trunk*10 > star.trunk || r.total*10 > star.total || r.trunk >= random.trunk || r.mean >= random.mean {
				t.Errorf("network %d, %s: %+v, the star %+v, the random tree %+v", seed, names[i], r, star, random)
			}
			if isChain := i == len(loads)-1; !isChain && (r.mean > 1.5 || r.worst > 8 || r.depth > 24) { // a chain has few copies and long paths
				t.Errorf("network %d, %s: %+v, want a path to each that is little longer than the shortest", seed, names[i], r)
			}
		}
		for i, r := range append(rows, random, star) {
			all[i] = append(all[i], r)
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tdepth, most\tmean stretch\tworst\tcopies on a link, most\tbetween routers, most\tlink seconds, mean\t")
	for i, name := range names {
		all[i].table(w, name)
	}
	w.Flush()
	t.Logf("%d networks, %d computers each\n%s", networks, computers/networks, &table)
}
