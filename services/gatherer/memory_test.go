package gatherer_test

import (
	"testing"
	"testing/fstest"

	"github.com/groupcast/groupcast/services/gatherer"
)

// The least limit counts, of the process's control group, of those above it, and of the machine.
func TestMemoryLimit(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemTotal:       16384 kB\nMemFree:        1 kB\n")
	for name, one := range map[string]struct {
		files fstest.MapFS
		want  uint64
	}{
		"no limit":           {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n")}, 16 << 20},
		"its group's":        {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("4194304\n")}, 4 << 20},
		"the one's above":    {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("1:x:/y\n0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max"), "sys/fs/cgroup/a/memory.max": file("2097152")}, 2 << 20},
		"a container's own":  {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("1048576\n")}, 1 << 20},
		"more than there is": {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("1048576000000\n")}, 16 << 20},
	} {
		if got := gatherer.MemoryLimit(one.files); got != one.want {
			t.Errorf("%s: %d bytes, want %d", name, got, one.want)
		}
		if got, want := gatherer.WindowMemory(0, one.files), int(one.want/12); got != want {
			t.Errorf("%s: windows of %d bytes, want a twelfth, %d", name, got, want)
		}
	}
	if got := gatherer.WindowMemory(1<<20, fstest.MapFS{}); got != 1<<20/3 {
		t.Errorf("of 1 MiB that was asked for, windows have %d bytes, want a third", got)
	}
}
