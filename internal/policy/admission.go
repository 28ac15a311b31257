package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/bytesize"
)

// PlaceFor is how long a client that is cut off keeps its place; and one that brings nothing, while
// another waits for the place.
const PlaceFor = 15 * time.Second

// Place is what a client that was let in has.
type Place struct {
	Client string
	Share
	// Silent is how long it has brought nothing, though it could have.
	Silent time.Duration
}

// Room says whether there is room for a client's minimum on the link.
type Room struct {
	Fits  bool
	Taken bytesize.Size // of the link, by all minimums together
	Given []string      // clients that give up their places for it
}

// RoomFor reports whether a client's minimum fits beside the places that others have; none always does. A client that waits gets the places of
// clients that bring nothing, no more of them than it takes: the lowest priority first, and of one priority the client that has
// been silent for the longest.
func (p Policy) RoomFor(share Share, others []Place) Room {
	if p.Admission == "" || p.Admission == Admit || p.Link == 0 || share.Minimum == 0 {
		return Room{Fits: true}
	}
	room := Room{Taken: share.Minimum}
	for _, other := range others {
		room.Taken += other.Minimum
	}
	left := room.Taken
	var given []Place
	for _, idle := range p.idle(share, others) {
		if left > p.Link {
			left -= idle.Minimum
			given = append(given, idle)
		}
	}
	if room.Fits = left <= p.Link; !room.Fits {
		return room
	}
	for _, one := range given { // those chosen later may have been enough
		if left+one.Minimum <= p.Link {
			left += one.Minimum
			continue
		}
		room.Given = append(room.Given, one.Client)
	}
	return room
}

// idle returns the places that a client may have, in the order in which they are taken. None is of a higher priority: a place
// that is kept for a client that comes first is not for those that come after it. Without a queue nobody waits.
func (p Policy) idle(share Share, others []Place) (idle []Place) {
	for _, other := range others {
		if p.Admission == Queue && other.Silent >= PlaceFor && other.Minimum > 0 && other.Priority <= share.Priority {
			idle = append(idle, other)
		}
	}
	slices.SortFunc(idle, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Silent, a.Silent), cmp.Compare(a.Client, b.Client))
	})
	return idle
}
