package paper

import (
	"cmp"
	"slices"
)

// gap is packets that are missing, both ends included.
type gap struct{ first, last uint64 }

// gaps are all that are missing, in order, apart from each other.
type gaps []gap

// add notes more.
func (g *gaps) add(first, last uint64) {
	at, _ := slices.BinarySearchFunc(*g, first, func(one gap, first uint64) int { return cmp.Compare(one.first, first) })
	*g = slices.Insert(*g, at, gap{first, last})
}

// remove forgets one, and reports whether it was missing.
func (g *gaps) remove(sn uint64) bool {
	at, is := g.find(sn)
	if !is {
		return false
	}
	one := (*g)[at]
	var left []gap
	if one.first < sn {
		left = append(left, gap{one.first, sn - 1})
	}
	if sn < one.last {
		left = append(left, gap{sn + 1, one.last})
	}
	*g = slices.Replace(*g, at, at+1, left...)
	return true
}

// first is the first that is missing; 0 is none.
func (g gaps) first() uint64 {
	if len(g) == 0 {
		return 0
	}
	return g[0].first
}

func (g gaps) has(sn uint64) bool {
	_, is := g.find(sn)
	return is
}

func (g gaps) find(sn uint64) (at int, is bool) {
	at, _ = slices.BinarySearchFunc(g, sn, func(one gap, sn uint64) int { return cmp.Compare(one.last, sn) })
	return at, at < len(g) && g[at].first <= sn
}

func (g gaps) count() (n uint64) {
	for _, one := range g {
		n += one.last - one.first + 1
	}
	return n
}
