package tree_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// A tree that was written down is the same when it is read again.
func TestRestoreIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNetwork(t, 20)
		n.bound.FanOut = 0
		built := n.build(t)
		restored, err := tree.Restore(built.Links(), n.bound)
		if err != nil {
			t.Fatal(err)
		}
		if restored.String() != built.String() {
			t.Fatalf("restored as\n%s\nwant\n%s", restored, built)
		}
		node := drawNode(t, "another", tree.Member)
		one, errOne := built.With(node)
		two, errTwo := restored.With(node)
		if (errOne == nil) != (errTwo == nil) || errOne == nil && one.String() != two.String() {
			t.Fatalf("with another node\n%s (%v)\nwant\n%s (%v)", two, errTwo, one, errOne)
		}
	})
}

func TestRestoreRefusesDisorder(t *testing.T) {
	sender := tree.Link{Node: tree.Node{Name: "s"}}
	agent := tree.Link{Node: tree.Node{Name: "a", Kind: tree.Agent}, Parent: "s"}
	member := tree.Link{Node: tree.Node{Name: "m"}, Parent: "a"}
	for name, links := range map[string][]tree.Link{
		"nothing":                   nil,
		"a child before its parent": {sender, member, agent},
		"an unknown parent":         {sender, member},
		"a node twice":              {sender, agent, agent},
		"a loop":                    {sender, {Node: tree.Node{Name: "a", Kind: tree.Agent}, Parent: "a"}},
		"a member that feeds":       {sender, agent, member, {Node: tree.Node{Name: "n"}, Parent: "m"}},
	} {
		if restored, err := tree.Restore(links, tree.Bound{}); err == nil {
			t.Errorf("%s was restored as\n%s", name, restored)
		}
	}
	if _, err := tree.Restore(slices.Clone([]tree.Link{sender, agent, member}), tree.Bound{}); err != nil {
		t.Error(err)
	}
}
