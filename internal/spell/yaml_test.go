package spell_test

import (
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
