package ledger

import (
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
)

// HoldForTest has the ledger hold a lease that was taken as long ago as those of its own last.
func (l *Ledger) HoldForTest(lease store.Lease) {
	l.memory, l.taken = lease, time.Now().Add(-rememberFor-RenewalInterval)
}
