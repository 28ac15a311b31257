package ledger_test

import (
	"errors"
	"testing"

	"github.com/groupcast/groupcast/services/manager/ledger"
)

// Whoever registers again is replaced only by a newer one. Where a backup was put back, all are newer than it knows, and nobody is replaced.
func TestWhoRegistersAgain(t *testing.T) {
	for _, test := range []struct {
		asked, current uint64
		goesOn         bool
		replaced       bool
	}{
		{0, 0, false, false},
		{0, 7, false, false},
		{7, 0, false, false},
		{7, 7, true, false},
		{7, 8, false, true},
		{8, 7, false, false},
	} {
		goesOn, err := ledger.GoesOn(test.asked, test.current)
		if goesOn != test.goesOn || errors.Is(err, ledger.ErrReplaced) != test.replaced {
			t.Errorf("%d where %d is known: goes on %v, %v", test.asked, test.current, goesOn, err)
		}
	}
}
