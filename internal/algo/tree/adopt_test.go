package tree_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/groupcast/groupcast/internal/algo/tree"
)

// Without fails only if no choice of parents for the children of the dead node keeps the rules: the test tries all choices.
func TestWithoutFailsOnlyIfItMust(t *testing.T) {
	const seed = 1
	source := rand.New(rand.NewPCG(seed, 1))
	failed, repaired := 0, 0
	for range 60 * *networksToSearch {
		n := random(source, true)
		n.bound.FanOut = 1 + source.IntN(3)
		built, err := tree.Build(n.sender, n.nodes, n.bound)
		agents := n.agents()
		if err != nil || len(agents) == 0 {
			continue
		}
		dead := agents[source.IntN(len(agents))].Name
		_, err = built.Without(dead)
		var full *tree.FanOutError
		switch {
		case err == nil:
			repaired++
		case !errors.As(err, &full):
			t.Fatal(err)
		case n.repairable(built, dead):
			t.Fatalf("Without(%s) says %v, and there is a way:\n%v", dead, err, built)
		default:
			failed++
		}
	}
	if t.Logf("%d repaired, %d impossible", repaired, failed); failed == 0 || repaired == 0 {
		t.Error("the networks were all alike")
	}
}

// repairable reports whether some parents for the children of a dead agent keep the rules.
func (n network) repairable(built *tree.Tree, dead string) bool {
	left := network{sender: n.sender, bound: n.bound}
	for _, node := range n.nodes {
		if node.Name != dead {
			left.nodes = append(left.nodes, node)
		}
	}
	parent := parents(built)
	delete(parent, dead)
	delete(parent, n.sender)
	var try func(orphans []string) bool
	try = func(orphans []string) bool {
		if len(orphans) == 0 {
			_, keeps := left.judge(parent)
			return keeps
		}
		for _, up := range left.nodes {
			if up.Name != orphans[0] && (up.Name == n.sender || up.Kind == tree.Agent) {
				parent[orphans[0]] = up.Name
				if try(orphans[1:]) {
					return true
				}
			}
		}
		return false
	}
	return try(built.Children(dead))
}
