package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// backends are the two ways to have a store: all that follows must hold for both.
var backends = map[string]func(t *testing.T) *store.Store{
	"embedded": func(t *testing.T) *store.Store { return openEmbedded(t, t.TempDir()) },
	"external": func(t *testing.T) *store.Store {
		s, err := store.OpenExternal(t.Context(), []string{storetest.StartEtcd(t).Endpoint}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	},
}

func openEmbedded(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.OpenEmbedded(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func lead(t *testing.T, s *store.Store, name string) *store.Term {
	t.Helper()
	term, err := s.Campaign(t.Context(), store.Candidate{Name: name, Address: name + ":7400"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(term.Resign)
	return term
}

func commit(t *testing.T, s *store.Store, term *store.Term, conditions []store.Cond, changes ...store.Op) (store.Revision, error) {
	t.Helper()
	return s.Commit(t.Context(), term, conditions, changes)
}

func mustCommit(t *testing.T, s *store.Store, term *store.Term, changes ...store.Op) store.Revision {
	t.Helper()
	at, err := commit(t, s, term, nil, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func wantValue(t *testing.T, s *store.Store, key, want string) store.Item {
	t.Helper()
	item, found, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(item.Value); got != want || found != (want != "") {
		t.Fatalf("%s = %q (found %v), want %q", key, got, found, want)
	}
	return item
}

func TestConformance(t *testing.T) {
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for _, c := range []struct {
				promise string
				test    func(*testing.T, *store.Store)
			}{
				{"a transaction is all or nothing", testAllOrNothing},
				{"a transaction can be as large as it says, and one that is larger is refused for good", testLarge},
				{"a condition on all below a prefix sees every one of them", testBelow},
				{"a transaction of an earlier term is refused", testFence},
				{"a transaction of a leader that was stopped is refused", testStopped},
				{"one candidate leads at a time, and a resigned term is followed at once", testElection},
				{"a restarted candidate need not wait for its earlier self", testEndEarlierTerms},
				{"who leads is told whenever it changes", testLeaders},
				{"a list is complete, ordered and of one revision", testList},
				{"a watch sees every change once, in order", testWatch},
				{"a watch of lost history says so", testWatchCompacted},
				{"a leased key vanishes", testLease},
				{"waiting for a revision ends although nothing of ours changes", testAwait},
			} {
				t.Run(c.promise, func(t *testing.T) { c.test(t, s) })
			}
		})
	}
}

func testAllOrNothing(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	first := mustCommit(t, s, term, store.Put("all/x", []byte("1")))
	item := wantValue(t, s, "all/x", "1")
	if item.Changed != first {
		t.Errorf("changed at %d, want %d", item.Changed, first)
	}
	_, err := commit(t, s, term, []store.Cond{store.Unchanged("all/x", first), store.Absent("all/x")},
		store.Put("all/x", []byte("2")), store.Put("all/y", []byte("2")))
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("commit against a condition: %v, want a conflict", err)
	}
	wantValue(t, s, "all/x", "1")
	wantValue(t, s, "all/y", "")
	if _, err := commit(t, s, term, []store.Cond{store.Unchanged("all/x", first)},
		store.Delete("all/x"), store.Put("all/y", []byte("2"))); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "all/x", "")
	wantValue(t, s, "all/y", "2")
}

func testLarge(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	const rest = 1000 // the bytes that a transaction has beside its values
	large := make([]byte, s.MaxBytes()-rest)
	mustCommit(t, s, term, store.Put("large", large))
	_, err := commit(t, s, term, nil, store.Put("large", append(large, make([]byte, 2*rest)...)))
	if !errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a larger one: %v, want %v", err, store.ErrTooLarge)
	}
	mustCommit(t, s, term, store.Delete("large"))
}

func testBelow(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	holds := func(condition store.Cond) bool {
		_, err := commit(t, s, term, []store.Cond{condition}, store.Put("elsewhere", nil))
		if err != nil && !errors.Is(err, store.ErrConflict) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !holds(store.UnchangedBelow("below/", 1)) || !holds(store.NoneBelow("below/")) {
		t.Error("nothing is there, and it does not hold")
	}
	first := mustCommit(t, s, term, store.Put("below/x", nil), store.Put("belowly", nil))
	second := mustCommit(t, s, term, store.Put("below/y", nil))
	if holds(store.UnchangedBelow("below/", first)) || holds(store.NoneBelow("below/")) {
		t.Error("it holds although a key was written since")
	}
	mustCommit(t, s, term, store.Put("belowly", nil))
	if !holds(store.UnchangedBelow("below/", second)) {
		t.Error("it does not hold although all was written before")
	}
}

func testFence(t *testing.T, s *store.Store) {
	old := lead(t, s, "a")
	old.Resign()
	current := lead(t, s, "b")
	if current.Number <= old.Number {
		t.Errorf("term %d follows %d: terms only grow", current.Number, old.Number)
	}
	if _, err := commit(t, s, old, nil, store.Put("fence/x", []byte("old"))); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write of an earlier term: %v, want fenced", err)
	}
	mustCommit(t, s, current, store.Put("fence/x", []byte("new")))
	wantValue(t, s, "fence/x", "new")
}

// A leader that was stopped for longer than others wait for it writes nothing, though its lease may not have run out yet, and no longer leads.
func testStopped(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	mustCommit(t, s, term, store.Put("stopped/x", []byte("before")))
	term.StopForTest(6 * time.Second)
	if _, err := commit(t, s, term, nil, store.Put("stopped/x", []byte("after"))); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write of a leader that was stopped: %v, want fenced", err)
	}
	wantValue(t, s, "stopped/x", "before")
	select {
	case <-term.Ended():
	case <-time.After(10 * time.Second):
		t.Error("its term goes on")
	}
	mustCommit(t, s, lead(t, s, "a"), store.Put("stopped/x", []byte("again")))
}

func testElection(t *testing.T, s *store.Store) {
	first := lead(t, s, "a")
	second := make(chan *store.Term)
	go func() {
		term, err := s.Campaign(t.Context(), store.Candidate{Name: "b"})
		if err != nil {
			t.Error(err)
		}
		second <- term
	}()
	select {
	case <-second:
		t.Fatal("two lead at once")
	case <-time.After(300 * time.Millisecond):
	}
	first.Resign()
	select {
	case term := <-second:
		term.Resign()
	case <-time.After(3 * time.Second):
		t.Fatal("nobody follows a leader that resigned")
	}
}

func testEndEarlierTerms(t *testing.T, s *store.Store) {
	lead(t, s, "crashed") // never resigns while the test runs
	if elsewhere, err := s.EndEarlierTerms(t.Context(), store.Candidate{Name: "other"}); err != nil || len(elsewhere) > 0 {
		t.Fatal(elsewhere, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if term, err := s.Campaign(ctx, store.Candidate{Name: "other"}); err == nil {
		term.Resign()
		t.Fatal("a candidate ended the term of another")
	}
	if elsewhere, err := s.EndEarlierTerms(t.Context(), store.Candidate{Name: "crashed", Address: "here"}); err != nil || len(elsewhere) != 1 || elsewhere[0].Address != "crashed:7400" {
		t.Fatal(elsewhere, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	term, err := s.Campaign(ctx, store.Candidate{Name: "crashed"})
	if err != nil {
		t.Fatalf("a restarted candidate waits for its earlier self: %v", err)
	}
	term.Resign()
}

func testList(t *testing.T, s *store.Store) {
	const keys = 4321 // more than two pages
	term := lead(t, s, "a")
	for from := 0; from < keys; from += store.MaxOps {
		var puts []store.Op
		for i := from; i < min(from+store.MaxOps, keys); i++ {
			puts = append(puts, store.Put(fmt.Sprintf("list/%05d", i), []byte{byte(i)}))
		}
		mustCommit(t, s, term, puts...)
	}
	mustCommit(t, s, term, store.Put("listed-no-more", nil))
	items, at, err := s.List(t.Context(), "list/")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.List(t.Context(), ""); err != nil {
		t.Errorf("list of everything, with a leader: %v", err)
	}
	now, err := s.Now(t.Context())
	if err != nil || at != now {
		t.Errorf("listed at %d, want %d (%v)", at, now, err)
	}
	if len(items) != keys {
		t.Fatalf("%d items, want %d", len(items), keys)
	}
	for i, item := range items {
		if want := fmt.Sprintf("list/%05d", i); item.Key != want || item.Value[0] != byte(i) {
			t.Fatalf("item %d is %s=%v, want %s", i, item.Key, item.Value, want)
		}
	}
}

func testWatch(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	start, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const changes = 200
	for i := range changes {
		mustCommit(t, s, term, store.Put("watch/count", []byte{byte(i)}), store.Put("watch/twin", []byte{byte(i)}))
	}
	last := mustCommit(t, s, term, store.DeleteAll("watch/"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var seen []byte
	var at store.Revision
	err = s.Watch(ctx, start, func(batch store.Batch) {
		if batch.Revision < at {
			t.Errorf("revision %d after %d", batch.Revision, at)
		}
		at = batch.Revision
		for _, event := range batch.Events {
			if event.Key == "watch/count" && !event.Deleted {
				seen = append(seen, event.Value[0])
			}
		}
		if at >= last {
			if n := len(batch.Events); n < 2 || !batch.Events[n-1].Deleted || !batch.Events[n-2].Deleted {
				t.Errorf("the deletion of two keys came apart: %+v", batch.Events)
			}
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("watch ended with %v", err)
	}
	if len(seen) != changes {
		t.Fatalf("saw %d changes, want %d", len(seen), changes)
	}
	for i, value := range seen {
		if value != byte(i) {
			t.Fatalf("change %d is %d", i, value)
		}
	}
}

func testWatchCompacted(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	start, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustCommit(t, s, term, store.Put("compacted", nil))
	}
	if err := s.CompactForTest(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Watch(ctx, start, func(store.Batch) {}); !errors.Is(err, store.ErrCompacted) {
		t.Fatalf("watch of lost history: %v, want compacted", err)
	}
}

func testLease(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	lease, err := s.Grant(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	at := mustCommit(t, s, term, store.PutLeased("leased", []byte("here"), lease))
	wantValue(t, s, "leased", "here")
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	gone := false
	err = s.Watch(ctx, at, func(batch store.Batch) {
		for _, event := range batch.Events {
			if event.Key == "leased" && event.Deleted {
				gone = true
				cancel()
			}
		}
	})
	if !gone {
		t.Fatalf("the leased key is still there: %v", err)
	}
}

func testAwait(t *testing.T, s *store.Store) {
	term := lead(t, s, "a")
	start := mustCommit(t, s, term, store.Put("await", nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen, changed := start, make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = s.Watch(ctx, start, func(batch store.Batch) {
			mu.Lock()
			defer mu.Unlock()
			seen = batch.Revision
			close(changed)
			changed = make(chan struct{})
		})
	})
	defer watching.Wait()
	defer cancel()
	// Somebody else's keys in the same etcd: the watch sees none of these changes.
	foreign, err := s.PutForeignForTest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Await(ctx, func() <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		return changed
	}, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return seen >= foreign
	})
	if err != nil {
		t.Fatalf("await revision %d: %v", foreign, err)
	}
}

func TestEmbeddedSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	s := openEmbedded(t, dir)
	mustCommit(t, s, lead(t, s, "a"), store.Put("kept", []byte("yes")))
	if _, err := store.OpenEmbedded(dir, slog.New(slog.DiscardHandler)); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a second opening: %v, want in use", err)
	}
	s.Close()
	wantValue(t, openEmbedded(t, dir), "kept", "yes")
}

// C23 for one manager: a damaged store is refused, as often as it is opened, and left as it is.
func TestEmbeddedRefusesDamage(t *testing.T) {
	for name, test := range map[string]struct {
		file   string
		damage func(*testing.T, string)
	}{
		"database, bytes changed":          {"member/snap/db", flipBits},
		"database, hardly begun":           {"member/snap/db", truncate(5000)},
		"database, cut short":              {"member/snap/db", truncate(12288)},
		"database, pages of other places":  {"member/snap/db", renumber},
		"log, bytes changed":               {"member/wal/0*.wal", flipBits},
		"log, hardly begun":                {"member/wal/0*.wal", truncate(5000)},
		"log, the last transactions alone": {"member/wal/0*.wal", loseEnd},
		"log, all of it":                   {"member/wal", remove},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openEmbedded(t, dir)
			term := lead(t, s, "a")
			for i := range 200 {
				mustCommit(t, s, term, store.Put(fmt.Sprintf("key/%d", i), make([]byte, 1000)))
			}
			s.Close()
			matches, err := filepath.Glob(filepath.Join(dir, test.file))
			if err != nil || len(matches) == 0 {
				t.Fatalf("no %s to damage (%v)", test.file, err)
			}
			test.damage(t, matches[0])
			before := snapshotDir(t, dir)
			for range 3 {
				damaged, err := store.OpenEmbedded(dir, slog.New(slog.DiscardHandler))
				if err == nil {
					damaged.Close()
					t.Fatal("a damaged store was opened")
				}
				if !errors.Is(err, store.ErrDamaged) {
					t.Errorf("refused with %v, want %v", err, store.ErrDamaged)
				}
				t.Logf("refused: %v", err)
			}
			if after := snapshotDir(t, dir); !maps.Equal(before, after) {
				t.Errorf("what was refused has changed from %x to %x", before, after)
			}
		})
	}
}

// A log that goes on where the database ends, as after a crash, is no damage: what it has is there.
func TestEmbeddedGoesOnFromItsLog(t *testing.T) {
	dir := t.TempDir()
	database := filepath.Join(dir, "member", "snap", "db")
	s := openEmbedded(t, dir)
	mustCommit(t, s, lead(t, s, "a"), store.Put("first", []byte("kept")))
	s.Close()
	earlier, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	s = openEmbedded(t, dir)
	mustCommit(t, s, lead(t, s, "a"), store.Put("second", []byte("kept")))
	s.Close()
	if err := os.WriteFile(database, earlier, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openEmbedded(t, dir)
	wantValue(t, s, "first", "kept")
	wantValue(t, s, "second", "kept")
}
