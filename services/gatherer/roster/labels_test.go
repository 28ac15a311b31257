package roster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// Labels count if an operator says them. Those that a client says of itself count only if the policy trusts them.
func TestLabelsAreNotTrusted(t *testing.T) {
	for _, trust := range []bool{false, true} {
		f := start(t, policy.Policy{
			Rules: []policy.Rule{{Labels: map[string]string{"site": "a"}, Share: policy.Share{Priority: 7}}}, TrustLabels: trust,
		}, nil)
		labels := map[string]string{"site": "a"}
		_, err := f.Attach("alice", labels, identity.Peer{ID: member("alice")}, roster.Process{})
		f.must(err)
		_, err = f.Attach("bob", labels, identity.Peer{ID: operator}, roster.Process{})
		f.must(err)
		labels["site"] = "b" // it is the client's own map
		f.Review()
		want := map[string]int{"alice": 0, "bob": 7}
		if trust {
			want["alice"] = 7
		}
		for _, client := range f.Clients() {
			if client.Share.Priority != want[client.Name] {
				t.Errorf("trust %t: %s has priority %d, want %d", trust, client.Name, client.Share.Priority, want[client.Name])
			}
		}
	}
}

// When the policy changes whether clients' own labels count, that holds for attached clients, too, from the next round on.
func TestTrustInLabelsIsTakenAway(t *testing.T) {
	rules := policy.Policy{Rules: []policy.Rule{{Labels: map[string]string{"tier": "gold"}, Share: policy.Share{Priority: 7}}}, TrustLabels: true}
	f := start(t, rules, nil)
	for name, by := range map[string]identity.ID{"alice": member("alice"), "bob": operator} {
		_, err := f.Attach(name, map[string]string{"tier": "gold"}, identity.Peer{ID: by}, roster.Process{})
		f.must(err)
	}
	for _, one := range []struct {
		trust bool
		alice int
	}{{true, 7}, {false, 0}, {true, 7}} {
		rules.TrustLabels = one.trust
		_, err := f.policy.Set(rules, 0)
		f.must(err)
		f.Review()
		if all := f.Clients(); all[0].Share.Priority != one.alice || all[1].Share.Priority != 7 {
			t.Errorf("trust %t: priorities are %d and %d, want %d and 7", one.trust, all[0].Share.Priority, all[1].Share.Priority, one.alice)
		}
	}
}

// What a client says of itself has a bound, whether it counts or not, since it is kept. Many short labels take more than their text.
func TestLabelsHaveABound(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	many := func(count int) map[string]string {
		labels := make(map[string]string)
		for i := range count {
			labels[fmt.Sprintf("%03x", i)] = ""
		}
		return labels
	}
	for _, one := range []struct {
		labels map[string]string
		want   error
	}{
		{map[string]string{"site": strings.Repeat("a", 60<<10)}, nil},
		{map[string]string{"site": strings.Repeat("a", 65<<10)}, roster.ErrLabels},
		{many(900), nil},
		{many(1000), roster.ErrLabels},
		{many(20_000), roster.ErrLabels},
	} {
		_, err := f.Attach("alice", one.labels, identity.Peer{ID: member("alice")}, roster.Process{})
		if !errors.Is(err, one.want) {
			t.Errorf("with %d labels: %v, want %v", len(one.labels), err, one.want)
		}
	}
}
