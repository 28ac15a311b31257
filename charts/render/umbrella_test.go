package render

import (
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// As a part of another chart, it can be switched off by the usual condition. It accepts the global values of that
// chart, of its other parts and of Rancher.
func TestPartOfAnotherChart(t *testing.T) {
	values := func(enabled bool) map[string]any {
		return map[string]any{
			"global":    map[string]any{"imageRegistry": "registry.example.org", "storageClass": "fast", "cattle": map[string]any{"systemProjectId": "p-1"}},
			"groupcast": map[string]any{"enabled": enabled, "manager": map[string]any{"replicas": 3}},
		}
	}
	for _, enabled := range []bool{true, false} {
		_, manifest, _, err := RenderChart(t.Context(), umbrella(t), "release", "default", values(enabled))
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(manifest, "image: registry.example.org/groupcast-manager:"); has != enabled {
			t.Errorf("enabled %v: managers are there: %v", enabled, has)
		}
	}
	misspelled := values(true)
	misspelled["groupcast"] = map[string]any{"manger": map[string]any{}}
	if _, _, _, err := RenderChart(t.Context(), umbrella(t), "release", "default", misspelled); err == nil || !strings.Contains(err.Error(), "additional properties 'manger'") {
		t.Errorf("what there is not is taken: %v", err)
	}
}

// umbrella returns a chart that consists only of this one.
func umbrella(t *testing.T) *chart.Chart {
	t.Helper()
	part, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	whole := &chart.Chart{Metadata: &chart.Metadata{
		APIVersion: chart.APIVersionV2, Name: "platform", Version: "1.0.0",
		Dependencies: []*chart.Dependency{{Name: part.Name(), Version: part.Metadata.Version, Condition: "groupcast.enabled"}},
	}}
	whole.SetDependencies(part)
	return whole
}
