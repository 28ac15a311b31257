package cache

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What is free is counted in fragments where a file system has blocks of another size.
func TestRoomIsCountedInFragments(t *testing.T) {
	for name, disk := range map[string]unix.Statfs_t{
		"without fragments": {Bsize: 4096},
		"as large":          {Bsize: 4096, Frsize: 4096},
		"larger blocks":     {Bsize: 1 << 20, Frsize: 4096},
	} {
		disk.Blocks, disk.Bavail = 1000, 500
		if got := beside(100*4096, &disk); got != 400*4096 {
			t.Errorf("%s: %d bytes are free, want %d", name, got, 400*4096)
		}
		if got := beside(900*4096, &disk); got != (500-333)*4096-1365 {
			t.Errorf("%s: %d bytes are free beside a third, want %d", name, got, (500-333)*4096-1365)
		}
	}
}
