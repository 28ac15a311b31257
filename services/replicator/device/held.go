package device

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// held is a device that this process has for itself, until it is closed: while an ended task has it still written, another waits.
type held struct {
	*os.File
	number uint64
}

func (h *held) Close() error {
	defer holding.add(h.number, -1)
	return h.File.Close()
}

// holding are the devices that this process has for itself, by their numbers.
var holding = holds{known: make(map[uint64]int)}

type holds struct {
	mu    sync.Mutex
	known map[uint64]int // a device is counted until its file is closed, and may be another's by then
}

func (h *holds) add(number uint64, change int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known[number] += change; h.known[number] == 0 {
		delete(h.known, number)
	}
}

func (h *holds) has(number uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[number] > 0
}

// hold opens a device for this process alone. The kernel refuses with O_EXCL what is mounted, swapped to, or part of something. When it
// does, isOurs reports whether that is because this process has it, or had it just before.
func hold(path string) (file *held, isOurs bool, err error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return nil, false, fmt.Errorf("look at %s: %w", path, err)
	}
	had := holding.has(stat.Rdev)
	opened, err := os.OpenFile(path, os.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, had || holding.has(stat.Rdev), err
	}
	holding.add(stat.Rdev, 1)
	return &held{opened, stat.Rdev}, false, nil
}
