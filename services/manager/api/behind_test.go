package api

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger/ledgertest"
	"github.com/groupcast/groupcast/services/manager/view"
)

// following is a manager that does not lead.
type following struct{ Leading }

func (following) Registry() *group.Registry { return nil }

// behind is a manager that does not lead, with the rules by which the one that leads writes.
type behind struct {
	*Server
	led   *group.Registry
	again sync.WaitGroup // until it sees what is written
	stop  func()
}

// newBehind returns a manager that sees what is written until it is stopped.
func newBehind(t *testing.T) *behind {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	written, state, shown := ledgertest.Leading(t)
	b := &behind{Server: &Server{View: view.New(state, log), Leading: following{}}, led: group.Lead(written, state, shown, nil, log)}
	policy := &groupv1.Policy{MembersRelay: true}
	if _, err := b.led.CreateGroup(t.Context(), identity.ID{}, &groupv1.CreateGroupRequest{Name: "g", Policy: policy}); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	return b
}

// run has the manager see what is written, until it is stopped.
func (b *behind) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.View.Run(ctx, sync.OnceFunc(func() { close(loaded) })); err != nil {
			t.Error(err)
		}
	})
	b.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(b.stop)
	select {
	case <-loaded:
	case <-ctx.Done():
	}
}

// missing has the manager miss something, and see it a little later.
func (b *behind) missing(t *testing.T, do func()) {
	t.Helper()
	b.again.Wait()
	b.stop()
	do()
	b.again.Add(1)
	t.Cleanup(b.again.Wait)
	time.AfterFunc(100*time.Millisecond, func() {
		defer b.again.Done()
		b.run(t)
	})
}

func (b *behind) letIn(t *testing.T, groups ...string) {
	t.Helper()
	asked := &groupv1.CreateTokenRequest{Role: "member", Name: "alice", Groups: groups}
	token, err := b.led.CreateToken(t.Context(), identity.ID{}, asked, identity.Fingerprint{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.led.Redeem(t.Context(), &groupv1.EnrollRequest{Token: token.GetToken(), CertificateRequest: []byte("key")}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// A manager whose view is behind refuses nobody whom another one lets in: it asks the store first. Nor does it show what who asks may not see
// any more.
func TestWhoIsBehindJudgesByWhatIsSo(t *testing.T) {
	alice := identity.ID{Role: identity.Member, Name: "alice"}
	ctx := context.WithValue(t.Context(), callerKey{}, alice)
	for what, see := range map[string]func(b *behind) error{
		"its group": func(b *behind) error {
			_, err := (&groupService{server: b.Server}).GetGroup(ctx, &groupv1.GetGroupRequest{Name: "g"})
			return err
		},
		"its members": func(b *behind) error {
			_, err := (&sessionService{server: b.Server}).ListMembers(ctx, &groupv1.ListMembersRequest{Group: "g"})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBehind(t)
			if err := see(b); !errors.Is(err, errDenied) {
				t.Errorf("a stranger: %v", err)
			}
			b.missing(t, func() { b.letIn(t, "g") })
			if err := see(b); err != nil {
				t.Errorf("let in just now: %v", err)
			}
			b.missing(t, func() { b.letIn(t, "other") })
			if err := see(b); !errors.Is(err, errDenied) {
				t.Errorf("let into another group just now: %v", err)
			}
		})
	}
	t.Run("a relay", func(t *testing.T) {
		t.Parallel()
		b := newBehind(t)
		relays := func() error {
			return b.checkRevoked(ctx, identity.Peer{ID: identity.RelayOf("g", "alice"), Stamp: 1 << 40})
		}
		if err := relays(); !errors.Is(err, delivery.ErrSession) {
			t.Errorf("it relays without a session: %v", err)
		}
		b.missing(t, func() {
			b.letIn(t, "g")
			if _, err := b.led.Join(t.Context(), alice, &groupv1.JoinRequest{Group: "g", Name: "alice"}); err != nil {
				t.Error(err)
			}
		})
		if err := relays(); err != nil {
			t.Errorf("joined just now: %v", err)
		}
	})
}
