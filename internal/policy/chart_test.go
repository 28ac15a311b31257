package policy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/policy"
)

// schema is what the chart demands of a value.
type schema struct {
	Minimum, Maximum int
	Items            *schema
	Properties       map[string]*schema
	Defs             map[string]*schema `json:"$defs"`
}

// The chart accepts exactly the keys that a gatherer accepts, and numbers up to the same limits.
func TestChartKnowsThePolicy(t *testing.T) {
	text, err := os.ReadFile("../../charts/groupcast/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var values schema
	if err := json.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	chart := values.Defs["policy"].Properties
	for of, properties := range map[reflect.Type]map[string]*schema{
		reflect.TypeFor[policy.Policy](): chart,
		reflect.TypeFor[policy.Share]():  chart["default"].Properties,
		reflect.TypeFor[policy.Rule]():   chart["rules"].Items.Properties,
	} {
		if diff := cmp.Diff(keys(of), slices.Sorted(maps.Keys(properties))); diff != "" {
			t.Errorf("%v (- ours, + the chart's):\n%s", of, diff)
		}
	}
	for _, key := range []string{"priority", "maxConnections"} {
		limits := chart["default"].Properties[key]
		for number, want := range map[int]bool{limits.Minimum - 1: false, limits.Minimum: true, limits.Maximum: true, limits.Maximum + 1: false} {
			if _, err := policy.Parse(fmt.Appendf(nil, "default: {%s: %d}", key, number)); (err == nil) != want {
				t.Errorf("the chart takes a %s of %d to %d: of %d the policy says %v", key, limits.Minimum, limits.Maximum, number, err)
			}
		}
	}
}

// keys returns the YAML keys of a struct, including those of embedded structs.
func keys(of reflect.Type) []string {
	var all []string
	for _, field := range reflect.VisibleFields(of) {
		if !field.Anonymous {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
