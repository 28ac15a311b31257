package group

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

// A token's lease goes on for longer than the token is good when managers are started again: its time begins anew then. The token ends
// nevertheless.
func TestC30TokenEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	r, now := leading(t), time.Now()
	redeem := func(ago time.Duration) error {
		text := r.mustCreateToken(t, now.Add(-ago))
		_, err := r.Redeem(t.Context(), &groupv1.EnrollRequest{Token: text, CertificateRequest: []byte("a key")}, now)
		return err
	}
	const lifetime = identity.MaxTokenLifetime
	for _, ago := range []time.Duration{-tokenTolerance, 0, lifetime, lifetime + tokenTolerance} {
		if err := redeem(ago); err != nil {
			t.Errorf("%v after it was made: %v", ago, err)
		}
	}
	for _, ago := range []time.Duration{lifetime + tokenTolerance + time.Second, 24 * time.Hour} {
		if err := redeem(ago); !errors.Is(err, ErrToken) {
			t.Errorf("%v after it was made: %v, want it refused", ago, err)
		}
	}
}

// A token that was used has an end, too: the request that has used it up, and may come again, does not get in by a backup that is restored.
func TestC30UsedTokenEnds(t *testing.T) {
	t.Parallel()
	r, now := leading(t), time.Now()
	asked := &groupv1.EnrollRequest{Token: r.mustCreateToken(t, now), CertificateRequest: []byte("a key")}
	for range 2 {
		if _, err := r.Redeem(t.Context(), asked, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Redeem(t.Context(), asked, now.Add(24*time.Hour)); !errors.Is(err, ErrToken) {
		t.Errorf("a day later: %v, want it refused", err)
	}
}

// A token of an earlier version has no end but that of its lease.
func TestTokenWithoutEndIsGood(t *testing.T) {
	t.Parallel()
	r, now := leading(t), time.Now()
	text := r.mustCreateToken(t, now)
	token, err := identity.ParseToken(text)
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := json.Marshal(map[string]any{"hash": token.Hash(), "id": identity.ID{Role: identity.Member, Name: "alice"}, "groups": []string{"models"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Commit(t.Context(), r.term, nil, []store.Op{store.PutKeepingLease(tokenKey(token.ID), earlier)}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Redeem(t.Context(), &groupv1.EnrollRequest{Token: text, CertificateRequest: []byte("a key")}, now.Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

// once is a context that is canceled when something is so.
type once struct {
	context.Context
	isSo   func() bool
	cancel context.CancelFunc
}

func (o once) look() {
	if o.isSo() {
		o.cancel()
	}
}

func (o once) Done() <-chan struct{} {
	o.look()
	return o.Context.Done()
}

func (o once) Err() error {
	o.look()
	return o.Context.Err()
}

// A member that is let into another group does not keep its session in the former one, though whoever enrolls is interrupted as soon as the token
// is used.
func TestMemberIsPutOutThoughItsEnrolmentIsInterrupted(t *testing.T) {
	t.Parallel()
	r, alice := leading(t), identity.ID{Role: identity.Member, Name: "alice"}
	r.mustCreateGroup(t, "models")
	r.mustLetIn(t, "models")
	r.mustJoin(t, alice, "models")
	text := r.mustCreateToken(t, time.Now(), "logs")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupted := once{ctx, func() bool { return Includes(r.view.Identity(alice).Groups, "logs") }, cancel}
	_, _ = r.Redeem(interrupted, &groupv1.EnrollRequest{Token: text, CertificateRequest: []byte("a key")}, time.Now())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	for deadline := time.Now().Add(Expiry / 2); ; time.Sleep(20 * time.Millisecond) {
		if _, isJoined := r.view.Member("models", "alice"); !isJoined {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it keeps its session")
		}
	}
	if end := r.view.SessionEnd("models", "alice"); end != groupv1.MemberState_MEMBER_STATE_EXPELLED {
		t.Errorf("its session ended %v", end)
	}
}

// A join that is on its way while its member is let into other groups alone is not carried out.
func TestJoinDoesNotOutlastItsPermission(t *testing.T) {
	t.Parallel()
	r, alice := leading(t), identity.ID{Role: identity.Member, Name: "alice"}
	r.mustCreateGroup(t, "models")
	r.mustLetIn(t, "models")
	asked := &groupv1.JoinRequest{Group: "models", Name: "alice"}
	planned, err := r.planJoin(alice, asked, new(turn), new(groupv1.JoinResponse))
	if err != nil {
		t.Fatal(err)
	}
	r.mustLetIn(t, "logs")
	if _, err := r.store.Commit(t.Context(), r.term, planned.Conditions, planned.Changes); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the join is written: %v", err)
	}
	if _, err := r.Join(t.Context(), alice, asked); !errors.Is(err, ErrNotLetIn) {
		t.Errorf("it joins: %v", err)
	}
	r.mustJoin(t, identity.ID{Role: identity.Operator, Name: "admin"}, "models") // it may join as anybody
}

func (r *Registry) mustLetIn(t *testing.T, groups ...string) {
	t.Helper()
	asked := &groupv1.EnrollRequest{Token: r.mustCreateToken(t, time.Now(), groups...), CertificateRequest: []byte("a key")}
	if _, err := r.Redeem(t.Context(), asked, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func (r *Registry) mustJoin(t *testing.T, as identity.ID, group string) {
	t.Helper()
	if _, err := r.Join(t.Context(), as, &groupv1.JoinRequest{Group: group, Name: "alice"}); err != nil {
		t.Fatal(err)
	}
}

// mustCreateToken makes a token at a time, with which alice is let into groups; into models if none are named.
func (r *Registry) mustCreateToken(t *testing.T, now time.Time, groups ...string) (text string) {
	t.Helper()
	if len(groups) == 0 {
		groups = []string{"models"}
	}
	asked := &groupv1.CreateTokenRequest{Role: "member", Name: "alice", Groups: groups}
	made, err := r.CreateToken(t.Context(), identity.ID{}, asked, identity.Fingerprint{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return made.GetToken()
}
