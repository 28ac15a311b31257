package lab

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Usage is what an ended program has consumed.
type Usage struct {
	Processor  time.Duration // user and system time, with children it waited for
	PeakMemory link.Bytes    // largest resident size seen, with its children
	Took       time.Duration
}

// Usage tells the consumption of an ended program; before that it is zero.
func (p *Process) Usage() Usage {
	select {
	case <-p.ended:
	default:
		return Usage{}
	}
	state := p.cmd.ProcessState
	u := Usage{Processor: state.UserTime() + state.SystemTime(), PeakMemory: link.Bytes(p.watch.peak.Load()), Took: p.took}
	if rusage, ok := state.SysUsage().(*syscall.Rusage); ok && u.PeakMemory == 0 {
		u.PeakMemory = link.Bytes(rusage.Maxrss) * link.KiB
	}
	return u
}

// PeakMemory tells the largest resident size of a running program so far, without its
// children.
func (p *Process) PeakMemory() link.Bytes { return link.Bytes(highWater(p.Pid())) }

// memoryWatch samples the peak resident size of a process and its children.
// The kernel's own ru_maxrss is of no use for a small program: it starts with the size of the process that started the program.
type memoryWatch struct {
	peak atomic.Int64
	quit chan struct{}
	done sync.WaitGroup
}

const memoryInterval = 20 * time.Millisecond

func watchMemory(pid int) *memoryWatch {
	w := &memoryWatch{quit: make(chan struct{})}
	w.done.Go(func() {
		ticker := time.NewTicker(memoryInterval)
		defer ticker.Stop()
		for {
			if now := peakOfTree(pid); now > w.peak.Load() {
				w.peak.Store(now)
			}
			select {
			case <-w.quit:
				return
			case <-ticker.C:
			}
		}
	})
	return w
}

func (w *memoryWatch) stop() {
	close(w.quit)
	w.done.Wait()
}

func peakOfTree(pid int) int64 {
	total := highWater(pid)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(field); err == nil {
			total += peakOfTree(child)
		}
	}
	return total
}

func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kilobytes * 1024
		}
	}
	return 0
}
