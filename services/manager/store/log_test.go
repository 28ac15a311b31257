package store_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/groupcast/groupcast/services/manager/store"
)

// Large transactions do not stay in memory, nor in the log for the next start, however many there are.
func TestLargeTransactionsAreNotKept(t *testing.T) {
	const size, times = 256 << 10, 600
	dir := t.TempDir()
	s := openEmbedded(t, dir)
	term := lead(t, s, "a")
	value := make([]byte, size)
	before := heap()
	for range times {
		mustCommit(t, s, term, store.Put("tree", value))
	}
	want := func(when string) {
		t.Helper()
		if grown := heap() - before; grown > times*size/2 {
			t.Errorf("%s: %d of %d MiB are in memory", when, grown>>20, times*size>>20)
		}
	}
	want("while it is written")
	if noted, err := filepath.Glob(filepath.Join(dir, "member", "snap", "*.snap")); err != nil || len(noted) == 0 {
		t.Errorf("the log was never shortened: %v", err)
	}
	s.Close()
	s = openEmbedded(t, dir)
	mustCommit(t, s, lead(t, s, "a"), store.Put("note", nil))
	want("after a start")
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
