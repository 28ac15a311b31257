package cluster

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// metricsOf returns the paths at which the API server passes on the metrics of pods, by the file to keep them in: of each of
// Groupcast's pods its present metrics, and from a Prometheus those of the last ten minutes. pods has a line for each pod, as kubectl
// writes with podLines.
func metricsOf(namespace, pods string, now time.Time) map[string]string {
	paths := make(map[string]string)
	for line := range strings.Lines(pods) {
		fields := strings.Fields(line)
		at := func(port, path string) string {
			return "/api/v1/namespaces/" + namespace + "/pods/" + fields[0] + ":" + port + "/proxy" + path
		}
		switch {
		case len(fields) == 3 && fields[2] == "envoy":
			paths[fields[0]+".metrics"] = at(fields[1], "/stats/prometheus")
		case len(fields) == 3:
			paths[fields[0]+".metrics"] = at(fields[1], "/metrics")
		case len(fields) == 1 && fields[0] == "prometheus":
			asked := url.Values{
				"query": {`{__name__=~"groupcast_.*|up|ALERTS"}`}, "step": {"5"},
				"start": {now.Add(-10 * time.Minute).UTC().Format(time.RFC3339)}, "end": {now.UTC().Format(time.RFC3339)},
			}
			paths["prometheus.json"] = at("9090", "/api/v1/query_range?"+asked.Encode())
		}
	}
	return paths
}

// A failed test leaves the metrics of each pod that has some, and of no other.
func TestMetricsAreKept(t *testing.T) {
	pods := "gc-agent-x 7411 agent\ngc-envoy-y 7482 envoy\ngc-test-delivery  test\nprometheus  \n"
	paths := metricsOf("gc", pods, time.Unix(1000, 0))
	if names := slices.Sorted(maps.Keys(paths)); !slices.Equal(names, []string{"gc-agent-x.metrics", "gc-envoy-y.metrics", "prometheus.json"}) {
		t.Errorf("metrics are kept in %v", names)
	}
	for name, want := range map[string]string{
		"gc-agent-x.metrics": "/api/v1/namespaces/gc/pods/gc-agent-x:7411/proxy/metrics",
		"gc-envoy-y.metrics": "/api/v1/namespaces/gc/pods/gc-envoy-y:7482/proxy/stats/prometheus",
	} {
		if paths[name] != want {
			t.Errorf("%s is got from %s, want %s", name, paths[name], want)
		}
	}
	series, err := url.Parse(paths["prometheus.json"])
	if err != nil || series.Query().Get("start") != "1970-01-01T00:06:40Z" || series.Query().Get("end") != "1970-01-01T00:16:40Z" {
		t.Errorf("series are got from %v: %v", series, err)
	}
}
