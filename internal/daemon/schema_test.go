package daemon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
)

// section is what a schema says of a part of the file.
type section struct {
	Description          string
	Type                 any
	Pattern              string
	AdditionalProperties *bool
	Properties           map[string]section
}

// The schema has what the file can have, with the kinds as which it is read, and nothing else.
func TestSchema(t *testing.T) {
	var root section
	if err := json.Unmarshal([]byte(daemon.Schema("test", defaults())), &root); err != nil {
		t.Fatal(err)
	}
	var printed map[string]any
	if err := yaml.Unmarshal([]byte(daemon.Print(defaults())), &printed); err != nil {
		t.Fatal(err)
	}
	compare(t, "", root, printed)
}

// bounded has a setting that is a number of bytes.
type bounded struct {
	daemon.CommonConfig

	Most bytesize.Size `json:"most" usage:"how much at most"`
}

func (*bounded) Validate() error { return nil }

// Texts that are read as times or as numbers of bytes have to look like them: whatever the schema accepts is read, and
// it accepts whatever is written.
func TestSchemaKnowsTimesAndSizes(t *testing.T) {
	var root section
	if err := json.Unmarshal([]byte(daemon.Schema("test", &bounded{})), &root); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		key         string
		read        func(string) error
		good, wrong []string
	}{
		{"stopWait", func(text string) error { return new(daemon.Duration).UnmarshalText([]byte(text)) }, []string{"0", "0s", "10s", "1m0s", "1h1m1.5s", "1500ms", ".5s"}, []string{"", "soon", "10", "5 s", "1d", "s"}},
		{"most", new(bytesize.Size).Set, []string{"0B", "17", "512MiB", "4 GiB", "1.5MB", "1k", "100mb"}, []string{"", "much", "1 parsec", "GiB"}},
	} {
		pattern := regexp.MustCompile(root.Properties[of.key].Pattern)
		for _, text := range of.good {
			if err := of.read(text); err != nil || !pattern.MatchString(text) {
				t.Errorf("%s: %q is read (%v), and the schema takes it: %v", of.key, text, err, pattern.MatchString(text))
			}
		}
		for _, text := range of.wrong {
			if err := of.read(text); err == nil || pattern.MatchString(text) {
				t.Errorf("%s: %q is not read (%v), and the schema takes it: %v", of.key, text, err, pattern.MatchString(text))
			}
		}
	}
}

func compare(t *testing.T, path string, said section, printed map[string]any) {
	t.Helper()
	if has, want := slices.Sorted(maps.Keys(said.Properties)), slices.Sorted(maps.Keys(printed)); !slices.Equal(has, want) || said.AdditionalProperties == nil || *said.AdditionalProperties {
		t.Errorf("%s: the schema has %v, the file %v, and others are allowed unless it says no", path, has, want)
	}
	for key, value := range printed {
		at, one := path+"/"+key, said.Properties[key]
		kind := map[string]string{"bool": "boolean", "string": "string", "float64": "integer", "[]interface {}": "array", "<nil>": "array", "map[string]interface {}": "object"}[fmt.Sprintf("%T", value)]
		if kind == "" || !strings.Contains(fmt.Sprint(one.Type), kind) {
			t.Errorf("%s is %v in the schema and %s in the file", at, one.Type, kind)
		}
		if below, is := value.(map[string]any); is {
			compare(t, at, one, below)
		} else if one.Description == "" {
			t.Errorf("%s has no description", at)
		}
	}
}
