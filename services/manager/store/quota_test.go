package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
)

// A store that reaches its quota refuses writes and goes on: what ends things is
// still done, it opens again, and once history is forgotten there is room again.
func TestQuota(t *testing.T) {
	const bytes = 24 << 20
	dir := t.TempDir()
	s, _ := store.OpenSmallForTest(t, dir, bytes)
	term := lead(t, s, "a")
	value := make([]byte, 50<<10)
	written := 0
	for ; written < 2000; written++ {
		time.Sleep(5 * time.Millisecond) // how large it is, etcd knows a little later
		_, err := commit(t, s, term, nil, store.Put(fmt.Sprintf("big/%d", written), value))
		if errors.Is(err, store.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if written < 100 || written == 2000 {
		t.Fatalf("%d writes of 50 KiB were taken by a store of %d MiB", written, bytes>>20)
	}
	if s.WriteRefusal() == nil {
		t.Error("the store says that it has room")
	}
	if _, err := commit(t, s, term, nil, store.Delete("big/0"), store.Put("note", []byte("ended"))); err != nil {
		t.Errorf("what ends things: %v", err)
	}
	for name, changes := range map[string][]store.Op{
		"whole": {store.Put("tree/a", value), store.DeleteAll("step/a/")}, "by what is new": {store.Put("step/b/1", []byte("new"))},
	} {
		if _, err := s.GoOn(t.Context(), term, nil, changes); err != nil {
			t.Errorf("a tree that changes, stored %s: %v", name, err)
		}
	}
	if _, err := commit(t, s, term, nil, store.Put("big/again", []byte("small"))); !errors.Is(err, store.ErrFull) {
		t.Errorf("what neither ends nor goes on: %v", err)
	}
	s.Close()

	s, tidy := store.OpenSmallForTest(t, dir, bytes)
	term = lead(t, s, "a")
	wantValue(t, s, "note", "ended")
	if _, err := commit(t, s, term, nil, store.DeleteAll("big/")); err != nil {
		t.Fatal(err)
	}
	if err := s.CompactForTest(t.Context()); err != nil {
		t.Fatal(err)
	}
	tidy()
	if err := s.WriteRefusal(); err != nil {
		t.Errorf("after history is forgotten: %v", err)
	}
	mustCommit(t, s, term, store.Put("big/again", value))
}

// If only history fills the store, that is forgotten early: nobody has to delete anything.
func TestHistoryIsForgottenInTime(t *testing.T) {
	const bytes = 48 << 20
	s, tidy := store.OpenSmallForTest(t, t.TempDir(), bytes)
	term := lead(t, s, "a")
	value := make([]byte, 512<<10)
	for range 60 {
		mustCommit(t, s, term, store.Put("tree", value))
	}
	at := mustCommit(t, s, term, store.Put("note", []byte("kept")))
	tidy() // notes how far the store is; what is newer is kept
	refused := false
	for range 120 {
		if _, err := commit(t, s, term, nil, store.Put("tree", value)); errors.Is(err, store.ErrFull) {
			refused = true
			break
		}
		time.Sleep(50 * time.Millisecond) // how large it is, etcd knows a little later
	}
	if !refused {
		t.Fatal("the store takes all")
	}
	if s.LargeWriteRefusal() == nil || s.WriteRefusal() != nil {
		t.Errorf("where what is large is refused alone, the store says %v of that, and %v of all", s.LargeWriteRefusal(), s.WriteRefusal())
	}
	mustCommit(t, s, term, store.Put("agent/a", []byte("registered"))) // what is small has a part of its own
	if _, err := s.GoOn(t.Context(), term, nil, []store.Op{store.Put("tree", value), store.DeleteAll("step/")}); !errors.Is(err, store.ErrFull) {
		t.Errorf("what is large, and takes the place of others: %v", err)
	}
	mustCommit(t, s, term, store.Put("tree", value), store.DeleteAll("step/")) // it ends something
	tidy()
	mustCommit(t, s, term, store.Put("tree", value))
	if err := s.LargeWriteRefusal(); err != nil {
		t.Errorf("after history is forgotten: %v", err)
	}
	wantValue(t, s, "note", "kept")
	if err := s.Watch(t.Context(), 1, func(store.Batch) {}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from the beginning: %v", err)
	}
	seen := make(chan store.Batch, 10)
	go func() { _ = s.Watch(t.Context(), at, func(batch store.Batch) { seen <- batch }) }()
	if batch := <-seen; len(batch.Events) == 0 || batch.Events[0].Key != "tree" {
		t.Errorf("watch from the last look: %v", batch.Events)
	}
}
