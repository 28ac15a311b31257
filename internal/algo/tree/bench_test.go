package tree_test

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// computers gives trees of 500, 5000 and 100,000 nodes.
var computers = []int{250, 2500, 50_000}

func BenchmarkBuild(b *testing.B) {
	for _, count := range computers {
		nodes, rtt := zones(count, max(10, count/100))
		b.Run(fmt.Sprint(len(nodes)), func(b *testing.B) {
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

func BenchmarkRepair(b *testing.B) {
	for _, count := range computers {
		nodes, rtt := zones(count, max(10, count/100))
		built := build(b, "m-node-0000", nodes, tree.Bound{RTT: rtt})
		b.Run(fmt.Sprint("without-gateway/", len(nodes)), func(b *testing.B) {
			for b.Loop() {
				if _, err := built.Without("node-0001"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("with/", len(nodes)), func(b *testing.B) {
			for b.Loop() {
				if _, err := built.With(member("late", nodes[2].Cluster, "")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
