package delivery

import (
	"io/fs"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testdate"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// The capabilities that nodes hold are in force by the date, which all check them by, also after it was set, or the machine was suspended.
func TestCapabilitiesAreRenewedByTheDate(t *testing.T) {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	manager, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Manager, Name: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	held, err := manager.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	u := serve(t, fileSpec())
	u.desk.signer = manager
	now := time.Now()
	for _, by := range []time.Duration{0, -2 * time.Minute, 21 * time.Minute} {
		moved := testdate.Set(t, now, by)
		due := u.publish(u.shown(), moved)
		token := u.assigned[placement.MemberID("m1")].GetCapability()
		if _, err := identity.CheckCapability(token, held.Roots, identity.DefaultTrustDomain, moved); err != nil {
			t.Errorf("with the date set by %v: %v", by, err)
		}
		if left := due.Sub(moved); left <= 0 || left > identity.CapabilityRenewal {
			t.Errorf("with the date set by %v they are renewed in %v", by, left)
		}
		now = now.Add(time.Second)
	}
	// Without credentials it is tried again, and not without a pause.
	u.desk.signer = unreadable{}
	now = now.Add(time.Hour)
	if due := u.publish(u.shown(), now); due.Sub(now) != fullPause {
		t.Errorf("without credentials it is tried again in %v, want %v", due.Sub(now), fullPause)
	}
}

// unreadable is credentials whose files cannot be read.
type unreadable struct{}

func (unreadable) Credentials() (*identity.Credentials, error) { return nil, fs.ErrPermission }

// When the date is set, deliveries are looked at at once. When time only passes they are not.
func TestDateThatIsSetIsNoticed(t *testing.T) {
	d := newDesk()
	k, now := d.keep("d"), time.Now()
	for i, tt := range []struct {
		by      time.Duration // the date is off since then
		noticed bool
	}{{0, false}, {-time.Minute, true}, {-time.Minute, false}, {time.Hour, true}} {
		now = now.Add(sweepInterval)
		d.lookAtDate(testdate.Set(t, now, tt.by))
		select {
		case <-k.pokes:
			if !tt.noticed {
				t.Errorf("%d: it is looked at", i)
			}
		default:
			if tt.noticed {
				t.Errorf("%d: it is not looked at", i)
			}
		}
	}
}
