package receive

import (
	"cmp"
	"slices"
)

// where tells where blocks are that have come before they land, and are in no memory.
type where uint8

const (
	onDisk where = 1 + iota
	zeros
)

// run is blocks in a row of one kind.
type run struct {
	first, end uint32
	where      where
}

// runs is blocks, in order. However long a run is, it takes no more memory.
type runs []run

// add puts in blocks of which none is there.
func (r *runs) add(one run) {
	at, _ := slices.BinarySearchFunc(*r, one.first, func(other run, first uint32) int { return cmp.Compare(other.first, first) })
	all := slices.Insert(*r, at, one)
	if at+1 < len(all) && all[at].end == all[at+1].first && all[at].where == all[at+1].where {
		all[at].end = all[at+1].end
		all = slices.Delete(all, at+1, at+2)
	}
	if at > 0 && all[at-1].end == all[at].first && all[at-1].where == all[at].where {
		all[at-1].end = all[at].end
		all = slices.Delete(all, at, at+1)
	}
	*r = all
}

// begins returns where a block is, if all begins with it.
func (r runs) begins(block uint32) (where where, does bool) {
	if len(r) == 0 || r[0].first != block {
		return 0, false
	}
	return r[0].where, true
}

// drop takes out the first block.
func (r *runs) drop() {
	if (*r)[0].first++; (*r)[0].first == (*r)[0].end {
		*r = (*r)[1:]
	}
}
