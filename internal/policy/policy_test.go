package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/policy"
)

const text = `
rules:
- clients: [ward-*, 'icu?']
  target: 125kB
  minimum: 60kB
  priority: 1
- clients: [archive]
  labels: {site: b}
  max: 1MB
  maxConnections: 2
  maxStored: 100GiB
- labels: {site: a}
  target: 2MB
- groups: [lab, 'icu-*']
  target: 3MB
- clients: [guest-*]
  groups: [visitors]
  target: 4MB
default: {target: 62kB}
link: 10MB
admission: queue
`

// The first rule that matches a client applies to it: its name must match one of the patterns, and
// it must have all labels. The default is for the others.
func TestTheFirstRuleThatFitsHolds(t *testing.T) {
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		name   string
		labels map[string]string
		groups []string
		target bytesize.Size
		max    bytesize.Size
	}{
		{"ward-7", nil, nil, 125_000, 0},
		{"ward-7", map[string]string{"site": "a"}, []string{"lab"}, 125_000, 0}, // the first of three that fit
		{"ward", nil, nil, 62_000, 0},
		{"icu1", nil, nil, 125_000, 0},
		{"icu12", nil, nil, 62_000, 0},
		{"archive", nil, nil, 62_000, 0}, // without the label
		{"archive", map[string]string{"site": "b", "more": "x"}, nil, 0, 1_000_000},
		{"archive", map[string]string{"site": "a"}, nil, 2_000_000, 0},
		{"other", map[string]string{"site": ""}, nil, 62_000, 0},
		{"other", nil, []string{"models", "lab"}, 3_000_000, 0}, // one of its groups
		{"other", nil, []string{"icu-2"}, 3_000_000, 0},
		{"other", nil, []string{"*"}, 3_000_000, 0}, // it may join every group
		{"lab", nil, nil, 62_000, 0},                // a name is no group
		{"other", nil, []string{"visitors"}, 62_000, 0},
		{"guest-1", nil, []string{"visitors"}, 4_000_000, 0},
		{"guest-1", nil, nil, 62_000, 0},
	} {
		if got := p.ShareFor(policy.Client{Name: one.name, Labels: one.labels, Groups: one.groups}); got.Target != one.target || got.Max != one.max {
			t.Errorf("%s %v %v gets %+v, want target %v, max %v", one.name, one.labels, one.groups, got, one.target, one.max)
		}
	}
}

// What the documentation shows is a valid policy, and numbers can be plain.
func TestDocumentedPolicyIsOne(t *testing.T) {
	page, err := os.ReadFile("../../docs/gathering.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	shown, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page shows no policy")
	}
	p, err := policy.Parse([]byte(shown))
	if err != nil || len(p.Rules) != 2 {
		t.Errorf("%v: %+v", err, p)
	}
	p, err = policy.Parse([]byte("---\ndefault: {max: 100000, target: '50000'}\n"))
	if err != nil || p.Default.Max != 100_000 || p.Default.Target != 50_000 {
		t.Errorf("%v: %+v", err, p)
	}
}

// Every mistake is named, with where it is and what is wanted.
func TestMistakesAreNamed(t *testing.T) {
	for yaml, want := range map[string]string{
		"default: {targte: 1}":                     `unknown field "targte"`,
		"default: {target: many}":                  `read policy: default.target: "many" is no number of bytes`,
		"rules: 5":                                 "read policy: rules cannot be a number: want a list",
		"rules: [{clients: [a], priority: high}]":  "read policy: rules[0].priority cannot be text: want a whole number",
		"default: {target: -1}":                    "read policy",
		"rules: [{target: 1kB}]":                   "rules[0] names neither clients nor labels nor groups",
		"rules: [{clients: ['a[']}]":               `rules[0]: "a[" is no name or pattern`,
		"rules: [{clients: ['a/b']}]":              `rules[0]: "a/b" is no name or pattern`,
		"rules: [{groups: ['a/b']}]":               `rules[0]: "a/b" is no name or pattern`,
		"default: {target: 1kB, minimum: 2kB}":     "default: minimum 2kB is more than target 1kB",
		"default: {target: 2kB, max: 1kB}":         "default: target 2kB is more than max 1kB",
		"default: {minimum: 2kB, max: 1kB}":        "default: minimum 2kB is more than max 1kB",
		"default: {priority: 1001}":                "priority is 1001: want -1000 to 1000",
		"default: {maxConnections: 17}":            "maxConnections is 17: want 0 to 16",
		"default: {maxConnections: -1}":            "maxConnections is -1: want 0 to 16",
		"admission: maybe":                         `admission is "maybe": want admit, queue or refuse`,
		"admission: refuse":                        "link is not said",
		"":                                         "there is nothing in it",
		"# nothing\n---\n":                         "there is nothing in it",
		"null":                                     "there is nothing in it",
		"default: {}\n---\ndefault: {target: 1kB}": "it has 2 documents",
		"{link: 1kB, admission: queue, default: {minimum: 1MB}}":                 "default: minimum 1MB is more than link 1kB",
		"{link: 1kB, admission: refuse, rules: [{clients: [a], minimum: 1001}]}": "rules[0]: minimum 1001B is more than link 1kB",
		"rules: [{clients: [a]}, {clients: [b], max: -2}]":                       "read policy",
	} {
		if _, err := policy.Parse([]byte(yaml)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}

// Any text that is accepted gives the same policy after it is written and read again.
func FuzzParse(f *testing.F) {
	for _, one := range []string{text, "default: {}", "{link: 1kB, admission: queue, default: {minimum: 1MB}}", "rules: [{clients: [a]}, {clients: [b], max: -2}]", "a: &a [*a]"} {
		f.Add([]byte(one))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Parse(text)
		if err != nil {
			return
		}
		written, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		again, err := policy.Parse(written)
		if diff := cmp.Diff(p, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("%v %s\n%s", err, diff, written)
		}
	})
}

// A parsed policy is the same after it is written and read, and after it goes over the API.
func TestPoliciesOutliveTheirForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Map(rapid.Uint64Range(0, 1<<40), func(n uint64) bytesize.Size { return bytesize.Size(n) })
		share := rapid.Custom(func(t *rapid.T) policy.Share {
			s := policy.Share{
				Target: size.Draw(t, "target"), Priority: rapid.IntRange(-1000, 1000).Draw(t, "priority"),
				MaxConnections: rapid.IntRange(0, 16).Draw(t, "connections"), MaxStored: size.Draw(t, "stored"),
			}
			s.Minimum = s.Target / 2
			return s
		})
		p := policy.Policy{Default: share.Draw(t, "default"), Link: 1<<40 + size.Draw(t, "link"), TrustLabels: rapid.Bool().Draw(t, "trust")}
		p.Admission = rapid.SampledFrom([]policy.Admission{"", policy.Admit, policy.Queue, policy.Refuse}).Draw(t, "admission")
		for range rapid.IntRange(0, 3).Draw(t, "rules") {
			p.Rules = append(p.Rules, policy.Rule{
				Clients: []string{rapid.StringMatching(`[a-z*?]{1,8}`).Draw(t, "client")},
				Labels:  map[string]string{rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "label"): "x"},
				Groups:  []string{rapid.StringMatching(`[a-z*?]{1,8}`).Draw(t, "group")}, Share: share.Draw(t, "share"),
			})
		}
		written, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := policy.Parse(written)
		if diff := cmp.Diff(p, parsed); err != nil || diff != "" {
			t.Fatalf("%v %s\n%s", err, diff, written)
		}
		if diff := cmp.Diff(p, policy.Of(p.Message())); diff != "" {
			t.Fatal(diff)
		}
	})
}

// If a message of the API is not a valid policy, the error names what is wrong, and nothing panics.
func TestMessagesThatAreNoPolicy(t *testing.T) {
	if err := policy.Of(nil).Validate(); err != nil {
		t.Errorf("an empty policy: %v", err)
	}
	bad := policy.Policy{Default: policy.Share{MaxConnections: 99}}.Message()
	if err := policy.Of(bad).Validate(); err == nil {
		t.Error("99 connections are allowed")
	}
}

// A new policy is worked out for every client at once, while nothing else of the gatherer's roster happens.
func BenchmarkShareThatNoRuleGives(b *testing.B) {
	var p policy.Policy
	for i := range 10_000 {
		p.Rules = append(p.Rules, policy.Rule{Clients: []string{fmt.Sprintf("camera-of-the-north-%d", i)}})
	}
	for b.Loop() {
		p.ShareFor(policy.Client{Name: "camera-of-the-north-x"})
	}
}
