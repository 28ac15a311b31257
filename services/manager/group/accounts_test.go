package group

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/view"
)

// An identity that its ServiceAccount does not let in since it was revoked is told the whole command that an operator has to give.
func TestWhoWasRevokedIsToldTheCommand(t *testing.T) {
	for name, test := range map[string]struct {
		id     identity.ID
		groups []string
		want   string
	}{
		"an agent":         {identity.ID{Role: identity.Agent, Name: "node-7"}, nil, "'groupcast identity admit agent/node-7'"},
		"a member":         {identity.ID{Role: identity.Member, Name: "m"}, []string{"models", "builds"}, "'groupcast identity admit member/m --group models,builds'"},
		"a member of all":  {identity.ID{Role: identity.Member, Name: "m"}, []string{AllGroups}, "'groupcast identity admit member/m --group GROUP'"},
		"a member of none": {identity.ID{Role: identity.Member, Name: "m"}, nil, "'groupcast identity admit member/m --group GROUP'"},
	} {
		err := checkForgiven(test.id, view.Identity{Revoked: 1, Groups: test.groups})
		if err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s is told %v, want %s", name, err, test.want)
		}
	}
}
