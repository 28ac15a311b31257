package identity

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testdate"
)

// The managers' clock goes on correctly when the machine's date is set.
func TestClockOutlivesADateThatIsSet(t *testing.T) {
	var clock Clock
	manager := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	clock.Learn(manager)
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		local := testdate.Set(t, time.Now(), by)
		if off := clock.at(local).Sub(manager); off < 0 || off > time.Minute {
			t.Errorf("with the date set by %v it is %v off", by, off)
		}
	}
}
