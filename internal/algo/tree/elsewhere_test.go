package tree_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// A member goes to another agent of its cluster or, if there is none, to an agent of another cluster; nobody else moves.
func TestElsewhere(t *testing.T) {
	nodes := []tree.Node{member("s", "x", ""), agent("a", "x", 3), agent("b", "y", 2), agent("b2", "y", 1), member("m", "y", "b")}
	now := build(t, "s", nodes, tree.Bound{})
	for _, want := range []string{"b", "b2", "b"} {
		if parent, _ := now.Parent("m"); parent != want {
			t.Fatalf("m is fed by %s, want %s\n%v", parent, want, now)
		}
		var err error
		if now, err = now.Elsewhere("m"); err != nil {
			t.Fatal(err)
		}
	}
	alone := build(t, "s", slices.DeleteFunc(nodes, func(n tree.Node) bool { return n.Name == "b2" }), tree.Bound{})
	after, err := alone.Elsewhere("m")
	if err != nil {
		t.Fatal(err)
	}
	if parent, _ := after.Parent("m"); parent != "a" {
		t.Errorf("m is fed by %s, want the other cluster's\n%v", parent, after)
	}
	for _, name := range []string{"s", "a", "nobody"} {
		if _, err := alone.Elsewhere(name); err == nil {
			t.Errorf("%s went elsewhere", name)
		}
	}
	only := build(t, "s", []tree.Node{member("s", "x", ""), agent("a", "x", 3), member("m", "x", "a")}, tree.Bound{})
	var full *tree.FanOutError
	if _, err := only.Elsewhere("m"); !errors.As(err, &full) {
		t.Errorf("%v, want no room where there is no other", err)
	}
}

func TestElsewhereKeepsTheRules(t *testing.T) {
	moves := 0
	rapid.Check(t, func(t *rapid.T) {
		network := drawNetwork(t, 12)
		before := network.build(t)
		drawn := before.String()
		for _, node := range network.nodes {
			after, err := before.Elsewhere(node.Name)
			if err != nil {
				continue
			}
			moves++
			if err := after.Validate(); err != nil {
				t.Fatal(err)
			}
			from, _ := before.Parent(node.Name)
			if to, _ := after.Parent(node.Name); to == from || !slices.Equal(moved(before, after), []string{node.Name}) {
				t.Fatalf("%s went from %s to %s; %v moved", node.Name, from, to, moved(before, after))
			}
		}
		if before.String() != drawn {
			t.Fatal("the tree before changed")
		}
	})
	if moves == 0 {
		t.Error("nobody ever moved")
	}
}
