package relay

import (
	"testing"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/relay"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// More deliveries that rest than a message can hold are told of in several; those that run, always.
func TestReportsHaveABound(t *testing.T) {
	begin := func(ended time.Time) *delivery {
		return &delivery{assignment: &groupv1.Assignment{Delivery: "id"}, account: algo.New(algo.Rules{}), ended: ended}
	}
	one, other, running := begin(time.Now()), begin(time.Now()), begin(time.Time{})
	room := 1
	if one.report(&room) == nil || other.report(&room) != nil || running.report(&room) == nil {
		t.Error("want one that rests to be told, and the one that runs")
	}
	room = 1
	if one.report(&room) != nil || other.report(&room) == nil || running.report(&room) == nil {
		t.Error("want the other one that rests to be told, and the one that runs")
	}
}
