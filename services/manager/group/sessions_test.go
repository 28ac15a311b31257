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

func (r *Registry) mustCreateGroup(t *testing.T, name string, limits *groupv1.Limits) {
	t.Helper()
	if _, err := r.CreateGroup(t.Context(), identity.ID{}, &groupv1.CreateGroupRequest{Name: name, Policy: &groupv1.Policy{Limits: limits}}); err != nil {
		t.Fatal(err)
	}
}

// A join is remembered for an hour, with all that it said: no member can fill the store by joining again and again under ever new names. Nor is
// one kept from it that has many sessions, or joins often and says little.
func TestOneMemberCannotFillTheStore(t *testing.T) {
	t.Parallel()
	r := leading(t)
	r.mustCreateGroup(t, "g", nil)
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
