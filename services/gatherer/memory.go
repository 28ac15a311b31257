package gatherer

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// bufferShare is the part of the process's memory that the sockets' buffers take, unless the configuration says how much.
	bufferShare = 4
	// perWindow is how many bytes of buffer the kernel needs for a byte of window: a segment takes more room than its bytes, 2.3 times
	// as much if packets have 1,500 bytes.
	perWindow = 3
)

// windowMemory returns how many bytes all windows may be together.
func windowMemory(buffers uint64, root fs.FS) int {
	if buffers == 0 {
		buffers = min(memoryLimit(root), uint64(debug.SetMemoryLimit(-1))) / bufferShare
	}
	return int(min(max(1, buffers/perWindow), math.MaxInt32))
}

// memoryLimit returns how much memory this process may have: the least that its control groups
// (version 2) or the machine give.
func memoryLimit(root fs.FS) uint64 {
	limit := uint64(math.MaxInt64)
	if total, is := field(root, "proc/meminfo", "MemTotal:"); is {
		if kib, err := strconv.ParseUint(strings.TrimSuffix(total, " kB"), 10, 64); err == nil {
			limit = kib << 10
		}
	}
	group, is := field(root, "proc/self/cgroup", "0::")
	for ; is; group = path.Dir(group) {
		text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "memory.max"))
		if most, parseErr := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil && parseErr == nil { // else it is "max"
			limit = min(limit, most)
		}
		if group == "/" || group == "." {
			break
		}
	}
	return limit
}

// field returns what follows a key at the beginning of a line of a file.
func field(root fs.FS, name, key string) (value string, found bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return "", false
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, found = strings.CutPrefix(lines.Text(), key); found {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}
