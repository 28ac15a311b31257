package identity

import (
	"testing"
	"time"
	"unsafe"
)

// The managers' clock goes on correctly when the machine's date is set.
func TestClockOutlivesADateThatIsSet(t *testing.T) {
	var clock Clock
	manager := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	clock.Learn(manager)
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		local := dateSet(t, time.Now(), by)
		if off := clock.at(local).Sub(manager); off < 0 || off > time.Minute {
			t.Errorf("with the date set by %v it is %v off", by, off)
		}
	}
}

// dateSet returns a moment as time.Now does after the machine's date was changed by whole seconds: the monotonic reading stays
// the same.
func dateSet(t *testing.T, now time.Time, by time.Duration) time.Time {
	t.Helper()
	const secondsAt = 30 // seconds are above the nanoseconds in the wall clock word of a time
	moved := now
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(by/time.Second) << secondsAt // the only other way would set the date of the whole machine
	if got := moved.Round(0).Sub(now.Round(0)); got != by || moved.Sub(now) != 0 {
		t.Fatalf("the date is %v off, and %v has passed", got, moved.Sub(now))
	}
	return moved
}
