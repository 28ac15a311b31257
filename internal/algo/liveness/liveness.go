// Package liveness knows which of many peers have been silent for too long.
package liveness

import (
	"container/list"
	"time"
)

// Table remembers when each peer was last heard. Both hearing a peer and finding
// the silent ones take constant time per peer concerned, however many there are.
type Table[K comparable] struct {
	patience time.Duration
	entries  map[K]*list.Element
	order    *list.List // of entry[K], the one heard longest ago first
}

type entry[K comparable] struct {
	key   K
	heard time.Time
}

// NewTable returns an empty table. A peer is silent once it was not heard for patience.
func NewTable[K comparable](patience time.Duration) *Table[K] {
	return &Table[K]{patience: patience, entries: make(map[K]*list.Element), order: list.New()}
}

// Heard notes that the peer lives. Time must not run backwards between calls.
func (t *Table[K]) Heard(key K, now time.Time) {
	if element, known := t.entries[key]; known {
		element.Value = entry[K]{key, now}
		t.order.MoveToBack(element)
		return
	}
	t.entries[key] = t.order.PushBack(entry[K]{key, now})
}

// Forget drops a peer.
func (t *Table[K]) Forget(key K) {
	if element, known := t.entries[key]; known {
		t.order.Remove(element)
		delete(t.entries, key)
	}
}

// Silent returns the peers that were not heard for the patience, the most silent
// first, and forgets them.
func (t *Table[K]) Silent(now time.Time) []K {
	var silent []K
	for front := t.order.Front(); front != nil; front = t.order.Front() {
		oldest := front.Value.(entry[K])
		if now.Sub(oldest.heard) < t.patience {
			break
		}
		silent = append(silent, oldest.key)
		t.Forget(oldest.key)
	}
	return silent
}

// Len returns how many peers the table knows.
func (t *Table[K]) Len() int { return len(t.entries) }
