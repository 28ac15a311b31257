package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

func (r *Registry) mustCreateGroup(t *testing.T, name string) {
	t.Helper()
	if _, err := r.CreateGroup(t.Context(), identity.ID{}, &groupv1.CreateGroupRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// A join is remembered for an hour, with all that it said: no member can fill the store by joining again and again under ever new names. Nor is
// one kept from it that has many sessions, or joins often and says little.
func TestOneMemberCannotFillTheStore(t *testing.T) {
	t.Parallel()
	r := leading(t)
	r.mustCreateGroup(t, "g")
	long := make(map[string]string)
	for i := range maxLabels {
		long[fmt.Sprint(i, strings.Repeat("k", 200))] = strings.Repeat("v", maxTextLength)
	}
	come := func(times int, name string, labels map[string]string) (came int, err error) {
		for ; came < times && err == nil; came++ {
			session := fmt.Sprintf("%s.%d", name, came)
			if _, err = r.Join(t.Context(), identity.ID{}, &groupv1.JoinRequest{Group: "g", Name: session, Labels: labels}); err == nil {
				_, err = r.Leave(t.Context(), identity.ID{}, &groupv1.LeaveRequest{Group: "g", Name: session})
			}
		}
		return came, err
	}
	limited := new(ledger.RateLimited)
	if came, err := come(300, "mallory", long); !errors.As(err, &limited) || came <= maxSessions {
		t.Errorf("after %d joins with much to say: %v, want it limited after %d at least", came, err, maxSessions)
	}
	if came, err := come(300, "alice", map[string]string{"zone": "a"}); err != nil {
		t.Errorf("after %d joins with little to say: %v", came, err)
	}
}

// Of two that come for a group's last place, one gets it. One that is refused for another reason takes nobody's place, however long it is on its
// way.
func TestTheLastPlaceIsSomebodys(t *testing.T) {
	t.Parallel()
	r := leading(t)
	if _, err := r.CreateGroup(t.Context(), identity.ID{}, &groupv1.CreateGroupRequest{Name: "g", Policy: &groupv1.Policy{
		Limits: &groupv1.Limits{MaxMembers: 1}, AllowedRoles: []groupv1.Role{groupv1.Role_ROLE_SEND},
	}}); err != nil {
		t.Fatal(err)
	}
	come := func(name string, role groupv1.Role) (plan func() error, leave func()) {
		turn := &turn{seat: seat{"g", name}}
		asked := &groupv1.JoinRequest{Group: "g", Name: name, Roles: []groupv1.Role{role}}
		return func() error {
			_, err := r.planJoin(identity.ID{}, asked, turn, new(groupv1.JoinResponse))
			return err
		}, func() { r.release(turn) }
	}
	refused, leave := come("c", groupv1.Role_ROLE_RECEIVE)
	defer leave()
	first, firstLeaves := come("b", groupv1.Role_ROLE_SEND)
	second, secondLeaves := come("a", groupv1.Role_ROLE_SEND)
	defer secondLeaves()
	for range 2 { // both look again
		if err := refused(); !errors.Is(err, ErrRoleNotAllowed) {
			t.Errorf("one may not: %v", err)
		}
		if err := first(); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := second(); !errors.Is(err, ErrGroupFull) {
			t.Errorf("the second: %v", err)
		}
	}
	again, againLeaves := come("b", groupv1.Role_ROLE_SEND) // the same member, as when it is asked again
	if err := again(); err != nil {
		t.Errorf("the first, again: %v", err)
	}
	firstLeaves()
	if err := second(); !errors.Is(err, ErrGroupFull) {
		t.Errorf("the second, while the first is still asked for: %v", err)
	}
	againLeaves()
	if err := second(); err != nil {
		t.Errorf("the second, once the first is gone: %v", err)
	}
}
