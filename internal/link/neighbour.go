package link

import "slices"

// Neighbour is the node at the other end of a link, as a tree names it.
type Neighbour interface {
	GetRole() string
	GetName() string
	GetAddresses() []string
}

// SameNeighbour reports whether both are the same node, at the same addresses.
func SameNeighbour(a, b Neighbour) bool {
	return a.GetRole() == b.GetRole() && a.GetName() == b.GetName() && slices.Equal(a.GetAddresses(), b.GetAddresses())
}
