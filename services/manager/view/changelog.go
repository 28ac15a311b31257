package view

import (
	"sort"

	"github.com/groupcast/groupcast/services/manager/store"
)

// logLength is how many changes a log keeps for watchers that resume or are slow.
const logLength = 8192

// changeLog holds the latest changes, in order.
type changeLog[C any] struct {
	base    store.Revision // the log holds every change after this revision
	entries []logEntry[C]
}

type logEntry[C any] struct {
	revision store.Revision
	change   C
}

func (l *changeLog[C]) add(at store.Revision, change C) {
	l.entries = append(l.entries, logEntry[C]{at, change})
	if len(l.entries) < 2*logLength {
		return
	}
	// The changes of a transaction go together or not at all.
	cut := len(l.entries) - logLength
	l.base = l.entries[cut-1].revision
	for cut < len(l.entries) && l.entries[cut].revision == l.base {
		cut++
	}
	l.entries = append(make([]logEntry[C], 0, 2*logLength), l.entries[cut:]...)
}

// after returns up to limit changes after the revision, or more if one
// transaction made more, and whether the log reaches back so far.
func (l *changeLog[C]) after(revision store.Revision, limit int) (changes []C, last store.Revision, complete bool) {
	if revision < l.base {
		return nil, 0, false
	}
	first := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].revision > revision })
	last = revision
	for _, entry := range l.entries[first:] {
		if len(changes) >= limit && entry.revision != last {
			break
		}
		changes = append(changes, entry.change)
		last = entry.revision
	}
	return changes, last, true
}
