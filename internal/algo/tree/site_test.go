package tree

import (
	"fmt"
	"testing"
)

// A stream goes on for months. Nodes come and go with ever new labels: those that nobody has any more make no change take longer.
func TestLabelsOfNobodyAreForgotten(t *testing.T) {
	now, err := Build("s", []Node{{Name: "s"}, {Name: "a", Kind: Agent, Cluster: "x"}, {Name: "m", Cluster: "x"}}, Bound{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		label := fmt.Sprint("~", i)
		for _, node := range []Node{{Name: "b", Kind: Agent, Cluster: label}, {Name: "n", Cluster: label + "/r"}, {Name: "o", Cluster: label + "/q", Agent: "b"}} {
			if now, err = now.With(node); err != nil {
				t.Fatal(err)
			}
		}
		for _, gone := range []string{"o", "n", "b"} {
			if now, err = now.Without(gone); err != nil {
				t.Fatal(err)
			}
		}
	}
	if now.sites.length > 6 || now.labels.count != 2 {
		t.Errorf("%d labels have %d sites, want 2 that have 6 at most", now.labels.count, now.sites.length)
	}
}
