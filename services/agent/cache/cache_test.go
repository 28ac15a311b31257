package cache_test

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/services/agent/cache"
)

func open(tb testing.TB, limit uint64) *cache.Cache {
	tb.Helper()
	c, err := cache.Open(filepath.Join(tb.TempDir(), "made"), limit, cache.Disk{})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestRoomIsWithinTheLimit(t *testing.T) {
	c := open(t, 100)
	a, b := c.Create(), c.Create()
	if got := a.Room(70); got != 70 {
		t.Errorf("the first has room for %d, want 70", got)
	}
	freed, pressure := c.Freed(), c.Pressure()
	if got := b.Room(70); got != 30 {
		t.Errorf("the second has room for %d, want the 30 that are left", got)
	}
	<-pressure // the first hears that somebody lacks room
	a.Reserve(20)
	<-freed // the second hears that there is some
	if got := b.Room(70); got != 70 {
		t.Errorf("the second has room for %d now, want 70", got)
	}
	for _, entry := range []*cache.Entry{a, b} {
		if err := entry.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := c.Reserved(); got != 0 {
		t.Errorf("%d bytes are reserved for nobody", got)
	}
}

func TestThoseThatRestLeaveTheirShare(t *testing.T) {
	c := open(t, 120)
	a, b, rested := c.Create(), c.Create(), c.Create()
	if got := a.Share(); got != 40 {
		t.Errorf("a third is %d", got)
	}
	rested.Rest()
	rested.Rest()
	if got := b.Share(); got != 60 {
		t.Errorf("a half is %d", got)
	}
}

func TestPromiseWithoutRoomIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("more was promised than there is room for")
		}
	}()
	open(t, 100).Create().Reserve(1)
}

// Whatever entries ask for and give back, the limit holds.
func TestLimitHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Uint64Range(1, 1000).Draw(rt, "limit")
		c := open(t, limit)
		entries := []*cache.Entry{c.Create(), c.Create(), c.Create()}
		for range 50 {
			entry := rapid.SampledFrom(entries).Draw(rt, "entry")
			room := entry.Room(rapid.Uint64Range(0, 2000).Draw(rt, "want"))
			entry.Reserve(rapid.Uint64Range(0, room).Draw(rt, "need"))
			if c.Reserved() > limit {
				rt.Fatalf("%d bytes are reserved of %d", c.Reserved(), limit)
			}
		}
	})
}

func TestSegmentsAreSmallPartsOfTheLimit(t *testing.T) {
	for limit, want := range map[uint64]uint64{1 << 20: 64 << 10, 64 << 20: 2 << 20, 4 << 30: 16 << 20} {
		if got := open(t, limit).Segment(); got != want {
			t.Errorf("of %d bytes a segment has %d, want %d", limit, got, want)
		}
	}
}

func TestDirectoryThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Open(filepath.Join(file, "below"), 1<<20, cache.Disk{}); err == nil {
		t.Error("a cache below a file")
	}
}
