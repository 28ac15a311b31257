//go:build cluster

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// prometheus is a real Prometheus, in a pod, that scrapes the release. It runs on the control plane's node, so that it
// sees other nodes stop.
const prometheus = `
apiVersion: v1
kind: Pod
metadata: {name: prometheus, namespace: gc}
spec:
  automountServiceAccountToken: false
  nodeName: NODE
  containers:
    - name: prometheus
      image: prom/prometheus:v3
      imagePullPolicy: Never
      args: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/tmp/prometheus]
      ports: [{containerPort: 9090}]
      readinessProbe: {httpGet: {path: /-/ready, port: 9090}, periodSeconds: 1}
      volumeMounts: [{name: config, mountPath: /etc/prometheus}]
  volumes: [{name: config, configMap: {name: prometheus}}]
`

// adminPorts are the ports at which the parts show their metrics.
var adminPorts = map[string]int{"manager": 7401, "agent": 7411, "gatherer": 7422, "replicator": 7432, "envoy": 7482}

// scraped returns what Prometheus scrapes: every pod of the release, with the labels that the chart's monitors give it.
func scraped(t *testing.T) string {
	t.Helper()
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 2s, evaluation_interval: 2s}\nrule_files: [rules.yaml]\nscrape_configs:\n")
	for job, port := range adminPorts {
		path := "/metrics"
		if job == "envoy" {
			path = "/stats/prometheus"
		}
		fmt.Fprintf(&config, "- job_name: %s\n  metrics_path: %s\n  static_configs:\n", job, path)
		pods := gc.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/instance=gc,app.kubernetes.io/component="+job, "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.podIP}{"\n"}{end}`)
		for line := range strings.Lines(pods) {
			fields := strings.Fields(line)
			if len(fields) != 3 {
				t.Fatalf("pods of %s: %q", job, pods)
			}
			fmt.Fprintf(&config, "  - {targets: ['%s:%d'], labels: {namespace: gc, app_kubernetes_io_instance: gc, pod: %s, node: %s}}\n", fields[2], port, fields[0], fields[1])
		}
	}
	return config.String()
}

// impatient returns the chart's rules, changed so that alerts fire soon.
func impatient(t *testing.T) (file string) {
	t.Helper()
	rules, err := os.ReadFile(chart + "/files/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 10s")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// "every panel and variable of every dashboard must return data of a sane range while a delivery, a gathering and a
// replication run"
func TestMEveryPanelHasData(t *testing.T) {
	gc.keepArtifacts(t)
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	config := scraped(t)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	gc.kubectl(t, "create", "configmap", "prometheus", "--from-file=prometheus.yml="+file, "--from-file=rules.yaml="+impatient(t))
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte(strings.Replace(prometheus, "NODE", clusterName+"-control-plane", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	gc.kubectl(t, "apply", "-f", pod)
	gc.kubectl(t, "wait", "--for=condition=Ready", "pod/prometheus", "--timeout=2m")
	eventually(t, "every pod was scraped: what is counted before that has not grown", func() bool {
		return int(number(t, `count(up{namespace="gc"} == 1)`)) == strings.Count(config, "targets: ")
	})
	work(t)
	eventually(t, "what managers count when a delivery has ended is scraped", func() bool {
		return number(t, `sum(increase(groupcast_manager_delivery_cache_ratio_count{namespace="gc"}[2m]))`) > 0
	})
	files, err := filepath.Glob(chart + "/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		d := readDashboard(t, file)
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				expression := replaced.Replace(target.Expr)
				most, problem := ask(t, expression, atMost(panel.FieldConfig.Defaults.Unit, expression))
				if problem == "" && most == 0 && !isQuiet(expression) {
					problem = "nothing but 0"
				}
				if problem != "" {
					t.Errorf("%s: %s: %s: %s", filepath.Base(file), panel.Title, problem, expression)
				}
			}
		}
		for _, variable := range d.Templating.List {
			if variable.Type == "query" && !slices.Contains(choices(t, variable.Query), "gc") { // each variable must offer the namespace
				t.Errorf("%s: the variable %s, %s, has no gc", filepath.Base(file), variable.Name, variable.Query)
			}
		}
	}
	for rule, problem := range unwell(t) {
		t.Errorf("the rule %s: %s", rule, problem)
	}
	wantMemory(t)
}

// quiet are parts of queries that may find nothing but 0 while all is well: of what is lost, refused, away or changed, and of long paths.
// Every other query has to find more while there is work.
var quiet = []string{
	"_agents_offline", "_managers_offline", "_manager_cut_off", "_manager_read_only", "_large_writes_refused",
	"_proposals_failed_total", "_refused", "_restarts_total", "_evicted_children_total", "_circuit_breaker_trips_total",
	"_datagrams_recovered_total", "_datagrams_held_total", "_tree_changes_total", "_stripe_choices_total",
	"_clients_below_target", "_clients_paused", "_out_of_order_segments_total", "_other_bytes_per_second", "_queue_seconds",
	"_repair_packets_total", "_wanted_packets_total", "_timeouts_total", "_polls_total", "_rebuilt_blocks_total", "_spilled_blocks_total",
	`state!="complete"`, "envoy_cluster_grpc_success", // what does not succeed
}

func isQuiet(expression string) bool {
	return slices.ContainsFunc(quiet, func(part string) bool { return strings.Contains(expression, part) })
}

// unwell returns which of the chart's rules Prometheus cannot evaluate with what it scrapes, and why.
func unwell(t *testing.T) map[string]string {
	t.Helper()
	text := gc.kubectl(t, "get", "--raw", "/api/v1/namespaces/gc/pods/prometheus:9090/proxy/api/v1/rules")
	var got struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	found, problems := 0, make(map[string]string)
	for _, group := range got.Data.Groups {
		for _, rule := range group.Rules {
			found++
			if rule.Health != "ok" {
				problems[rule.Name] = cmp.Or(rule.LastError, rule.Health)
			}
		}
	}
	if found == 0 {
		t.Error("Prometheus has no rules")
	}
	return problems
}

// resident returns the metric of a part's memory.
func resident(job string) string {
	if job == "envoy" {
		return "envoy_server_memory_physical_size"
	}
	return "process_resident_memory_bytes"
}

// wantMemory checks that what each part requests by default, according to docs/kubernetes.md, is at least what any of
// its pods used while a delivery, a gathering and a replication ran.
func wantMemory(t *testing.T) {
	t.Helper()
	for job := range adminPorts {
		most := number(t, fmt.Sprintf(`max(max_over_time(%s{namespace="gc",job=%q}[30m]))`, resident(job), job)) / mebibyte
		asked := gc.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/instance=gc,app.kubernetes.io/component="+job, "-o", "jsonpath={.items[0].spec.containers[0].resources.requests.memory}")
		t.Logf("%s: %.0f MiB at most, %s asked for", job, most, asked)
		bound, err := strconv.ParseFloat(strings.TrimSuffix(asked, "Mi"), 64)
		if err != nil {
			t.Fatalf("%s: %v", job, err)
		}
		if most <= 0 || most > bound {
			t.Errorf("a pod of %s had %.0f MiB, and asks for %s", job, most, asked)
		}
	}
}

// work runs a delivery, a stream in datagrams, a gathering and a replication, for long enough to be seen.
func work(t *testing.T) {
	t.Helper()
	access := gc.operator(t)
	secret := gc.secret(t, "gc-groupcast-operator")
	operator := httpClient(t, secret["tls.crt"], secret["tls.key"], secret["ca.crt"])
	lists := func() {
		if code, said := post(t, operator, "GroupService/ListGroups", nil); code != http.StatusOK {
			t.Errorf("through Envoy: %d %s", code, said)
		}
	}
	lists()
	p := newParty(t, access, "models", sdk.Receive)
	defer p.leave()
	s := p.send(40*mebibyte, 2*mebibyte)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	client := uploader(t, access, "low") // alone it may have the 10 MB/s of the link
	gathered := make(chan error, 1)
	source, _ := random(t, 80*mebibyte)
	go func() {
		_, err := client.Upload(ctx, source, gather.FileOptions{})
		gathered <- err
	}()
	replication, err := p.client.Replicate(ctx, sdk.ReplicationSpec{
		SourceNode: nodeNames(t)[1], SourcePath: "/usr/local/bin/groupcast", TargetPath: "/var/lib/groupcast/replicas/again",
		Selector: "*", MaxBytesPerSecond: mebibyte,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.until(s, 30*mebibyte)
	gc.inside(t).datagrams()
	later, _ := random(t, mebibyte) // its connections come after everything has been scraped once
	if _, err := client.Upload(ctx, later, gather.FileOptions{Path: "later"}); err != nil {
		t.Error(err)
	}
	lists() // Envoy counts it from the first call on, so that only the second is seen to have been made
	for latest, err := range p.client.WatchReplication(ctx, replication.ID) {
		if err != nil {
			t.Fatal(err)
		}
		replication = latest
	}
	if replication.State != sdk.ReplicationComplete {
		t.Errorf("the replication is %s: %s", replication.State, replication.Detail)
	}
	p.complete(s)
	if err := <-gathered; err != nil {
		t.Error(err)
	}
}

// dashboard is the part of a dashboard that queries data.
type dashboard struct {
	Panels []struct {
		Title       string
		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

// panelOf returns the query of the only panel with a title in one of the chart's dashboards, as for this release.
func panelOf(t *testing.T, file, title string) (query string) {
	t.Helper()
	for _, panel := range readDashboard(t, filepath.Join(chart, "dashboards", file)).Panels {
		if panel.Title == title && len(panel.Targets) == 1 && query == "" {
			query = replaced.Replace(panel.Targets[0].Expr)
		}
	}
	if query == "" {
		t.Fatalf("%s has no panel %s with one query", file, title)
	}
	return query
}

func readDashboard(t *testing.T, file string) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// replaced replaces what Grafana would replace in a query.
var replaced = strings.NewReplacer("$__rate_interval", "2m", "$namespace", "gc")

// ofOne matches an expression of something that is at most 1, for one instance or for all together.
var ofOne = regexp.MustCompile(`^(min|max)( by \(\w+\))? ?\((groupcast_gatherer_fairness|groupcast_replicator_offload|groupcast_manager_(leading|cut_off|read_only|large_writes_refused)|etcd_server_is_leader)\{`)

// atMost returns the greatest plausible number for what a panel queries, in its unit.
func atMost(unit, expression string) float64 {
	if ofOne.MatchString(expression) {
		return 1
	}
	switch unit {
	case "percentunit":
		return 1
	case "s": // the greatest of all buckets
		return 3600
	case "ms":
		return 3600e3
	case "Bps":
		return 1e11
	case "ops", "reqps", "pps":
		return 1e7
	case "short": // counts and revisions
		return 1e9
	}
	return 1e13
}

// choices returns what Grafana offers for a variable: the values of a metric's label.
func choices(t *testing.T, query string) []string {
	t.Helper()
	asked := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(query)
	if asked == nil {
		t.Fatalf("a variable asks for %q", query)
	}
	text := gc.kubectl(t, "get", "--raw", "/api/v1/namespaces/gc/pods/prometheus:9090/proxy/api/v1/label/"+asked[2]+"/values?"+url.Values{"match[]": {asked[1]}}.Encode())
	var got struct{ Data []string }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return got.Data
}

// answer is an answer of Prometheus.
type answer struct {
	Status   string
	Error    string
	Warnings []string
	Data     struct {
		Result []struct{ Values [][2]any }
	}
}

// ask queries Prometheus as a panel does. It returns the greatest number, or what is wrong with the answer: an
// error, a warning, no data, or a number that is negative or implausibly large.
func ask(t *testing.T, expression string, bound float64) (most float64, problem string) {
	t.Helper()
	now := time.Now().Unix()
	asked := url.Values{"query": {expression}, "start": {fmt.Sprint(now - 180)}, "end": {fmt.Sprint(now)}, "step": {"2"}}
	text := gc.kubectl(t, "get", "--raw", "/api/v1/namespaces/gc/pods/prometheus:9090/proxy/api/v1/query_range?"+asked.Encode())
	var got answer
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return 0, err.Error()
	}
	switch {
	case got.Status != "success":
		return 0, got.Error
	case len(got.Warnings) > 0:
		return 0, fmt.Sprint(got.Warnings)
	}
	numbers := 0
	for _, line := range got.Data.Result {
		for _, point := range line.Values {
			value, err := strconv.ParseFloat(fmt.Sprint(point[1]), 64)
			if err != nil || math.IsInf(value, 0) || value < 0 || value > 1.01*bound { // the two parts of a ratio are not read at the same time
				return 0, fmt.Sprintf("%v is no number from 0 to %g", point[1], bound)
			}
			if !math.IsNaN(value) { // NaN is a quantile of nothing
				numbers, most = numbers+1, max(most, value)
			}
		}
	}
	if numbers == 0 {
		return 0, "no data"
	}
	return most, ""
}
