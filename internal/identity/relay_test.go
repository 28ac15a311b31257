package identity_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
)

// Only a member's relay has a dot in its name, and the name says for which group it is.
func TestRelayNamesItsGroup(t *testing.T) {
	id := identity.RelayOf("models", "alice")
	group, member, relays := id.Relay()
	if err := id.Validate(); err != nil || !relays || group != "models" || member != "alice" {
		t.Errorf("%v is %s of %s, relays %v, %v", id, member, group, relays, err)
	}
	back, err := identity.ParseURI(id.URI("trust"), "trust")
	if err != nil || back != id {
		t.Errorf("read as %v, %v", back, err)
	}
	if _, _, relays := (identity.ID{Role: identity.Agent, Name: "node-7"}).Relay(); relays {
		t.Error("an agent of all groups is a relay")
	}
	for _, bad := range []identity.ID{
		{Role: identity.Agent, Name: "a.b.c"},
		{Role: identity.Agent, Name: ".models"},
		{Role: identity.Agent, Name: "alice."},
		{Role: identity.Member, Name: "alice.models"},
		{Role: identity.Operator, Name: "a.b"},
	} {
		if bad.Validate() == nil {
			t.Errorf("%v is taken for an identity", bad)
		}
	}
}
