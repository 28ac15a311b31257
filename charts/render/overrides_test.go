package render

import (
	"encoding/json"
	"strings"
	"testing"
)

// A variable wins over the file: so where the chart sets a variable, a key of `config` removes it, and no service gets
// a combination that it refuses.
func TestConfigWinsOverVariables(t *testing.T) {
	given := map[string]map[string][]string{
		"manager": {
			"GROUPCAST_NAME": {`{"name": "one"}`}, "GROUPCAST_ADDRESS": {`{"address": "one.example.org:7400"}`},
			"GROUPCAST_STORE_CLUSTER_SELF": {`{"store": {"cluster": {"self": "one.example.org"}}}`},
		},
		"agent": {
			"GROUPCAST_NODE":       {`{"node": "one"}`},
			"GROUPCAST_ZONE":       {`{"zone": "one"}`, `{"zone": ""}`},
			"GROUPCAST_DATA_HOSTS": {`{"data": {"hosts": ["one.example.org"]}}`, `{"data": {"addresses": ["one.example.org:7410"]}}`},
		},
		"gatherer":   {"GROUPCAST_DATA_HOSTS": {`{"data": {"hosts": ["one.example.org"]}}`, `{"data": {"addresses": ["one.example.org:7421"]}}`}},
		"replicator": {"GROUPCAST_NODE": {`{"node": "one"}`}, "GROUPCAST_LANS": {`{"lans": ["rack1=eth1"]}`}},
	}
	without := variables(t, nil)
	for part, of := range given {
		for name := range without[part] {
			if of[name] == nil {
				t.Errorf("%s: no key of config is known to be for %s", part, name)
			}
		}
		for name, texts := range of {
			if !without[part][name] {
				t.Errorf("%s: the chart does not set %s", part, name)
			}
			for _, text := range texts {
				var config map[string]any
				if err := json.Unmarshal([]byte(text), &config); err != nil {
					t.Fatal(err)
				}
				with := variables(t, map[string]any{part: map[string]any{"config": config}})[part]
				if with[name] || len(with) != len(without[part])-1 {
					t.Errorf("%s with %s: the variables are %v", part, text, with)
				}
			}
		}
	}
}

// variables returns which settings the chart gives to each part as environment variables.
func variables(t *testing.T, values map[string]any) map[string]map[string]bool {
	t.Helper()
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]map[string]bool)
	for _, o := range objects {
		labels, spec := pod(t, o)
		if spec == nil {
			continue
		}
		of := make(map[string]bool)
		for _, variable := range spec.Containers[0].Env {
			if strings.HasPrefix(variable.Name, "GROUPCAST_") {
				of[variable.Name] = true
			}
		}
		all[labels["app.kubernetes.io/component"]] = of
	}
	return all
}
