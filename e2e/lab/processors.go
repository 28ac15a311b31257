package lab

import (
	"runtime"
	"sync"
)

// reserved counts the threads that must run the moment the kernel wakes them.
// Go lends a thread that returns from the kernel one of GOMAXPROCS slots; with
// as many slots as such threads none waits for a goroutine that computes, and
// the kernel's priorities decide alone.
var reserved struct {
	sync.Mutex
	threads int
	before  int
}

func reserveProcessors(threads int) (release func()) {
	adjust(threads)
	return func() { adjust(-threads) }
}

func adjust(threads int) {
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.threads == 0 {
		reserved.before = runtime.GOMAXPROCS(0)
	}
	reserved.threads += threads
	runtime.GOMAXPROCS(reserved.before + reserved.threads)
}
