package identity_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
)

func TestSessionsAreNamedAfterTheirMember(t *testing.T) {
	for name, good := range map[string]bool{
		"alice": true, "alice.push-1": true, "": false, ".": false, "alice.": false, ".push": false, "alice.push.1": false, "Alice.push": false, "alice/push": false,
	} {
		if err := identity.CheckSession(name); (err == nil) != good {
			t.Errorf("%q: %v, want it good: %v", name, err, good)
		}
	}
}

func TestWhoMayBeWhom(t *testing.T) {
	for _, tt := range []struct {
		role    identity.Role
		session string
		may     bool
	}{
		{identity.Member, "alice", true},
		{identity.Member, "alice.push", true},
		{identity.Member, "bob", false},
		{identity.Member, "bob.alice", false},
		{identity.Member, "alice2", false},
		{identity.Operator, "bob.push", true},
		{identity.Replicator, "alice", true},
		{identity.Replicator, "alice.push", false},
		{identity.Agent, "alice", false},
		{identity.Gatherer, "alice", false},
		{identity.Gateway, "alice", false},
	} {
		if may := (identity.ID{Role: tt.role, Name: "alice"}).MayBe(tt.session); may != tt.may {
			t.Errorf("%s alice as %s: %v", tt.role, tt.session, may)
		}
	}
}
