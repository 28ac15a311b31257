// Package liveness knows which of many peers have been silent for too long.
package liveness

import (
	"container/list"
	"time"
)

// Table remembers when each peer was last heard. Noting that a peer was heard and finding the
// silent ones take constant time for each of these peers, however many there are.
type Table[K comparable] struct {
	patience time.Duration
	most     time.Duration // the longest time between two signs of the owner while all is well; 0 if not known
	asked    time.Time
	stood    time.Duration // how long the owner stood still or was deaf, which does not count as anybody's silence
	deaf     bool          // the owner hears nobody, as far as it can tell
	entries  map[K]*list.Element
	order    *list.List // of entry[K]; the peer heard longest ago is first
}

type entry[K comparable] struct {
	key     K
	heard   time.Time // less what the owner had stood still by then
	spoke   bool      // it was heard, and is not only presumed
	doubted bool      // since then something has said that it may be gone
}

// NewTable returns an empty table. A peer is silent once it was not heard for patience.
func NewTable[K comparable](patience time.Duration) *Table[K] {
	return &Table[K]{patience: patience, entries: make(map[K]*list.Element), order: list.New()}
}

// AskedWithin says that from now on the owner calls Silent or Awake again within such a time. If it does
// not, it stood still itself, for instance on an overloaded machine, and could have heard nobody: whatever
// exceeds that time does not count as silence.
func (t *Table[K]) AskedWithin(most time.Duration, now time.Time) *Table[K] {
	t.most, t.asked = most, now
	return t
}

// Heard notes that the peer lives. Time must not run backwards between calls.
func (t *Table[K]) Heard(key K, now time.Time) {
	t.note(entry[K]{key: key, heard: now.Add(-t.stood), spoke: true})
}

// Presume has a peer live until its patience is over, of which it is known otherwise that it does, or did.
func (t *Table[K]) Presume(key K, now time.Time) {
	t.note(entry[K]{key: key, heard: now.Add(-t.stood)})
}

// Doubt notes that a peer may be gone for a reason of its own, until it is heard again: it does not count as missed.
func (t *Table[K]) Doubt(key K) {
	if element, known := t.entries[key]; known {
		doubted := element.Value.(entry[K])
		doubted.doubted = true
		element.Value = doubted
	}
}

func (t *Table[K]) note(noted entry[K]) {
	if element, known := t.entries[noted.key]; known {
		element.Value = noted
		t.order.MoveToBack(element)
		return
	}
	t.entries[noted.key] = t.order.PushBack(noted)
}

// Forget drops a peer.
func (t *Table[K]) Forget(key K) {
	if element, known := t.entries[key]; known {
		t.order.Remove(element)
		delete(t.entries, key)
	}
}

// Knows reports whether a peer was heard, and neither found silent nor forgotten since.
func (t *Table[K]) Knows(key K) bool {
	_, known := t.entries[key]
	return known
}

// Awake notes that the owner does not stand still, though it may have no time to call Silent.
func (t *Table[K]) Awake(now time.Time) {
	switch gap := now.Sub(t.asked); {
	case t.deaf:
		t.stood += gap
	case t.most > 0 && gap > t.most:
		t.stood += gap - t.most
	}
	t.asked = now
}

// Deaf says whether from now on the owner can hear nobody; that time does not count as anybody's silence.
func (t *Table[K]) Deaf(is bool, now time.Time) {
	t.Awake(now)
	t.deaf = is
}

// Missed returns how many peers that were heard have not been for so long: those that are missed, and those that are doubted. It takes
// time for each of them.
func (t *Table[K]) Missed(after time.Duration, now time.Time) (missed, doubted int) {
	t.Awake(now)
	now = now.Add(-t.stood)
	for e := t.order.Front(); e != nil && now.Sub(e.Value.(entry[K]).heard) >= after; e = e.Next() {
		switch peer := e.Value.(entry[K]); {
		case peer.doubted && peer.spoke:
			doubted++
		case peer.spoke:
			missed++
		}
	}
	return missed, doubted
}

// Silent returns the peers that were not heard within the patience, the longest silent first, and forgets them.
func (t *Table[K]) Silent(now time.Time) []K {
	t.Awake(now)
	now = now.Add(-t.stood)
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
