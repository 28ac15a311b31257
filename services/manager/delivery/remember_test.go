package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/view"
)

// ended returns deliveries of a group that have ended, with so many receipts each, each a second earlier than the one before.
func ended(group string, since, keep time.Duration, receipts ...int) (deliveries []view.Delivery) {
	for i, n := range receipts {
		delivery := stored(fmt.Sprint(group, i))
		at := time.Now().Add(-since - time.Duration(i)*time.Second)
		delivery.Delivery.Group, delivery.Delivery.Receipts = group, make([]*groupv1.Receipt, n)
		delivery.Delivery.State, delivery.Delivery.Sealed = groupv1.DeliveryState_DELIVERY_STATE_COMPLETE, true
		delivery.Delivery.CreateTime, delivery.Delivery.EndTime = timestamppb.New(at), timestamppb.New(at)
		delivery.Delivery.Spec = &groupv1.DeliverySpec{Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Keep: durationpb.New(keep)}
		for member := range delivery.Delivery.Receipts {
			delivery.Delivery.Receipts[member] = &groupv1.Receipt{Member: fmt.Sprintf("m%03d", member), State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE}
		}
		deliveries = append(deliveries, delivery)
	}
	return deliveries
}

// remembers writes deliveries, forgets those that are too many, and returns which are left.
func remembers(t *testing.T, most, receipts int, deliveries ...view.Delivery) (left []string) {
	t.Helper()
	d := leading(t)
	for _, delivery := range deliveries {
		d.write(t, delivery)
	}
	d.forgetDeliveries(t.Context(), most, receipts)
	if err := d.view.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, delivery := range d.view.Deliveries(func(view.Delivery) bool { return true }) {
		left = append(left, delivery.ID())
	}
	slices.Sort(left)
	return left
}

func names(group string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(group, i))
	}
	return names
}

// Where ended deliveries are too many, or have too many receipts, the oldest of the group that has the most are forgotten: nobody has another
// group's history forgotten.
func TestOfTooManyDeliveriesTheLargestGroupsAreForgotten(t *testing.T) {
	const day = 24 * time.Hour
	deliveries := slices.Concat(ended("loud", 0, 0, 1, 1, 1, 1, 1), ended("quiet", day, 0, 1, 1), ended("wide", 0, 0, 9, 8))
	for _, tt := range []struct {
		most, receipts int
		want           []string
	}{
		{9, 24, nil},
		{6, 24, []string{"loud2", "loud3", "loud4"}},
		{9, 16, []string{"wide1"}},
		{8, 15, []string{"loud4", "wide1"}},
		{0, 0, []string{"loud0", "loud1", "loud2", "loud3", "loud4", "quiet0", "quiet1", "wide0", "wide1"}},
	} {
		if got := slices.Sorted(maps.Keys(excess(deliveries, tt.most, tt.receipts))); !slices.Equal(got, tt.want) {
			t.Errorf("at most %d with %d receipts: %v are forgotten, want %v", tt.most, tt.receipts, got, tt.want)
		}
	}
}

// Another group's thousands of deliveries have none forgotten of a group that has few.
func TestNoGroupFillsTheHistoryOfAnother(t *testing.T) {
	quiet, loud := ended("quiet", 2*time.Hour, 0, 1, 1), ended("loud", time.Hour, 0, 1, 1, 1, 1)
	if left, want := remembers(t, 4, 100, append(quiet, loud...)...), []string{"loud0", "loud1", "quiet0", "quiet1"}; !slices.Equal(left, want) {
		t.Errorf("%v are remembered, want %v", left, want)
	}
}

// Deliveries that agents keep for members that come late are remembered beyond what is remembered of others, and not without end: by their
// number, and by their receipts.
func TestKeptDeliveriesAreBoundedToo(t *testing.T) {
	kept := ended("kept", time.Hour, 2*time.Hour, slices.Repeat([]int{10}, 10)...)
	for name, bound := range map[string]struct{ most, receipts int }{"by number": {2, 1000}, "by receipts": {1000, 20}} {
		t.Run(name, func(t *testing.T) {
			if left, want := remembers(t, bound.most, bound.receipts, kept...), names("kept", 8); !slices.Equal(left, want) {
				t.Errorf("%v are remembered, want %v", left, want)
			}
		})
	}
	t.Run("within the bounds", func(t *testing.T) {
		if left := remembers(t, 3, 30, kept...); len(left) != len(kept) {
			t.Errorf("%v are remembered, want all", left)
		}
	})
}

// Members are told for a while how a delivery has ended. Until then it is not forgotten, however many there are.
func TestDeliveryIsRememberedUntilMembersAreTold(t *testing.T) {
	fresh, older := ended("fresh", 0, 0, 1, 1, 1), ended("older", lingerMember, 0, 1)
	if left := remembers(t, 0, 0, append(fresh, older...)...); !slices.Equal(left, names("fresh", 3)) {
		t.Errorf("%v are remembered, want those that members are yet to be told of", left)
	}
}
