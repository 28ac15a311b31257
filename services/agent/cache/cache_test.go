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
	if got := a.Claim(70); got != 70 {
		t.Errorf("the first has room for %d, want 70", got)
	}
	freed, pressure := c.Freed(), c.Pressure()
	if got := b.Claim(70); got != 30 {
		t.Errorf("the second has room for %d, want the 30 that are left", got)
	}
	<-pressure // the first hears that somebody lacks room
	a.ShrinkTo(20)
	<-freed // the second hears that there is some
	if got := b.Claim(70); got != 70 {
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
	c := open(t, 96)
	a, b, rested := c.Create(), c.Create(), c.Create()
	if got := a.Share(); got != 28 {
		t.Errorf("a third is %d", got)
	}
	rested.Rest()
	rested.Rest()
	if got := b.Share(); got != 42 {
		t.Errorf("a half is %d", got)
	}
}

func TestPromiseWithoutRoomIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("more was promised than there is room for")
		}
	}()
	open(t, 100).Create().ShrinkTo(1)
}

// Whatever entries ask for and give back, the limit holds.
func TestLimitHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Uint64Range(1, 1000).Draw(rt, "limit")
		c := open(t, limit)
		entries := []*cache.Entry{c.Create(), c.Create(), c.Create()}
		for range 50 {
			entry := rapid.SampledFrom(entries).Draw(rt, "entry")
			has := entry.Claim(rapid.Uint64Range(0, 2000).Draw(rt, "want"))
			if has > c.Reserved() || c.Reserved() > limit {
				rt.Fatalf("an entry has %d bytes, and %d are reserved of %d", has, c.Reserved(), limit)
			}
			before := c.Reserved()
			needs := rapid.Uint64Range(0, has).Draw(rt, "needs")
			if entry.ShrinkTo(needs); c.Reserved() != before-(has-needs) {
				rt.Fatalf("%d bytes are reserved when %d of %d were given back", c.Reserved(), has-needs, before)
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

// Who comes while one entry has all that it may, and gives nothing back, gets on all the same, and so do many of them.
func TestNobodyTakesAllRoom(t *testing.T) {
	c := open(t, 64<<20)
	if got := c.Create().Claim(64 << 20); got != 56<<20 {
		t.Errorf("the first has room for %d, want seven eighths of the limit", got)
	}
	for i := range 32 {
		pressure := c.Pressure()
		if got := c.Create().Claim(1 << 20); got != 256<<10 {
			t.Fatalf("entry %d that comes then has room for %d, want 256 KiB", i, got)
		}
		<-pressure
	}
	if got := c.Create().Claim(1); got != 0 || c.Reserved() != c.Limit() {
		t.Errorf("one more has room for %d, and %d are reserved of %d", got, c.Reserved(), c.Limit())
	}
}
