package tree_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// computers are the sizes of the trees: two nodes for each, so 500, 5000 and 100,000 nodes.
var computers = []int{250, 2500, 50_000}

func BenchmarkBuild(b *testing.B) {
	for _, count := range computers {
		nodes, rtt := zones(count, max(10, count/100))
		b.Run(fmt.Sprint(len(nodes)), func(b *testing.B) {
			b.ReportAllocs() // all of it together bounds what is in use at once
			for b.Loop() {
				build(b, "m-node-0000", nodes, tree.Bound{RTT: rtt})
			}
		})
		if count > 2500 {
			continue // without any cluster, that is no network
		}
		for i := range nodes {
			nodes[i].Cluster = ""
		}
		b.Run(fmt.Sprint(len(nodes), "/without-clusters"), func(b *testing.B) {
			for b.Loop() {
				build(b, "m-node-0000", nodes, tree.Bound{})
			}
		})
	}
}

// BenchmarkChange measures what happens to a tree while data flows: one death, move or join.
func BenchmarkChange(b *testing.B) {
	for _, count := range computers {
		nodes, rtt := zones(count, max(10, count/100))
		built := build(b, "m-node-0000", nodes, tree.Bound{RTT: rtt})
		at := newCast(b, built)
		for _, change := range []struct {
			name string
			make func() (*tree.Tree, error)
		}{
			{"death of an agent", func() (*tree.Tree, error) { return built.Without(at.inner) }},
			{"death of a gateway", func() (*tree.Tree, error) { return built.Without(at.gateway) }},
			{"death of the ingress", func() (*tree.Tree, error) { return built.Without(at.ingress) }},
			{"death of a member", func() (*tree.Tree, error) { return built.Without("m-" + at.inner) }},
			{"move", func() (*tree.Tree, error) { return built.Lower(at.inner, 1) }},
			{"move of a gateway", func() (*tree.Tree, error) { return built.Lower(at.gateway, 1) }},
			{"rejoin", func() (*tree.Tree, error) { return at.without.With(at.back) }},
			{"join of a member", func() (*tree.Tree, error) { return built.With(member("late", at.back.Cluster, "")) }},
			{"join from outside", func() (*tree.Tree, error) { return built.With(member("late", "", "")) }},
		} {
			b.Run(fmt.Sprint(change.name, "/", len(nodes)), func(b *testing.B) {
				for b.Loop() {
					if _, err := change.make(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// cast is a tree with the nodes to which something happens: an agent in the middle of its cluster
// that feeds others, a gateway that feeds another cluster's, and the ingress.
type cast struct {
	inner, gateway, ingress string
	without                 *tree.Tree // the inner agent
	back                    tree.Node
}

func newCast(b testing.TB, built *tree.Tree) cast {
	c := cast{ingress: first(built.Children(built.Sender()))}
	for _, name := range built.Names() {
		node, _ := built.Node(name)
		up, _ := built.Parent(name)
		parent, _ := built.Node(up)
		if node.Kind != tree.Agent || parent.Kind != tree.Agent {
			continue
		}
		inside, entries := 0, 0
		for _, child := range built.Children(name) {
			fed, _ := built.Node(child)
			inside += one(fed.Kind == tree.Agent && fed.Cluster == node.Cluster)
			entries += one(fed.Cluster != node.Cluster)
		}
		if c.inner == "" && parent.Cluster == node.Cluster && inside > 1 && entries == 0 {
			c.inner = name
		}
		if c.gateway == "" && parent.Cluster != node.Cluster && inside > 0 && entries > 0 {
			c.gateway = name
		}
	}
	without, err := built.Without(c.inner)
	if err != nil {
		b.Fatal(err)
	}
	c.without = without
	c.back, _ = built.Node(c.inner)
	return c
}

// BenchmarkLook looks for a better parent for every node of a tree.
func BenchmarkLook(b *testing.B) {
	for _, count := range computers {
		nodes, rtt := zones(count, max(10, count/100))
		built := build(b, "m-node-0000", nodes, tree.Bound{RTT: rtt})
		b.Run(fmt.Sprint(len(nodes)), func(b *testing.B) {
			for b.Loop() {
				for _, node := range nodes {
					built.Nearer(node)
				}
			}
		})
	}
}
