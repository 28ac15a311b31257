package sdk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/object"
)

// A member that has something as long as the object, as its version before, may have hashed that minutes before the sender has hashed its
// source. It gets on all that time, as far as anybody knows who would fail it for nothing coming. Then it sees that this is not the object.
func TestWaitingForTheSendersHashIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		into := t.TempDir()
		if err := os.WriteFile(filepath.Join(into, "it"), []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := receivingOf(into, object.Info{Name: "it", Kind: object.File, Length: 6, Mode: 0o600}, []byte("behind"))
		sealed, _ := r.session.attendance.assignment("d")
		r.session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{{Delivery: "d"}}})
		found := make(chan bool, 1)
		go func() {
			_, is := r.alreadyHere(t.Context())
			found <- is
		}()
		synctest.Wait()
		for begun := time.Now(); time.Since(begun) < 11*time.Minute; {
			before := r.standing().GetReads()
			time.Sleep(30 * time.Second) // half of what managers wait
			if r.standing().GetReads() == before {
				t.Fatalf("nothing has got on after %v", time.Since(begun))
			}
		}
		r.session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{sealed}})
		if <-found {
			t.Error("another object is taken for the one that is sent")
		}
	})
}

// It ends with its receiver.
func TestWaitingForTheSendersHashEnds(t *testing.T) {
	r := receivingOf(t.TempDir(), object.Info{}, nil)
	r.session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{{Delivery: "d"}}})
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := r.awaitHash(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was canceled", err)
	}
}

// While another delivery of the same lands at a member, nothing comes of this one. It gets on for as long as that other does, as far as
// anybody knows who would fail it for that, and no longer. Once it is canceled, it ends.
func TestWaitingForAnotherDeliveryOfTheSameIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receivingOf(t.TempDir(), object.Info{Name: "it", Kind: object.File, Length: 6, Mode: 0o600}, []byte("behind"))
		lands, err := object.Land(t.Context(), r.options.Into, r.info)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lands.Keep() }()
		other := receivingOf(r.options.Into, r.info, []byte("behind"))
		_, release := r.place().landing.take(t.Context(), other)
		defer release()
		ended := make(chan Arrived, 1)
		go func() { ended <- r.receive(t.Context()) }()
		for begun := time.Now(); time.Since(begun) < 11*time.Minute; {
			before := r.standing().GetReads()
			other.update(func() { other.moved = time.Now() })
			time.Sleep(30 * time.Second) // half of what managers wait
			if r.standing().GetReads() == before {
				t.Fatalf("nothing has got on after %v", time.Since(begun))
			}
		}
		stands := r.standing().GetReads()
		time.Sleep(time.Hour)
		if got := r.standing().GetReads() - stands; got > 0 {
			t.Errorf("it has got on %d times beside one that stands", got)
		}
		begun := r.place().landing.begin(other)
		time.Sleep(time.Minute)
		if r.standing().GetReads() == stands {
			t.Error("it has not got on beside one that reads what is there before it lands")
		}
		begun()
		r.session.attendance.assign(&groupv1.Assignments{Current: []*groupv1.Assignment{{Delivery: "d", Ended: true, Reason: "canceled", Detail: "by its sender"}}})
		synctest.Wait()
		select {
		case one := <-ended:
			if failed := (*DeliveryError)(nil); !errors.As(one.Err, &failed) || failed.Reason != "canceled" || failed.Detail != "by its sender" {
				t.Errorf("%v, want that it was canceled by its sender", one.Err)
			}
		default:
			t.Error("it waits on, though it was canceled")
		}
	})
}
