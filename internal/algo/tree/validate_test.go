package tree

import (
	"strings"
	"testing"
)

// Validate finds damage that no other function of the package would do to a tree.
func TestValidateFindsDamage(t *testing.T) {
	nodes := []Node{
		{Name: "s"},
		{Name: "m"},
		{Name: "n"},
		{Name: "a", Kind: Agent, Cluster: "x", Uplink: 3},
		{Name: "b", Kind: Agent, Cluster: "x", Uplink: 2},
		{Name: "c", Kind: Agent, Cluster: "y", Uplink: 1},
	}
	for want, damage := range map[string]func(*Tree){
		`"b" is reached 0 times`:                 func(d *Tree) { d.cut("b") },
		`"b" is reached 2 times`:                 func(d *Tree) { d.feed("c", "b") },
		`"a" is reached 2 times`:                 func(d *Tree) { d.feed("b", "a") },
		`"b" is among the children of "c", who`:  func(d *Tree) { d.cut("b"); d.feed("c", "b") },
		`the member "m" feeds others`:            func(d *Tree) { d.move("n", "m") },
		`the sender "s" feeds 2 agents`:          func(d *Tree) { d.move("c", "s") },
		`cluster "x" has two gateways`:           func(d *Tree) { d.move("b", "c") },
		`"c" feeds 5, and the limit is 4`:        func(d *Tree) { d.crowd("c", 5) },
		`"s" is reached 2 times`:                 func(d *Tree) { d.feed("b", "s") },
		`"m" is reached 3 times`:                 func(d *Tree) { d.feed("a", "m"); d.feed("b", "m") },
		`"n" is among the children of "a", who `: func(d *Tree) { d.cut("n"); d.move("n", "b"); d.feed("a", "n") },
	} {
		built, err := Build("s", nodes, Bound{FanOut: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := built.Validate(); err != nil {
			t.Fatal(err)
		}
		damage(built)
		if err := built.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate says %v, want %q", err, want)
		}
	}
}

func (t *Tree) number(name string) int {
	at, _ := t.index.find(name)
	return at
}

// feed adds a child to a parent; the child's own record stays as it was.
func (t *Tree) feed(parent, child string) {
	p := t.change(t.number(parent))
	p.children = append(p.children, t.number(child))
}

// cut takes a child from its parent; the child's own record stays as it was.
func (t *Tree) cut(child string) {
	p := t.change(t.at(t.number(child)).parent)
	var others []int
	for _, other := range p.children {
		if other != t.number(child) {
			others = append(others, other)
		}
	}
	p.children = others
}

func (t *Tree) move(child, parent string) {
	t.cut(child)
	t.attach(t.number(child), t.number(parent))
}

func (t *Tree) crowd(parent string, children int) {
	for i := range children {
		t.attach(t.add(Node{Name: strings.Repeat("z", i+1)}), t.number(parent))
	}
}
