package serviceaccount

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// token is what a pod of an account (namespace/name) shows.
func token(account, audience, uid string) string {
	claims := fmt.Sprintf(`{"sub":"system:serviceaccount:%s","aud":[%q],"kubernetes.io":{"pod":{"name":"p","uid":%q}}}`,
		strings.Replace(account, "/", ":", 1), audience, uid)
	return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

var accounts = map[string]identity.Role{"ns/agent": identity.Agent, "ns/gatherer": identity.Gatherer, "ns/replicator": identity.Replicator, "ns/publisher": identity.Member}

// A pod can only be the agent or the replicator of its own node, the gatherer of its own name, or the member of its account.
func TestNameIsTheNodesThePodsOrTheAccounts(t *testing.T) {
	for account, want := range map[string]identity.ID{
		"ns/agent":      {Role: identity.Agent, Name: "node-7"},
		"ns/replicator": {Role: identity.Replicator, Name: "node-7"},
		"ns/gatherer":   {Role: identity.Gatherer, Name: "gatherer-0"},
		"ns/publisher":  {Role: identity.Member, Name: MemberName("ns/publisher")},
	} {
		reviewer := New(answers{pod: kubernetes.Pod{Account: account, Name: "gatherer-0", Node: "node-7"}}, "groupcast", accounts)
		if id, err := reviewer.Review(t.Context(), token(account, "groupcast", "u")); err != nil || id != want {
			t.Errorf("%s: %v %v, want %v", account, id, err, want)
		}
	}
}

// The member of an account has a name of its own: no two accounts have the same, and none has one that somebody would write by hand.
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

// Members come and go: if none is here, that is not worth telling.
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
	ours := token("ns/agent", "groupcast", "u")
	for name, c := range map[string]struct {
		answer answers
		token  string
		want   error
	}{
		"another account":   {answers{pod: kubernetes.Pod{Account: "ns/default", Name: "p", Node: "n"}}, ours, ErrRefused},
		"another namespace": {answers{pod: kubernetes.Pod{Account: "other/agent", Name: "p", Node: "n"}}, ours, ErrRefused},
		"no pod":            {answers{pod: kubernetes.Pod{Account: "ns/agent"}}, ours, ErrRefused},
		"a node alone":      {answers{pod: kubernetes.Pod{Account: "ns/agent", Node: "n"}}, ours, ErrRefused},
		"unknown":           {answers{problem: "expired"}, ours, ErrRefused},
		"too long":          {answers{pod: kubernetes.Pod{Account: "ns/agent", Name: "p", Node: "n"}}, ours + strings.Repeat("t", maxToken), ErrRefused},
		"no server":         {answers{err: errors.New("refused")}, ours, ErrUnavailable},
	} {
		if id, err := New(c.answer, "groupcast", accounts).Review(t.Context(), c.token); !errors.Is(err, c.want) || id != (identity.ID{}) {
			t.Errorf("%s: %v %v", name, id, err)
		}
	}
}

// server knows all tokens except those that were made up, and counts how often it is asked.
type server struct{ asked int }

func (s *server) Review(_ context.Context, token, _ string) (kubernetes.Pod, string, error) {
	s.asked++
	if strings.HasPrefix(kubernetes.ClaimsOf(token).PodUID, "made-up") {
		return kubernetes.Pod{}, "the API server does not know the token", nil
	}
	return kubernetes.Pod{Account: "ns/publisher", Name: "p", Node: "n"}, "", nil
}

// A token that belongs to no account with a role here keeps nobody out, and the API server is not asked about it.
func TestJunkKeepsNobodyOut(t *testing.T) {
	for name, junk := range map[string]string{
		"no JWT":          "ey.x.y",
		"no claims":       "ey." + base64.RawURLEncoding.EncodeToString([]byte(`[]`)) + ".y",
		"no account":      token("", "groupcast", "u"),
		"another account": token("ns/default", "groupcast", "u"),
		"others' tokens":  token("ns/publisher", "https://kubernetes.default.svc", "u"),
	} {
		api := new(server)
		reviewer := New(api, "groupcast", accounts)
		for range 2 * reviewBurst {
			if _, err := reviewer.Review(t.Context(), junk); !errors.Is(err, ErrRefused) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if api.asked > 0 {
			t.Errorf("%s: the API server was asked %d times", name, api.asked)
		}
		if _, err := reviewer.Review(t.Context(), token("ns/publisher", "groupcast", "u")); err != nil {
			t.Errorf("%s: a pod is not let in: %v", name, err)
		}
	}
}

// Somebody who makes up tokens that look true, too many for the API server to be asked about, does not keep out pods that were let in before. A
// pod that comes too often is one of the crowd.
func TestKnownPodsAreLetInAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reviewer := New(new(server), "groupcast", accounts)
		review := func(uid string) error {
			_, err := reviewer.Review(t.Context(), token("ns/publisher", "groupcast", uid))
			return err
		}
		flood := func() {
			for n := range 2 * reviewBurst {
				var limited *ledger.RateLimited
				if errors.As(review(fmt.Sprint("made-up-", n)), &limited) {
					return
				}
			}
			t.Fatal("never limited")
		}
		if err := review("known"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			flood()
			if err := review("known"); err != nil {
				t.Errorf("a pod that is known: %v", err)
			}
			time.Sleep(identity.CertificateLifetime / 2)
		}
		flood()
		for range podBurst {
			if err := review("known"); err != nil {
				t.Error(err)
			}
		}
		if err := review("known"); err == nil {
			t.Errorf("a pod is let in %d times at once when others are not at all", podBurst+1)
		}
	})
}

// What is remembered of pods is bounded, and those that are gone make room.
func TestPodsAreForgotten(t *testing.T) {
	known, now := newPods(), time.Now()
	for n := range podsMost + 1 {
		known.letIn(fmt.Sprint(n), now)
	}
	if len(known.known) != podsMost {
		t.Errorf("%d pods are known, want %d", len(known.known), podsMost)
	}
	known.letIn("late", now.Add(identity.CertificateLifetime+1))
	if len(known.known) != 1 || !known.allow("late") {
		t.Errorf("%d pods are known, want the one that is not gone", len(known.known))
	}
}

func TestJoinTokensAreNoServiceAccountTokens(t *testing.T) {
	if IsToken(identity.NewToken(identity.Fingerprint{}).String()) || IsToken("") || IsToken("ey.") || !IsToken("eyJhbGciOi.eyJpc3M.c2ln") {
		t.Error("mistaken")
	}
}
