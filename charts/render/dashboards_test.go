package render

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dashboard is the part of a dashboard that the rules below check.
type dashboard struct {
	UID, Title, Description string
	Editable                bool
	Panels                  []panel
	Templating              struct {
		List []struct {
			Name, Type string
			Multi      bool
			IncludeAll bool
			Refresh    int
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr, LegendFormat string }
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Chart, "dashboards", "*.json"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	all := make(map[string]dashboard)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var one dashboard
		if err := json.Unmarshal(text, &one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = one
	}
	return all
}

// Dashboards follow the rules of dashboard-linter, as far as they apply here.
func TestDashboardsFollowTheRules(t *testing.T) {
	uids, titles := make(map[string]string), make(map[string]string)
	for file, d := range dashboards(t) {
		if uids[d.UID] != "" || titles[d.Title] != "" || d.UID == "" || d.Title == "" || d.Description == "" {
			t.Errorf("%s: uid %q and title %q are empty or those of %s%s", file, d.UID, d.Title, uids[d.UID], titles[d.Title])
		}
		uids[d.UID], titles[d.Title] = file, file
		if d.Editable {
			t.Errorf("%s can be edited in Grafana: the next upgrade would undo it", file)
		}
		variables := d.Templating.List
		if len(variables) != 2 || variables[0].Name != "datasource" || variables[0].Type != "datasource" || variables[1].Name != "namespace" ||
			!variables[1].Multi || !variables[1].IncludeAll || variables[1].Refresh != 2 {
			t.Errorf("%s: variables %+v", file, variables)
		}
		ids, names := make(map[int]bool), make(map[string]bool)
		for _, p := range d.Panels {
			if ids[p.ID] || names[p.Type+p.Title] || p.ID == 0 {
				t.Errorf("%s: the id %d or the title %q is there twice", file, p.ID, p.Title)
			}
			ids[p.ID], names[p.Type+p.Title] = true, true
			if p.Type != "row" {
				p.check(t, file)
			}
		}
	}
}

// ranges replaces what Grafana would replace.
var ranges = strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*")

func (p panel) check(t *testing.T, file string) {
	t.Helper()
	if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
		t.Errorf("%s: %q lacks a description, a unit, a query or the data source", file, p.Title)
	}
	for _, target := range p.Targets {
		if target.LegendFormat == "" {
			t.Errorf("%s: %q has a query without a legend", file, p.Title)
		}
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(ranges.Replace(target.Expr))
		if err != nil {
			t.Errorf("%s: %q: %v", file, p.Title, err)
			continue
		}
		parser.Inspect(expression, func(node parser.Node, path []parser.Node) error {
			if selector, is := node.(*parser.VectorSelector); is {
				checkSelector(t, file+": "+p.Title, selector, path)
			}
			return nil
		})
		for _, window := range regexp.MustCompile(`\[([^\]]+)\]`).FindAllStringSubmatch(target.Expr, -1) {
			if window[1] != "$__rate_interval" {
				t.Errorf("%s: %q takes a rate over %s", file, p.Title, window[1])
			}
		}
	}
}

// What all managers of a release report alike is shown for all chosen releases, not just for the largest. Terms are the
// exception, as nobody adds them up.
func TestReleasesAreShownTogether(t *testing.T) {
	shown := 0
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if strings.HasPrefix(target.Expr, "max(groupcast_manager_") && !strings.Contains(target.Expr, "groupcast_manager_term{") {
					t.Errorf("%s: %q shows one release of several: %s", file, p.Title, target.Expr)
				}
				if strings.HasPrefix(target.Expr, "sum(max by (namespace, app_kubernetes_io_instance) (") {
					shown++
				}
			}
		}
	}
	if shown == 0 {
		t.Error("nothing is shown so")
	}
}

// partOf finds whose metric one is: groupcast-standalone has all, and is scraped once for each part, in the part's job.
var partOf = regexp.MustCompile(`^groupcast_(manager|agent|gatherer|replicator)_`)

// A counter is shown by its rate, and every metric is restricted to the chosen namespaces, and to the job of the part that it is of.
func checkSelector(t *testing.T, where string, selector *parser.VectorSelector, path []parser.Node) {
	t.Helper()
	rated := false
	for _, above := range path {
		if call, is := above.(*parser.Call); is && (call.Func.Name == "rate" || call.Func.Name == "increase") {
			rated = true
		}
	}
	counter := slices.ContainsFunc([]string{"_total", "_bucket", "_count", "_xx", "_success"}, func(end string) bool { return strings.HasSuffix(selector.Name, end) })
	if counter != rated {
		t.Errorf("%s: %s: counter %v, rated %v", where, selector.Name, counter, rated)
	}
	namespace, job := "", ""
	for _, matcher := range selector.LabelMatchers {
		switch {
		case matcher.Name == "namespace" && matcher.Type == labels.MatchRegexp:
			namespace = matcher.Value
		case matcher.Name == "job" && matcher.Type == labels.MatchEqual:
			job = matcher.Value
		}
	}
	if namespace == "" {
		t.Errorf("%s: %s is of any namespace", where, selector.Name)
	}
	if part := partOf.FindStringSubmatch(selector.Name); part != nil && job != part[1] {
		t.Errorf("%s: %s is of the job %q", where, selector.Name, job)
	}
}

// grafanaDashboard is the resource of the Grafana operator, as far as the chart uses it.
type grafanaDashboard struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Folder                    string                      `json:"folder"`
		AllowCrossNamespaceImport bool                        `json:"allowCrossNamespaceImport"`
		InstanceSelector          metav1.LabelSelector        `json:"instanceSelector"`
		ConfigMapRef              corev1.ConfigMapKeySelector `json:"configMapRef"`
	} `json:"spec"`
}

// Grafana gets each dashboard through its sidecar, or through its operator, which is referred to the ConfigMap that has
// it; never through both.
func TestDashboardsGetToGrafana(t *testing.T) {
	for mode, operated := range map[string]bool{"Sidecar": false, "GrafanaOperator": true} {
		objects, _, _, err := Render(t.Context(), "release", "default", map[string]any{"monitoring": map[string]any{"dashboards": map[string]any{
			"enabled": true, "mode": mode, "folder": "Bytes", "allowCrossNamespaceImport": false, "instanceSelector": map[string]any{"dashboards": nil, "team": "a"},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		var labelled, led []string
		for _, o := range objects {
			switch o.Kind.Kind {
			case "ConfigMap":
				var is corev1.ConfigMap
				decode(t, o, &is)
				if is.Labels["grafana_dashboard"] == "1" && is.Annotations["grafana_folder"] == "Bytes" {
					labelled = append(labelled, slices.Collect(maps.Keys(is.Data))...)
				}
			case "GrafanaDashboard":
				var is grafanaDashboard
				decode(t, o, &is)
				of := is.Spec.ConfigMapRef
				if is.Spec.Folder != "Bytes" || is.Spec.AllowCrossNamespaceImport || !maps.Equal(is.Spec.InstanceSelector.MatchLabels, map[string]string{"team": "a"}) {
					t.Errorf("%s: %+v", o.Name, is.Spec)
				}
				if !slices.ContainsFunc(objects, func(o Object) bool {
					return o.Kind.Kind == "ConfigMap" && o.Name == of.Name && strings.Contains(string(o.Text), "\n  "+of.Key+": |")
				}) {
					t.Errorf("%s is to be in %s of the ConfigMap %s", o.Name, of.Key, of.Name)
				}
				led = append(led, of.Key)
			}
		}
		if all := len(dashboards(t)); len(labelled) != all && !operated || len(led) != all && operated || len(labelled) > 0 && len(led) > 0 {
			t.Errorf("%s: %d of %d dashboards for the sidecar, and %d for the operator", mode, len(labelled), all, len(led))
		}
	}
}
