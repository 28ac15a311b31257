package spell_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/spell"
)

func TestYAML(t *testing.T) {
	for text, want := range map[string]string{
		"rules: 5":           "rules cannot be a number: want a list",
		"below: {rules: {}}": "below.rules cannot be a mapping: want a list",
		"5":                  "the whole cannot be a number: want a mapping",
		"rule: []":           `unknown field "rule"`,
		"rules: [":           "yaml: line 1: did not find expected node content",
	} {
		var into struct {
			Rules []string `json:"rules"`
			Below struct {
				Rules []string `json:"rules"`
			} `json:"below"`
		}
		err := yaml.UnmarshalStrict([]byte(text), &into)
		if got := spell.YAML(err); got == nil || !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%q: %v (%v), want %q", text, got, err, want)
		}
	}
	if err := spell.YAML(nil); err != nil {
		t.Error(err)
	}
}

// size has its own UnmarshalJSON.
type size int

func (s *size) UnmarshalJSON(text []byte) error {
	if text[0] == '-' {
		return errors.New(string(text) + " is no size")
	}
	return json.Unmarshal(text, (*int)(s))
}

func TestUnmarshalYAML(t *testing.T) {
	type shared struct {
		Most size `json:"most"`
	}
	type config struct {
		Rules []struct {
			Names []string `json:"names"`
			shared
		} `json:"rules"`
		Rest  shared         `json:"rest"`
		Named map[string]int `json:"named"`
	}
	for text, want := range map[string]string{
		"rules: 5":                               "rules cannot be a number: want a list",
		"5":                                      "the whole cannot be a number: want a mapping",
		"rules: [{names: [a]}, {names: 5}]":      "rules[1].names cannot be a number: want a list",
		"rules: [{names: [a], most: 1}, {a: 1}]": `rules[1]: unknown field "a"`,
		"rules: [{names: [7], most: -1}]":        "rules[0].most: -1 is no size",
		"{Rest: {most: 1}, rules: 5}":            "rules cannot be a number: want a list",
		"named: {a: x}":                          "named.a cannot be text: want a whole number",
		"rules: [{most: -1}]":                    "rules[0].most: -1 is no size",
		"rest: {most: -1}":                       "rest.most: -1 is no size",
		"rest: {most: 1, most: 2}":               `yaml: unmarshal errors:`,
		"rules: [":                               "yaml: line 1: did not find expected node content",
	} {
		var into config
		if err := spell.UnmarshalYAML([]byte(text), &into); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var into config
	if err := spell.UnmarshalYAML([]byte("rules: [{most: 5}]"), &into); err != nil || into.Rules[0].Most != 5 {
		t.Errorf("%v: %v", into, err)
	}
}
