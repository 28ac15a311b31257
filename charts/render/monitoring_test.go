package render

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// Every monitor finds what it is for: a Service, or pods, with its labels and a port of its name; and the label that
// alerts and dashboards know the job by is there.
func TestMonitorsFindTheirPods(t *testing.T) {
	objects, _, _ := rendered(t, "everything", "release", "default")
	ports := func(selector map[string]string, inPods bool) (names []string, component string) {
		for _, o := range objects {
			labels, spec := pod(t, o)
			if inPods != (spec != nil) {
				continue
			}
			var service corev1.Service
			if o.Kind.Kind == "Service" && sigsyaml.Unmarshal(o.Text, &service) == nil {
				labels = service.Labels
			}
			if len(labels) == 0 || !isSubset(selector, labels) {
				continue
			}
			for _, port := range service.Spec.Ports {
				names = append(names, port.Name)
			}
			if inPods {
				for _, port := range spec.Containers[0].Ports {
					names = append(names, port.Name)
				}
			}
			component = labels["app.kubernetes.io/component"]
		}
		return names, component
	}
	monitors := 0
	for _, o := range objects {
		var m monitor
		if o.Kind.Kind != "ServiceMonitor" && o.Kind.Kind != "PodMonitor" {
			continue
		}
		if err := sigsyaml.Unmarshal(o.Text, &m); err != nil {
			t.Fatal(err)
		}
		monitors++
		names, component := ports(m.Spec.Selector.MatchLabels, o.Kind.Kind == "PodMonitor")
		for _, at := range append(m.Spec.Endpoints, m.Spec.PodMetricsEndpoints...) {
			if !slices.Contains(names, at.Port) || at.Path == "" {
				t.Errorf("%s %s: there is no port %q among %v", o.Kind.Kind, o.Name, at.Port, names)
			}
		}
		if m.Spec.JobLabel != "app.kubernetes.io/component" || component == "" || len(m.Spec.Endpoints)+len(m.Spec.PodMetricsEndpoints) == 0 {
			t.Errorf("%s %s: job label %q, component %q", o.Kind.Kind, o.Name, m.Spec.JobLabel, component)
		}
	}
	if monitors != 5 {
		t.Errorf("%d monitors, want those of manager, Envoy, agents, gatherers and replicators", monitors)
	}
}

func isSubset(of, all map[string]string) bool {
	for key, value := range of {
		if all[key] != value {
			return false
		}
	}
	return true
}

// "each with a runbook page": every alert has one, every page is of an alert, and each is tested firing and quiet.
func TestAlertsHaveRunbooksAndTests(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(Chart, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, For          string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := sigsyaml.Unmarshal(read("files/rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	tests := string(read("files/rules_test.yaml"))
	pages, err := filepath.Glob(filepath.Join(Chart, "..", "..", "docs", "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			alerts++
			if rule.For == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s has no for, severity, summary or description", rule.Alert)
			}
			if !slices.ContainsFunc(pages, func(page string) bool { return filepath.Base(page) == rule.Alert+".md" }) {
				t.Errorf("%s has no page in docs/runbooks", rule.Alert)
			}
			for _, way := range []string{" fires\n", " is quiet\n"} {
				if !strings.Contains(tests, "name: "+rule.Alert+way) {
					t.Errorf("no test of rules has %q", rule.Alert+way)
				}
			}
		}
	}
	if len(pages) != alerts {
		t.Errorf("%d pages for %d alerts", len(pages), alerts)
	}
}
