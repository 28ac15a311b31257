package placement

import (
	"slices"
	"strings"

	"github.com/groupcast/groupcast/internal/algo/tree"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// Directive is what one node of a tree does, and with whom.
type Directive struct {
	Duty     groupv1.Duty
	Parent   *groupv1.Neighbour
	Children []*groupv1.Neighbour
}

// Directives returns what each node of a tree does. Everybody dials towards the sender. So only agents need an address, which those that they
// feed and the sender are told. An agent that is absent is nobody's neighbour for now.
func Directives(t *tree.Tree, absent []string, addresses func(agent string) []string) map[identity.ID]Directive {
	directives := make(map[identity.ID]Directive, t.Len())
	gone := func(name string) bool { return slices.Contains(absent, name) }
	for _, name := range t.Names() {
		node, _ := t.Node(name)
		d := Directive{Duty: groupv1.Duty_DUTY_RECEIVE}
		switch {
		case name == t.Sender():
			d.Duty = groupv1.Duty_DUTY_SEND
		case node.Kind == tree.Agent:
			d.Duty = groupv1.Duty_DUTY_RELAY
		}
		if parent, fed := t.Parent(name); fed && !gone(parent) && !gone(name) {
			d.Parent = neighbour(parent, addresses)
		}
		for _, child := range t.Children(name) {
			if gone(child) || gone(name) {
				continue
			}
			dialled := addresses
			if d.Duty != groupv1.Duty_DUTY_SEND {
				dialled = nobody
			}
			d.Children = append(d.Children, neighbour(child, dialled))
		}
		directives[ParseID(name)] = d
	}
	return directives
}

// ParseID reads the name of a node in a tree.
func ParseID(name string) identity.ID {
	role, rest, _ := strings.Cut(name, "/")
	return identity.ID{Role: identity.Role(role), Name: rest}
}

func neighbour(name string, addresses func(string) []string) *groupv1.Neighbour {
	id := ParseID(name)
	n := &groupv1.Neighbour{Name: id.Name, Role: string(id.Role)}
	if id.Role == identity.Agent {
		n.Addresses = addresses(id.Name)
	}
	return n
}

func nobody(string) []string { return nil }
