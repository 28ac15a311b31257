package daemon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/daemon"
)

// section is what a schema says of a part of the file.
type section struct {
	Description          string
	Type                 any
	AdditionalProperties *bool
	Properties           map[string]section
}

// The schema has what the file can have, of the kinds that it is read as, and nothing else.
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
