package sdk

import (
	"context"
	"log/slog"
	"maps"
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

// A delivery that waits for a place says so to those who would fail it for nothing coming, until it has one, or is over. Of one that is kept,
// whose sender does not wait, nothing is said.
func TestWaitingForAPlaceIsTold(t *testing.T) {
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
		waits := func() map[string]bool {
			all := make(map[string]bool)
			for _, report := range s.attendance.report() {
				all[report.GetDelivery()] = report.GetQueued() && report.GetPaused()
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
		if got, want := waits(), map[string]bool{"first": false, "second": true, "third": true}; !maps.Equal(got, want) {
			t.Errorf("what waits is told as %v, want %v", got, want)
		}
		places.giveBack()
		synctest.Wait()
		if waits()["second"] {
			t.Error("what has a place still waits for one")
		}
		assign("third", func(a *groupv1.Assignment) { a.Ended, a.Reason = true, "canceled" })
		if _, is := waits()["third"]; is {
			t.Error("what is over still waits for a place")
		}
		assign("fourth", as)
		end()
		<-ended
		if left := waits(); len(left) > 0 {
			t.Errorf("%v is reported, though nothing is received", left)
		}
	})
}
