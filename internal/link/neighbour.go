package link

import "slices"

// Neighbour is the other end of a link, as a tree names it.
type Neighbour interface {
	GetRole() string
	GetName() string
	GetAddresses() []string
}

// SameNeighbour reports whether two neighbours are the same one, at the same place.
func SameNeighbour(a, b Neighbour) bool {
	return a.GetRole() == b.GetRole() && a.GetName() == b.GetName() && slices.Equal(a.GetAddresses(), b.GetAddresses())
}
