package render

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// Every monitor finds what it is for: a Service, or pods, with its labels and a port of its name. The label by which
// alerts and dashboards know the job is there.
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

// monitor is what a ServiceMonitor and a PodMonitor have in common: whose metrics are where, and with which labels they are kept.
type monitor struct {
	Object
	jobLabel  string
	selector  map[string]string
	labels    []string // of Services or pods
	endpoints []endpoint
}

type endpoint struct {
	port, path         string
	relabeled, metrics []monitoringv1.RelabelConfig
}

// gives reports whether what is scraped at an endpoint has a label, in addition to those that the operator always
// gives: job, namespace and pod.
func (m monitor) gives(label string, at endpoint) bool {
	return slices.ContainsFunc(m.labels, func(of string) bool {
		return label == strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(of) && m.selector[of] != "" // everything that is selected has this label
	}) || slices.ContainsFunc(at.relabeled, func(c monitoringv1.RelabelConfig) bool { return c.TargetLabel == label })
}

func monitorsOf(t *testing.T, objects []Object) (all []monitor) {
	t.Helper()
	for _, o := range objects {
		switch o.Kind.Kind {
		case "ServiceMonitor":
			var is monitoringv1.ServiceMonitor
			decode(t, o, &is)
			m := monitor{Object: o, jobLabel: is.Spec.JobLabel, selector: is.Spec.Selector.MatchLabels, labels: is.Spec.TargetLabels}
			for _, at := range is.Spec.Endpoints {
				m.endpoints = append(m.endpoints, endpoint{at.Port, at.Path, at.RelabelConfigs, at.MetricRelabelConfigs})
			}
			all = append(all, m)
		case "PodMonitor":
			var is monitoringv1.PodMonitor
			decode(t, o, &is)
			m := monitor{Object: o, jobLabel: is.Spec.JobLabel, selector: is.Spec.Selector.MatchLabels, labels: is.Spec.PodTargetLabels}
			for _, at := range is.Spec.PodMetricsEndpoints {
				m.endpoints = append(m.endpoints, endpoint{*at.Port, at.Path, at.RelabelConfigs, at.MetricRelabelConfigs})
			}
			all = append(all, m)
		}
	}
	return all
}

// Rules and dashboards tell releases and nodes apart by labels that no metric has by itself: monitors add them. Without
// them nothing would fail, and an alert about something that is gone would be silent.
func TestMonitorsGiveTheLabelsThatAreAskedFor(t *testing.T) {
	asked := make(map[[2]string]string) // component and label, and what asks
	for where, expression := range expressions(t) {
		for component, labels := range targetLabels(t, expression) {
			for _, label := range labels {
				asked[[2]string{component, label}] = where
			}
		}
	}
	if asked[[2]string{"manager", "app_kubernetes_io_instance"}] == "" || asked[[2]string{"agent", "node"}] == "" {
		t.Fatalf("what is asked for is %v", asked)
	}
	objects, _, _ := rendered(t, "everything", "release", "default")
	monitors := make(map[string]monitor)
	for _, m := range monitorsOf(t, objects) {
		monitors[m.selector["app.kubernetes.io/component"]] = m
	}
	for of, where := range asked {
		for _, at := range monitors[of[0]].endpoints {
			if !monitors[of[0]].gives(of[1], at) {
				t.Errorf("the monitor of %s gives no %s, which %s asks for", of[0], of[1], where)
			}
		}
	}
}

// The relabelings that values give for labels and metrics are with every monitor, once, after the chart's own; without
// such values there are none.
func TestMonitorsRelabel(t *testing.T) {
	replaces := func(c monitoringv1.RelabelConfig) bool {
		return c.TargetLabel == "cluster" && c.Replacement != nil && *c.Replacement == "one"
	}
	drops := func(c monitoringv1.RelabelConfig) bool { return c.Action == "drop" && c.Regex == "go_.*" }
	asked, _, _ := rendered(t, "everything", "release", "default")
	plain, _, _, err := Render(t.Context(), "release", "default", map[string]any{"monitoring": map[string]any{
		"serviceMonitor": map[string]any{"enabled": true}, "podMonitor": map[string]any{"enabled": true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	own := make(map[string]int) // the chart's own
	for _, m := range monitorsOf(t, plain) {
		own[m.Kind.Kind+m.Name] = len(m.endpoints[0].relabeled)
		if len(m.endpoints[0].metrics) > 0 || slices.ContainsFunc(m.endpoints[0].relabeled, replaces) {
			t.Errorf("%s %s does what nobody asked for: %+v", m.Kind.Kind, m.Name, m.endpoints[0])
		}
	}
	for _, m := range monitorsOf(t, asked) {
		at := m.endpoints[0]
		if n := own[m.Kind.Kind+m.Name]; len(at.relabeled) != n+1 || !replaces(at.relabeled[n]) {
			t.Errorf("%s %s has, beside %d of the chart's own, the relabelings %+v", m.Kind.Kind, m.Name, n, at.relabeled)
		}
		if len(at.metrics) != 1 || !drops(at.metrics[0]) {
			t.Errorf("%s %s has the metricRelabelings %+v", m.Kind.Kind, m.Name, at.metrics)
		}
	}
	if len(own) != 5 {
		t.Errorf("%d monitors were looked at", len(own))
	}
}

// expressions returns what rules and dashboards query, by where they do.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, group := range rules(t) {
		for _, rule := range group.Rules {
			all[rule.Alert+rule.Record] = rule.Expr
		}
	}
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for i, target := range p.Targets {
				all[fmt.Sprintf("%s: %s, query %d", file, p.Title, i+1)] = ranges.Replace(target.Expr)
			}
		}
	}
	return all
}

// targetLabels returns, by component, the labels by which an expression selects or aggregates, as far as they belong to
// what is scraped, and not to metrics.
func targetLabels(t *testing.T, expression string) map[string][]string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		selector, is := node.(*parser.VectorSelector)
		if !is {
			return nil
		}
		component := strings.Split(strings.TrimPrefix(selector.Name, "groupcast_"), "_")[0]
		var labels []string
		for _, matcher := range selector.LabelMatchers {
			labels = append(labels, matcher.Name)
		}
		for _, above := range path {
			if sum, is := above.(*parser.AggregateExpr); is {
				labels = append(labels, sum.Grouping...)
			}
		}
		for _, label := range labels {
			if label == "app_kubernetes_io_instance" || label == "node" {
				all[component] = append(all[component], label)
			}
		}
		return nil
	})
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

type ruleGroup struct {
	Rules []struct {
		Alert, Record, Expr, For string
		Labels, Annotations      map[string]string
	}
}

func rules(t *testing.T) []ruleGroup {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Chart, "files", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Groups []ruleGroup }
	if err := sigsyaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Groups
}

// "each with a runbook page": every alert has a page, every page is of an alert, and each alert is tested firing and quiet.
func TestAlertsHaveRunbooksAndTests(t *testing.T) {
	expected := expectations(t)
	pages, err := filepath.Glob(filepath.Join(Chart, "..", "..", "docs", "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range rules(t) {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			alerts++
			if rule.For == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s has no for, summary or description", rule.Alert)
			}
			if severity := rule.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) || !strings.HasPrefix(rule.Alert, "Groupcast") {
				t.Errorf("%s has the severity %q", rule.Alert, severity)
			}
			if !slices.ContainsFunc(pages, func(page string) bool { return filepath.Base(page) == rule.Alert+".md" }) {
				t.Errorf("%s has no page in docs/runbooks", rule.Alert)
			}
			for way, fires := range map[string]bool{" fires": true, " is quiet": false} {
				if of := expected[rule.Alert+way]; len(of) == 0 || slices.Contains(of, !fires) {
					t.Errorf("the tests of rules called %q expect the alert: %v, want each time %v", rule.Alert+way, of, fires)
				}
			}
		}
	}
	if len(pages) != alerts {
		t.Errorf("%d pages for %d alerts", len(pages), alerts)
	}
}

// Alerts cover all releases that a Prometheus scrapes: what one of these runs says nothing about what it installs.
// Alerts that values disable are not installed.
func TestAlertsAreOfAllReleases(t *testing.T) {
	monitored := map[string]any{"prometheusRule": map[string]any{"enabled": true, "disabled": []any{"GroupcastAgentDown"}}}
	all := installed(t, map[string]any{"monitoring": monitored})
	if slices.Contains(all, "GroupcastAgentDown") || !slices.Contains(all, "GroupcastNoAgents") || !slices.Contains(all, "GroupcastEnvoyAbsent") {
		t.Errorf("installed are %v", all)
	}
	for _, part := range []string{"agent", "gatherer", "replicator", "envoy"} {
		if without := installed(t, map[string]any{"monitoring": monitored, part: map[string]any{"enabled": false}}); !slices.Equal(without, all) {
			t.Errorf("with %s.enabled false, installed are %v, want %v", part, without, all)
		}
	}
}

// installed returns the alerts that a release has.
func installed(t *testing.T, values map[string]any) (names []string) {
	t.Helper()
	objects, _, _, err := Render(t.Context(), "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.Kind.Kind != "PrometheusRule" {
			continue
		}
		var all monitoringv1.PrometheusRule
		decode(t, o, &all)
		for _, group := range all.Spec.Groups {
			for _, rule := range group.Rules {
				names = append(names, rule.Alert)
			}
		}
	}
	return names
}

// What is recorded is used by an alert: dashboards do without it, as they can be installed without the rules.
func TestWhatIsRecordedIsUsed(t *testing.T) {
	var records, alerts []string
	for _, group := range rules(t) {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				records = append(records, rule.Record)
			} else {
				alerts = append(alerts, rule.Expr)
			}
		}
	}
	for _, record := range records {
		if !strings.Contains(strings.Join(alerts, "\n"), record) {
			t.Errorf("%s is recorded, and no alert asks for it", record)
		}
	}
	if len(records) == 0 {
		t.Error("no recording rule was found")
	}
}

// expectations returns, for each test of rules by its name, whether it expects the alert that it is named after, each time
// it looks. The name is the alert, and " fires" or " is quiet". A test without series looks at nothing.
func expectations(t *testing.T) map[string][]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Chart, "files", "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Name   string
			Series []any `json:"input_series"`
			Looks  []struct {
				Alert    string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := sigsyaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]bool)
	for _, test := range file.Tests {
		for _, look := range test.Looks {
			for _, way := range []string{" fires", " is quiet"} {
				if called := look.Alert + way; strings.HasPrefix(test.Name, called) && len(test.Series) > 0 {
					all[called] = append(all[called], len(look.Expected) > 0)
				}
			}
		}
	}
	return all
}
