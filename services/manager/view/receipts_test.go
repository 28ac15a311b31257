package view

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Receipts are a map of which earlier values stay as they were.
func TestReceiptsAreValues(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var kept []Receipts
	var want []map[string]Receipt
	now, oracle := Receipts{}, map[string]Receipt{}
	for i := range 2000 {
		member := fmt.Sprint(random.IntN(300))
		if random.IntN(3) == 0 {
			now = now.Without(member)
			delete(oracle, member)
		} else {
			oracle[member] = Receipt{Changed: store.Revision(i)}
			now = now.With(member, oracle[member])
		}
		if i%100 == 0 {
			kept, want = append(kept, now), append(want, maps.Clone(oracle))
		}
	}
	for i, receipts := range kept {
		if got := maps.Collect(receipts.All()); !maps.Equal(got, want[i]) || receipts.Len() != len(want[i]) {
			t.Fatalf("seed %d: the %dth has %d receipts, want %d", seed, i, receipts.Len(), len(want[i]))
		}
	}
}

// Asking for a delivery costs the same, however many receipts it has.
func TestADeliveryIsShownWithoutCopies(t *testing.T) {
	v := New(nil, nil)
	v.entry("d").DeliveryRecord = &managerv1.DeliveryRecord{Delivery: &groupv1.Delivery{Id: "d"}}
	d := v.entry("d")
	for i := range 10_000 {
		d.Receipts = d.Receipts.With(fmt.Sprint(i), Receipt{})
	}
	if made := testing.AllocsPerRun(10, func() { v.Delivery("d") }); made > 1 {
		t.Errorf("to show a delivery with 10,000 receipts takes %v allocations", made)
	}
}
