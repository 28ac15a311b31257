package relay_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// mostResident is how much memory an agent may take in all, page cache aside.
const mostResident = 64e6

// An agent with 16 children and an object of 1 GiB, which they take at different paces, has at most 64 MB of resident memory: here with
// the sender and the test itself, which are in the same process. The children are another one. Encrypting takes four times as long, so there
// the object is smaller, though still many times the cache.
func TestResidentMemoryOfSixteenChildren(t *testing.T) {
	for plane, size := range map[groupv1.DataPlane]uint64{groupv1.DataPlane_DATA_PLANE_TLS: 512 << 20, groupv1.DataPlane_DATA_PLANE_PLAINTEXT: 1 << 30} {
		t.Run(plane.String(), func(t *testing.T) {
			if isRaceBuild() {
				size /= 8
			}
			source := zeros(t, size)
			const children, cached = 16, 32 << 20
			w := newWorld(t, 0, &groupv1.DeliverySpec{DataPlane: plane})
			w.spec.Length = size
			debug.FreeOSMemory() // what tests before this one took
			forgetPeak(t)
			limit := int64(mostResident)
			if isRaceBuild() {
				limit = 5*limit + peakMemory(t) // the detector keeps notes of all memory, and gives none of that back
			}
			w.start("sa1", cached)
			w.tree("sa1", "sender", names(children)...)
			var sender sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			sender.Go(func() { w.sendFrom(ctx, "sa1", &supply{source, size}) })
			defer func() { end(); sender.Wait() }()
			taking := w.startChildren("sa1", children, 100*time.Microsecond)
			w.awaitWithin(4*patience, "all children have all", func() bool { return taking.done.Load() == children })
			if fed := w.agents["sa1"].count(w, "sent_bytes"); fed < float64(children*size) {
				t.Errorf("the agent sent %.0f bytes, want %d: nothing was shown", fed, children*size)
			}
			most := peakMemory(t)
			t.Logf("%d bytes resident at most", most)
			if most > limit {
				t.Errorf("%d bytes resident at most, want %d at most", most, limit)
			}
		})
	}
}

// zeros returns a file of zeros, which takes no room.
func zeros(t *testing.T, size uint64) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "zeros"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := file.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	return file
}

// forgetPeak has the kernel look for the most memory of this process from now on.
func forgetPeak(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// peakMemory returns how many bytes of memory this process had at most.
func peakMemory(t *testing.T) (kilobytes int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	t.Fatalf("no VmHWM in %q", status)
	return 0
}
