package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// controlGroup is how the kernel bounds the memory of a machine's program; the content of its disk in memory counts, too.
type controlGroup struct {
	dir    string
	events string // the file that counts kills
}

// LimitMemory bounds the memory that a machine's program may use from now on: if it wants more, the kernel kills it.
func (n *Net) LimitMemory(name string, limit int64) {
	n.Helper()
	g := controlGroup{dir: "/sys/fs/cgroup/memory", events: "memory.oom_control"}
	bound := "memory.limit_in_bytes"
	if _, err := os.Stat(g.dir); errors.Is(err, fs.ErrNotExist) { // version 2
		g, bound = controlGroup{dir: "/sys/fs/cgroup", events: "memory.events"}, "memory.max"
		n.must(os.WriteFile(filepath.Join(g.dir, "cgroup.subtree_control"), []byte("+memory"), 0))
	}
	m := n.Machine(name)
	pid := strconv.Itoa(m.Process.Pid())
	g.dir = filepath.Join(g.dir, "groupcast-"+name+"-"+pid)
	n.must(os.Mkdir(g.dir, 0o755))
	n.Cleanup(func() {
		_ = m.Process.Kill() // the group has to be empty
		n.must(os.Remove(g.dir))
	})
	n.must(os.WriteFile(filepath.Join(g.dir, bound), []byte(strconv.FormatInt(limit, 10)), 0))
	n.must(os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(pid), 0))
	n.limited[name] = g
}

// KilledForMemory reports whether the kernel has killed a machine's program for the memory that it wanted.
func (n *Net) KilledForMemory(name string) bool {
	n.Helper()
	said, err := os.ReadFile(filepath.Join(n.limited[name].dir, n.limited[name].events))
	n.must(err)
	for line := range bytes.Lines(said) {
		var kills int
		if _, err := fmt.Sscanf(string(line), "oom_kill %d", &kills); err == nil {
			if kills > 0 {
				n.dies(name)
			}
			return kills > 0
		}
	}
	n.Fatalf("the kernel does not count kills: %s", said)
	return false
}
