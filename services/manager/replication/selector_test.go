package replication

import (
	"slices"
	"strings"
	"testing"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

var machines = []*replicav1.Replicator{
	{Name: "r1", Node: "node-1", Lans: []string{"rack1"}, Labels: map[string]string{"role": "worker"}},
	{Name: "r2", Node: "node-2", Lans: []string{"rack1", "rack2"}, Labels: map[string]string{"role": "worker", "gpu": "yes"}},
	{Name: "r3", Node: "node-3", Lans: []string{"rack2"}, Labels: map[string]string{"role": "store"}},
}

// Terms are separated by commas: NAME names a replicator; KEY=VALUE asks for a label, lan=NAME for
// a LAN, node=NAME for a node; * is every replicator.
func TestSelectorMatches(t *testing.T) {
	for text, want := range map[string]string{
		"*":                     "r1 r2 r3",
		"r1":                    "r1",
		"r3, r1":                "r1 r3",
		"role=worker":           "r1 r2",
		"role=worker,gpu=yes":   "r2",
		"lan=rack2":             "r2 r3",
		"lan=rack1,lan=rack2":   "r2",
		"node=node-3":           "r3",
		"*,role=store":          "r3",
		"r1,r2,role=worker":     "r1 r2",
		"r1,r3,role=worker":     "r1",
		"role=database":         "",
		"gpu=no":                "",
		" lan=rack1 , gpu=yes ": "r2",
	} {
		s, err := parseSelector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []string
		for _, r := range machines {
			if s.matches(r) {
				got = append(got, r.GetName())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q selects %v, want %s", text, got, want)
		}
	}
}

func TestSelectorIsRefused(t *testing.T) {
	for _, text := range []string{"", ",", "r1,", "=", "role=", "=worker", "r1,,r2"} {
		if _, err := parseSelector(text); err == nil || !strings.Contains(err.Error(), "KEY=VALUE") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUnknownNameIsCorrected(t *testing.T) {
	for text, want := range map[string]string{"r1,r4,role=worker": "r4", "r1": "", "*": "", "role=x": ""} {
		s, err := parseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		name, meant := s.unknown(machines)
		if name != want || name != "" && !slices.Contains([]string{"r1", "r2", "r3"}, meant) {
			t.Errorf("%q: %q is unknown (%q?), want %q", text, name, meant, want)
		}
	}
}

// A replicator receives over the LAN that was asked for, else over one that it shares with the
// sender, else over its first: a router may carry multicast to it.
func TestLANOfReplica(t *testing.T) {
	r1, r2, r3 := machines[0], machines[1], machines[2]
	for _, tt := range []struct {
		selector        string
		sender, replica *replicav1.Replicator
		want            string
	}{
		{"*", r1, r2, "rack1"},
		{"*", r3, r2, "rack2"},
		{"lan=rack2", r1, r2, "rack2"},
		{"*", r1, r3, "rack2"},
	} {
		s, err := parseSelector(tt.selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.lan(tt.sender, tt.replica); got != tt.want {
			t.Errorf("%s: from %s to %s over %s, want %s", tt.selector, tt.sender.GetName(), tt.replica.GetName(), got, tt.want)
		}
	}
}

// A long list of machines is cut when it is told.
func TestKnownIsShort(t *testing.T) {
	if got := known(machines); !strings.Contains(got, "rack1, rack2") || !strings.Contains(got, "r1, r2, r3") {
		t.Errorf("it says %q", got)
	}
	if got := some(strings.Split("abcdefghijkl", "")); got != "a, b, c, d, e, f, g, h, i, j and 2 more" {
		t.Errorf("it says %q", got)
	}
	if got := known(nil); !strings.Contains(got, "replicators none") {
		t.Errorf("it says %q", got)
	}
}
