package api

import (
	"errors"
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
)

// What one manager writes of a caller, another one can read.
func TestForwardedCaller(t *testing.T) {
	s := &Server{TrustDomain: "example.org"}
	caller := identity.Peer{ID: identity.ID{Role: identity.Member, Name: "alice"}, Stamp: 42}
	read, err := s.parseCaller(s.formatCaller(caller))
	if err != nil || read != caller {
		t.Errorf("read %+v (%v), want %+v", read, err, caller)
	}
	if header := s.formatCaller(identity.Peer{}); header != anonymousCaller {
		t.Errorf("nobody is written as %q", header)
	}
	for _, garbled := range []string{
		"", "alice", "://", "spiffe://example.org/groupcast/member/alice", "spiffe://example.org/groupcast/member/alice#x",
		"spiffe://elsewhere.org/groupcast/member/alice#42", "spiffe://example.org/groupcast/root/alice#42",
	} {
		if _, err := s.parseCaller(garbled); !errors.Is(err, identity.ErrForeign) {
			t.Errorf("%q: %v, want it refused as foreign", garbled, err)
		}
	}
}
