package sdk

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

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

// A delivery that waits for a place gets on, as far as anybody knows who would fail it for nothing coming, until it has one, or is over. Of
// one that is kept, whose sender does not wait, nothing is said.
func TestWaitingForAPlaceIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{client: &Client{log: slog.New(slog.DiscardHandler)}}
		s.attendance = newAttendance(s.client)
		created := time.Now()
		assign := func(id string, change func(*groupv1.Assignment)) {
			created = created.Add(-time.Second) // the latest is received first
			assignment := &groupv1.Assignment{
				Delivery: id, Duty: groupv1.Duty_DUTY_RECEIVE, CreateTime: timestamppb.New(created),
				Spec: &groupv1.DeliverySpec{Name: id, Kind: groupv1.DeliveryKind_DELIVERY_KIND_FILE, Length: 1, Mode: 0o600},
			}
			change(assignment)
			s.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{assignment}})
			synctest.Wait()
		}
		as := func(*groupv1.Assignment) {}
		reads := func() map[string]uint64 {
			all := make(map[string]uint64)
			for _, report := range s.attendance.report() {
				all[report.GetDelivery()] = report.GetReads()
			}
			return all
		}
		assign("first", as)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		places, options := newPlaces(1), ReceiveOptions{Into: t.TempDir(), AtOnce: 1}
		go func() {
			defer close(ended)
			s.receiveAll(ctx, options, places, nil)
		}()
		synctest.Wait()
		assign("second", as)
		assign("third", as)
		assign("kept", func(a *groupv1.Assignment) { a.Late = true })
		before := reads()
		after := reads()
		for _, id := range []string{"second", "third"} {
			if after[id] <= before[id] {
				t.Errorf("%s, which waits, has got on %d times, and then %d", id, before[id], after[id])
			}
		}
		if len(after) != 3 {
			t.Errorf("%v is reported, want first, second and third", after)
		}
		places.giveBack()
		synctest.Wait()
		if before, after := reads(), reads(); after["second"] != before["second"] {
			t.Error("what has a place still waits for one")
		}
		assign("third", func(a *groupv1.Assignment) { a.Ended, a.Reason = true, "canceled" })
		if _, is := reads()["third"]; is {
			t.Error("what is over still waits for a place")
		}
		assign("fourth", as)
		end()
		<-ended
		if left := reads(); len(left) > 0 {
			t.Errorf("%v is reported, though nothing is received", left)
		}
	})
}
