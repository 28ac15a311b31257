// Package testdate gives tests moments as they are after the machine's date was set.
package testdate

import (
	"testing"
	"time"
	"unsafe"
)

// Set returns a moment as time.Now does after the machine's date was changed by whole seconds: the monotonic reading stays
// the same. It is also what time.Now returns on a machine that was suspended for so long.
func Set(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	const secondsAt = 30 // seconds are above the nanoseconds in the wall clock word of a time
	moved := now
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(by/time.Second) << secondsAt // the only other way would set the date of the whole machine
	if got := moved.Round(0).Sub(now.Round(0)); got != by || moved.Sub(now) != 0 {
		t.Fatalf("the date is %v off, and %v has passed", got, moved.Sub(now))
	}
	return moved
}
