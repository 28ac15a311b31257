package lab

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// heapLimit is how much memory this process may take before it collects garbage while links are emulated.
const heapLimit = 1 << 30

// reserved counts the threads that must run the moment the kernel wakes them.
//
// Go lends a thread that returns from the kernel one of GOMAXPROCS slots. With as many slots as
// such threads, none of them waits for a goroutine that computes, and only the kernel's priorities
// decide.
//
// Garbage is not collected meanwhile. A collector that looks at such a thread's stack makes the
// thread spin until it is done. On a small machine the spinning threads, with their priority, keep
// the collector from finishing, and everything stands still until the kernel intervenes, after most
// of a second.
var reserved struct {
	sync.Mutex
	threads     int
	processors  int // as they were before
	percent     int
	memoryLimit int64
}

func reserveProcessors(threads int) (release func()) {
	adjust(threads)
	return func() { adjust(-threads) }
}

func adjust(threads int) {
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.threads == 0 {
		reserved.processors = runtime.GOMAXPROCS(0)
		reserved.percent, reserved.memoryLimit = debug.SetGCPercent(-1), debug.SetMemoryLimit(heapLimit)
	}
	reserved.threads += threads
	runtime.GOMAXPROCS(reserved.processors + reserved.threads)
	if reserved.threads == 0 {
		debug.SetGCPercent(reserved.percent)
		debug.SetMemoryLimit(reserved.memoryLimit)
	}
}
