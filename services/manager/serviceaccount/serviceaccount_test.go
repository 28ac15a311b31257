package serviceaccount

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// answers is an API server that knows one answer.
type answers struct {
	pod     kubernetes.Pod
	problem string
	err     error
}

func (a answers) Review(context.Context, string, string) (kubernetes.Pod, string, error) {
	return a.pod, a.problem, a.err
}

var accounts = map[string]identity.Role{"ns/agent": identity.Agent, "ns/gatherer": identity.Gatherer, "ns/replicator": identity.Replicator, "ns/publisher": identity.Member}

// A pod can be nobody but the agent or the replicator of its own node, the gatherer of its own name, or the member of its account.
func TestNameIsTheNodesThePodsOrTheAccounts(t *testing.T) {
	for account, want := range map[string]identity.ID{
		"ns/agent":      {Role: identity.Agent, Name: "node-7"},
		"ns/replicator": {Role: identity.Replicator, Name: "node-7"},
		"ns/gatherer":   {Role: identity.Gatherer, Name: "gatherer-0"},
		"ns/publisher":  {Role: identity.Member, Name: MemberName("ns/publisher")},
	} {
		reviewer := New(answers{pod: kubernetes.Pod{Account: account, Name: "gatherer-0", Node: "node-7"}}, "groupcast", accounts)
		if id, err := reviewer.Review(t.Context(), "token"); err != nil || id != want {
			t.Errorf("%s: %v %v, want %v", account, id, err, want)
		}
	}
}

// The member of an account has a name of its own: no two accounts have one, and none is what somebody would write by hand.
func TestMemberNamesAreTheirOwn(t *testing.T) {
	seen := make(map[string]string)
	for _, account := range []string{"a/b", "a-b/c", "a/b-c", "a/b.c", "a/b-c.d", strings.Repeat("n", 63) + "/" + strings.Repeat("s", 253), strings.Repeat("n", 63) + "/s"} {
		name := MemberName(account)
		if err := identity.CheckName(name); err != nil {
			t.Errorf("%s: %v", account, err)
		}
		if other, taken := seen[name]; taken || name == strings.ReplaceAll(account, "/", "-") {
			t.Errorf("%s is called %s, as %s", account, name, other)
		}
		seen[name] = account
	}
	if name := MemberName("training/publisher"); !strings.HasPrefix(name, "training-publisher-") {
		t.Errorf("%s does not tell its account", name)
	}
}

// Members come and go: that none is here is nothing to tell of.
func TestMembersAreNoServices(t *testing.T) {
	services := New(nil, "groupcast", accounts).Services()
	if _, is := services["ns/publisher"]; is || len(services) != len(accounts)-1 {
		t.Errorf("services are %v", services)
	}
	var nobody *Reviewer
	if services := nobody.Services(); len(services) > 0 {
		t.Errorf("nobody has %v", services)
	}
}

func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		answer answers
		token  string
		want   error
	}{
		"another account":   {answers{pod: kubernetes.Pod{Account: "ns/default", Node: "n"}}, "t", ErrRefused},
		"another namespace": {answers{pod: kubernetes.Pod{Account: "other/agent", Node: "n"}}, "t", ErrRefused},
		"no pod":            {answers{pod: kubernetes.Pod{Account: "ns/agent"}}, "t", ErrRefused},
		"unknown":           {answers{problem: "expired"}, "t", ErrRefused},
		"too long":          {answers{pod: kubernetes.Pod{Account: "ns/agent", Node: "n"}}, strings.Repeat("t", maxToken+1), ErrRefused},
		"no server":         {answers{err: errors.New("refused")}, "t", ErrUnavailable},
	} {
		if id, err := New(c.answer, "groupcast", accounts).Review(t.Context(), c.token); !errors.Is(err, c.want) || id != (identity.ID{}) {
			t.Errorf("%s: %v %v", name, id, err)
		}
	}
}

// Who has no identity yet cannot have the API server asked without end.
func TestAsksTheServerSoOften(t *testing.T) {
	reviewer := New(answers{problem: "no"}, "groupcast", accounts)
	var limited *ledger.RateLimited
	for range 10 * reviewBurst {
		if _, err := reviewer.Review(t.Context(), "t"); errors.As(err, &limited) {
			return
		}
	}
	t.Error("never limited")
}

func TestJoinTokensAreNoServiceAccountTokens(t *testing.T) {
	if IsToken(identity.NewToken(identity.Fingerprint{}).String()) || IsToken("") || IsToken("ey.") || !IsToken("eyJhbGciOi.eyJpc3M.c2ln") {
		t.Error("mistaken")
	}
}
