package link

import (
	"cmp"
	"slices"
)

// span is a run of bytes, from one offset to before another.
type span struct{ from, to uint64 }

// spans are runs in the order of their offsets; none touches another.
type spans []span

// add adds a run.
func (s spans) add(one span) spans {
	first, _ := slices.BinarySearchFunc(s, one.from, func(run span, from uint64) int { return cmp.Compare(run.to, from) })
	last := first
	for last < len(s) && s[last].from <= one.to {
		one.from, one.to = min(one.from, s[last].from), max(one.to, s[last].to)
		last++
	}
	return slices.Replace(s, first, last, one)
}

// after drops everything before an offset.
func (s spans) after(offset uint64) spans {
	for len(s) > 0 && s[0].to <= offset {
		s = s[1:]
	}
	if len(s) > 0 {
		s[0].from = max(s[0].from, offset)
	}
	return s
}

// next returns the run that contains an offset, or the first run after it.
func (s spans) next(offset uint64) (run span, found bool) {
	at, _ := slices.BinarySearchFunc(s, offset, func(run span, offset uint64) int { return cmp.Compare(run.to, offset+1) })
	if at == len(s) {
		return span{}, false
	}
	return s[at], true
}
