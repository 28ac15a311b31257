package ledger_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/ledger/ledgertest"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Requests are carried out as soon as the store has room again, also where it had none for so long that the lease of what is remembered ended.
func TestLeaseThatEndedIsNotUsed(t *testing.T) {
	l, state, _ := ledgertest.Leading(t)
	lease, err := state.Grant(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Commit(t.Context(), l.Term(), nil, []store.Op{store.PutLeased("note", nil, lease)}); err != nil {
		t.Fatal(err)
	}
	for deadline, left := time.Now().Add(time.Minute), true; left; time.Sleep(50 * time.Millisecond) {
		if _, left, err = state.Get(t.Context(), "note"); err != nil || time.Now().After(deadline) {
			t.Fatalf("the lease has not ended: %v", err)
		}
	}
	l.HoldForTest(lease)
	request, err := ledger.Identify(identity.ID{Role: identity.Member, Name: "m"}, "r", &groupv1.JoinRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is known
		plan := func() (ledger.Plan, error) { return ledger.Put("key", []byte("value"), 0), nil }
		if err := l.Write(t.Context(), request, &groupv1.JoinResponse{}, plan); err != nil {
			t.Error(err)
		}
	}
}
