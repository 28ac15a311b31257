package sdk

import "testing"

// No more deliveries are received at once than there are places, and a place that is given back wakes whoever waits.
func TestPlaces(t *testing.T) {
	p := newPlaces(1)
	if !p.take() || p.take() {
		t.Fatal("want one place")
	}
	p.giveBack()
	select {
	case <-p.free:
	default:
		t.Error("nobody hears that a place is free")
	}
	if !p.take() {
		t.Error("a place that was given back is not free")
	}
	if all := newPlaces(0); all.most < 1 {
		t.Errorf("%d places where none are named", all.most)
	}
}
