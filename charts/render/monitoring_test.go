package render

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
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
	monitors := monitorsOf(t, objects)
	for _, m := range monitors {
		names, component := ports(m.selector, m.Kind.Kind == "PodMonitor")
		for _, at := range m.endpoints {
			if !slices.Contains(names, at.port) || at.path == "" {
				t.Errorf("%s %s: there is no port %q among %v", m.Kind.Kind, m.Name, at.port, names)
			}
		}
		if m.jobLabel != "app.kubernetes.io/component" || component == "" || len(m.endpoints) == 0 {
			t.Errorf("%s %s: job label %q, component %q", m.Kind.Kind, m.Name, m.jobLabel, component)
		}
	}
	if len(monitors) != 5 {
		t.Errorf("%d monitors, want those of manager, Envoy, agents, gatherers and replicators", len(monitors))
	}
}

// monitor is what a ServiceMonitor and a PodMonitor both say: whose metrics are where, and with which labels they are kept.
type monitor struct {
	Object
	jobLabel  string
	selector  map[string]string
	endpoints []endpoint
}

type endpoint struct {
	port, path string
}

func monitorsOf(t *testing.T, objects []Object) (all []monitor) {
	t.Helper()
	for _, o := range objects {
		switch o.Kind.Kind {
		case "ServiceMonitor":
			var is monitoringv1.ServiceMonitor
			decode(t, o, &is)
			m := monitor{Object: o, jobLabel: is.Spec.JobLabel, selector: is.Spec.Selector.MatchLabels}
			for _, at := range is.Spec.Endpoints {
				m.endpoints = append(m.endpoints, endpoint{at.Port, at.Path})
			}
			all = append(all, m)
		case "PodMonitor":
			var is monitoringv1.PodMonitor
			decode(t, o, &is)
			m := monitor{Object: o, jobLabel: is.Spec.JobLabel, selector: is.Spec.Selector.MatchLabels}
			for _, at := range is.Spec.PodMetricsEndpoints {
				m.endpoints = append(m.endpoints, endpoint{*at.Port, at.Path})
			}
			all = append(all, m)
		}
	}
	return all
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
