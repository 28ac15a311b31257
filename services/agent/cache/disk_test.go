package cache_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/agent/cache"
)

// A cache takes no more than its disk has room for beyond what others are to have, and knows when others lack that.
func TestCacheLeavesRoomOnItsDisk(t *testing.T) {
	const mib = 1 << 20
	disk := testdisk.Memory(t, "size=60m")
	for _, c := range []struct {
		limit uint64
		disk  cache.Disk
		want  uint64
	}{
		{4096 * mib, cache.Disk{Keep: 256 * mib}, 40 * mib}, // a third of a small disk is left free
		{4096 * mib, cache.Disk{Keep: 10 * mib}, 50 * mib},
		{4096 * mib, cache.Disk{Keep: 10 * mib, Sharers: 2}, 25 * mib},
		{30 * mib, cache.Disk{Keep: 10 * mib}, 30 * mib},
		{4096 * mib, cache.Disk{}, 4096 * mib},
	} {
		opened, err := cache.Open(disk, c.limit, c.disk)
		if err != nil {
			t.Fatal(err)
		}
		if got := opened.Limit(); got > c.want || got < c.want-mib {
			t.Errorf("%d of a disk of 60 MiB with %+v: %d, want %d", c.limit, c.disk, got, c.want)
		}
		if opened.Short() {
			t.Error("an empty disk is short")
		}
	}
	opened, err := cache.Open(disk, 4096*mib, cache.Disk{Keep: 10 * mib})
	if err != nil {
		t.Fatal(err)
	}
	if opened.Fits() != nil {
		t.Error("nothing fits on an empty disk")
	}
	testdisk.Fill(t, disk+"/filler")
	if opened.Fits() == nil {
		t.Error("something fits on a full disk")
	}
	if !opened.Short() {
		t.Error("a full disk is not short")
	}
}
