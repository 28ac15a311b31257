package grant_test

import (
	"errors"
	"slices"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/gatherer/grant"
)

// Nobody's groups are known before a manager has said them. A change is of one member, and a snapshot replaces
// what was known.
func TestGrantsAreWhatTheManagersSay(t *testing.T) {
	var list grant.List
	if _, err := list.Of("alice"); !errors.Is(err, grant.ErrUnsure) {
		t.Errorf("before anything was heard: %v", err)
	}
	want := func(member string, groups ...string) {
		t.Helper()
		if got, err := list.Of(member); err != nil || !slices.Equal(got, groups) {
			t.Errorf("%s may join %q (%v), want %q", member, got, err, groups)
		}
	}
	of := func(member string, groups ...string) *groupv1.Grant {
		return &groupv1.Grant{Member: member, Groups: groups}
	}
	grant.Take(&list, uplink.GrantEvent{Snapshot: []*groupv1.Grant{of("alice", "icu"), of("bob", "lab", "icu")}})
	want("alice", "icu")
	want("carol")
	grant.Take(&list, uplink.GrantEvent{Change: of("alice", "lab")})
	want("alice", "lab")
	want("bob", "lab", "icu")
	grant.Take(&list, uplink.GrantEvent{})
	want("bob")
}
