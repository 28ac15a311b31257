package group

import (
	"encoding/json"
	"errors"
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

// mustCreateToken makes a token at a time.
func (r *Registry) mustCreateToken(t *testing.T, now time.Time) (text string) {
	t.Helper()
	asked := &groupv1.CreateTokenRequest{Role: "member", Name: "alice", Groups: []string{"models"}}
	made, err := r.CreateToken(t.Context(), identity.ID{}, asked, identity.Fingerprint{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return made.GetToken()
}
