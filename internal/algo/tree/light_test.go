package tree

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Trees that are given the same shared RTTs hold them together.
func TestTreesShareRTTs(t *testing.T) {
	s, m := Node{Name: "s"}, Node{Name: "m"}
	rtt := RTTs{Nodes: map[Pair]time.Duration{{"s", "m"}: time.Millisecond}}
	shared := rtt.Shared()
	built, err := Build("s", []Node{s, m}, Bound{RTT: shared})
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(built.Links(), Bound{RTT: shared})
	if err != nil {
		t.Fatal(err)
	}
	for how, other := range map[string]*Tree{"restored": restored, "measured": built.Measured(rtt).Measured(shared)} {
		if other.dist != built.dist {
			t.Errorf("%s it holds its own", how)
		}
	}
}

// A light tree says of its nodes what the whole one does. With the RTTs again, it changes as the whole one does.
func TestLightIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := drawTree(t)
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			whole = change(t, whole)
		}
		light := whole.Light()
		if held := len(light.dist.nodes) + len(light.dist.clusters); held >= whole.Len() {
			t.Fatalf("a tree of %d nodes holds %d times", whole.Len(), held)
		}
		if light.String() != whole.String() {
			t.Fatalf("the tree is\n%s\nlight it is\n%s", whole, light)
		}
		for _, name := range whole.Names() {
			if light.Why(name) != whole.Why(name) {
				t.Fatalf("%s: %s\nlight: %s", name, whole.Why(name), light.Why(name))
			}
		}
		joins := drawNode(t, "joins", Member)
		with, err := whole.With(joins)
		again, lightErr := light.Measured(whole.bound.RTT).With(joins)
		if err != nil || lightErr != nil {
			t.Fatal(err, lightErr)
		}
		if with.String() != again.String() {
			t.Fatalf("with another it is\n%s\nfrom the light one\n%s", with, again)
		}
	})
}
