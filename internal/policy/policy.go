// Package policy says what each client of a gatherer is to get: by its name, its labels and its groups, never by what it claims.
package policy

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/spell"
)

// Admission says what happens to a client whose minimum does not fit beside those of the others.
type Admission string

// The admissions.
const (
	// Admit lets it in: all get less. Minimums are served first, and then it goes by priority.
	Admit Admission = "admit"
	// Queue lets it wait until others have left, or bring nothing any more.
	Queue Admission = "queue"
	// Refuse sends it away.
	Refuse Admission = "refuse"
)

// Share is what a client gets. Rates are bytes per second.
type Share struct {
	// Target is what it should get; Minimum is what it should get even if the targets do not fit.
	Target  bytesize.Size `json:"target,omitempty"`
	Minimum bytesize.Size `json:"minimum,omitempty"`
	// Priority says who comes first: the client with the higher one.
	Priority int `json:"priority,omitempty"`
	// Max is the most that it gets; zero means no bound.
	Max bytesize.Size `json:"max,omitempty"`
	// MaxConnections is the most data connections that it has; zero leaves that to the controller.
	MaxConnections int `json:"maxConnections,omitempty"`
	// MaxStored is how many bytes it may have on the gatherer's disk; zero means no bound.
	MaxStored bytesize.Size `json:"maxStored,omitempty"`
}

// Rule gives a share to the clients that match it.
type Rule struct {
	// Clients are names, or patterns with * and ?; without any, all names match.
	Clients []string `json:"clients,omitempty"`
	// Labels must all be labels of the client. What a client says about itself counts only with TrustLabels.
	Labels map[string]string `json:"labels,omitempty"`
	// Groups are names of groups, or patterns; one of them must match a group that the managers let the client join.
	Groups []string `json:"groups,omitempty"`

	Share
}

// Policy says which clients get what.
type Policy struct {
	// Rules are tried in their order.
	Rules []Rule `json:"rules,omitempty"`
	// Default is for clients that no rule matches.
	Default Share `json:"default"`
	// Link is how many bytes per second the way to the gatherer carries; if it is zero that is measured.
	Link bytesize.Size `json:"link,omitempty"`
	// TrustLabels makes the labels count that clients say they have. Without it only those count
	// with which an operator attaches a client: a client could claim any.
	TrustLabels bool `json:"trustLabels,omitempty"`
	// Admission counts as admit if it is empty.
	Admission Admission `json:"admission,omitempty"`
}

// Parse reads a policy as YAML. An empty one is a mistake: for no rules write "default: {}".
func Parse(text []byte) (Policy, error) {
	var p Policy
	if err := checkOne(text); err != nil {
		return Policy{}, err
	}
	if err := spell.UnmarshalYAML(text, &p); err != nil {
		return Policy{}, fmt.Errorf("read policy: %w", err)
	}
	return p, p.Validate()
}

// separator stands between the documents of a YAML file.
var separator = regexp.MustCompile(`(?m)^---([ \t].*)?$`)

// checkOne returns what is wrong if a text is not exactly one document; a parser would take the first of several.
func checkOne(text []byte) error {
	documents := 0
	for _, document := range separator.Split(string(text), -1) {
		var content any
		if err := yaml.Unmarshal([]byte(document), &content); err != nil || content != nil {
			documents++
		}
	}
	switch documents {
	case 0:
		return errors.New(`read policy: there is nothing in it; "default: {}" is a policy without rules`)
	case 1:
		return nil
	}
	return fmt.Errorf("read policy: it has %d documents: want one", documents)
}

// Text writes the policy as YAML.
func (p Policy) Text() ([]byte, error) { return yaml.Marshal(p) }

// Limits of a policy.
const (
	maxRules       = 10_000
	maxConnections = 16
	maxPriority    = 1000
)

// Validate reports everything that is wrong.
func (p Policy) Validate() error {
	var problems []error
	if len(p.Rules) > maxRules {
		problems = append(problems, fmt.Errorf("%d rules: want at most %d", len(p.Rules), maxRules))
	}
	switch p.Admission {
	case "", Admit, Queue, Refuse:
	default:
		problems = append(problems, fmt.Errorf("admission is %q: want admit, queue or refuse", p.Admission))
	}
	if (p.Admission == Queue || p.Admission == Refuse) && p.Link == 0 {
		problems = append(problems, fmt.Errorf("admission is %q, and link is not said: nobody knows then what fits", p.Admission))
	}
	problems = append(problems, p.Default.validate("default"), p.fits("default", p.Default))
	for i, rule := range p.Rules {
		where := fmt.Sprintf("rules[%d]", i)
		problems = append(problems, rule.validate(where), p.fits(where, rule.Share))
	}
	return errors.Join(problems...)
}

// fits says why a share never fits, so that a client with it is never admitted; nil if it fits.
func (p Policy) fits(where string, s Share) error {
	if p.Link == 0 || s.Minimum <= p.Link || p.Admission == "" || p.Admission == Admit {
		return nil
	}
	return fmt.Errorf("%s: minimum %v is more than link %v: with admission %s no such client ever comes in", where, s.Minimum, p.Link, p.Admission)
}

func (r Rule) validate(where string) error {
	var problems []error
	if len(r.Clients) == 0 && len(r.Labels) == 0 && len(r.Groups) == 0 {
		problems = append(problems, fmt.Errorf("%s names neither clients nor labels nor groups: what is for all is the default", where))
	}
	for _, pattern := range slices.Concat(r.Clients, r.Groups) {
		if _, err := path.Match(pattern, ""); err != nil || strings.Contains(pattern, "/") {
			problems = append(problems, fmt.Errorf("%s: %q is no name or pattern of names, as cam-*", where, pattern))
		}
	}
	return errors.Join(append(problems, r.Share.validate(where))...)
}

func (s Share) validate(where string) error {
	var problems []error
	note := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(where+": "+format, args...))
		}
	}
	note(s.Minimum <= s.Target || s.Target == 0, "minimum %v is more than target %v", s.Minimum, s.Target)
	note(s.Max == 0 || s.Target <= s.Max, "target %v is more than max %v", s.Target, s.Max)
	note(s.Max == 0 || s.Minimum <= s.Max, "minimum %v is more than max %v", s.Minimum, s.Max)
	note(s.Priority >= -maxPriority && s.Priority <= maxPriority, "priority is %d: want %d to %d", s.Priority, -maxPriority, maxPriority)
	note(s.MaxConnections >= 0 && s.MaxConnections <= maxConnections, "maxConnections is %d: want 0 to %d", s.MaxConnections, maxConnections)
	return errors.Join(problems...)
}

// Client is a client that is to get something.
type Client struct {
	Name   string
	Labels map[string]string
	// Groups are those that the client may join.
	Groups []string
}

// allGroups stands for every group, in what a client may join.
const allGroups = "*"

// ShareFor returns what a client gets.
func (p Policy) ShareFor(client Client) Share {
	for _, rule := range p.Rules {
		if rule.fits(client) {
			return rule.Share
		}
	}
	return p.Default
}

func (r Rule) fits(client Client) bool {
	for key, value := range r.Labels {
		if found, is := client.Labels[key]; !is || found != value {
			return false
		}
	}
	return matches(r.Clients, client.Name) && (slices.Contains(client.Groups, allGroups) || matches(r.Groups, client.Groups...))
}

// matches reports whether one of the patterns matches one of the names. Without patterns everything matches.
func matches(patterns []string, names ...string) bool {
	for _, pattern := range patterns {
		for _, name := range names {
			if match(pattern, name) {
				return true
			}
		}
	}
	return len(patterns) == 0
}

// match compares a pattern that is a name as it is: that is many times as fast, and thousands of rules may be tried for each client.
func match(pattern, name string) bool {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return pattern == name
	}
	is, err := path.Match(pattern, name)
	return is && err == nil
}
