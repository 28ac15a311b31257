package standalone_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/standalone"
)

// "Every metric is on a dashboard, in an alert or in the docs, and every one these name exists."
func TestMetricsAreShownAndExist(t *testing.T) {
	exist := make(map[string]bool)
	for name := range described(t) {
		exist[name] = true
	}
	shown := named(t, exist)
	for _, name := range slices.Sorted(maps.Keys(exist)) {
		if len(shown[name]) == 0 {
			t.Errorf("%s is on no dashboard, in no rule and in no document", name)
		}
	}
	for name, by := range shown {
		if !exist[name] {
			t.Errorf("%s names %s, which no service has", by, name)
		}
	}
}

// Dashboards ask for the buckets of histograms. A Prometheus that takes native histograms keeps no buckets of a histogram that is both, unless
// it is told to.
func TestHistogramsHaveBucketsAlone(t *testing.T) {
	registry := prometheus.NewRegistry()
	runAll(t, registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	histograms := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if metric.Histogram == nil {
				continue
			}
			histograms++
			if metric.Histogram.Schema != nil {
				t.Errorf("%s is a native histogram", family.GetName())
			}
		}
	}
	if histograms == 0 {
		t.Error("there are no histograms")
	}
}

// description is what a metric says of itself.
type description struct{ help, labels string }

var descriptor = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"),.* variableLabels: \{([^}]*)\}`)

// described returns all metrics of all services, also those in which nothing has been counted.
func described(t *testing.T) map[string]description {
	t.Helper()
	registry := prometheus.NewRegistry()
	runAll(t, registry)
	descriptors := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptors)
		registry.Describe(descriptors)
	}()
	all := map[string]description{"groupcast_build_info": {"The version of the running service; always 1.", "service,version"}} // every process's own, which internal/daemon registers
	for desc := range descriptors {
		parts := descriptor.FindStringSubmatch(desc.String())
		help, err := strconv.Unquote(parts[2])
		if err != nil {
			t.Fatalf("%s: %v", desc, err)
		}
		all[parts[1]] = description{help, parts[3]}
	}
	for _, part := range []string{"manager", "agent", "gatherer", "replicator"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(name string) bool { return strings.HasPrefix(name, "groupcast_"+part+"_") }) {
			t.Fatalf("the %s has no metrics: %v", part, all)
		}
	}
	return all
}

// runAll has all services run in this process until the test ends, and returns when they are ready.
func runAll(t *testing.T, metrics prometheus.Registerer) {
	t.Helper()
	config := standalone.Defaults()
	config.Data = filepath.Join(t.TempDir(), "data")
	config.GRPC.Listen, config.Agents.Listen = "127.0.0.1:0", "127.0.0.1:0"
	config.Gatherer.GRPC.Listen, config.Gatherer.Data.Listen = "127.0.0.1:0", "127.0.0.1:0"
	config.Replicator.LANs = []string{"rack=127.0.0.1"}
	admin, err := daemon.ListenAdmin(daemon.AdminConfig{})
	if err != nil {
		t.Fatal(err)
	}
	says, ready := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := standalone.Run(ctx, daemon.Env{Log: slog.New(slog.DiscardHandler), Metrics: metrics, Admin: admin, Stdout: ready}, config)
		ready.CloseWithError(cmp.Or(err, io.EOF))
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	watchdog := time.AfterFunc(time.Minute, stop)
	defer watchdog.Stop()
	if _, err := says.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the services are not ready: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, says) }()
}

// A name of ours in a query or a document; recording rules have colons. "…_deliveries" after `groupcast_agent_links` stands for another metric
// whose name begins alike.
var metricName = regexp.MustCompile(`(?:^|[^a-z0-9_:])(groupcast_(?:build|manager|agent|gatherer|replicator)_[a-z0-9_]*[a-z0-9]|…_[a-z0-9_]*[a-z0-9])`)

// named returns the metrics that dashboards, rules and documents name, each with one of these that does.
func named(t *testing.T, exist map[string]bool) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"charts/groupcast/dashboards/*.json", "charts/groupcast/files/rules.yaml", "docs/*.md", "docs/runbooks/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if file == metricsPage {
				continue // it has all
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for _, found := range metricName.FindAllStringSubmatch(string(text), -1) {
				last = fullName(found[1], last, exist)
				all[last] = filepath.Base(file)
			}
		}
	}
	return all
}

// fullName returns a metric's whole name, given the name before it, and without what a histogram's series add to the name.
func fullName(name, before string, exist map[string]bool) string {
	if short, is := strings.CutPrefix(name, "…"); is {
		for at := len(before); at > 0; at = strings.LastIndex(before[:at], "_") {
			if exist[before[:at]+short] {
				return before[:at] + short
			}
		}
	}
	for _, series := range []string{"_bucket", "_count", "_sum"} {
		if of, is := strings.CutSuffix(name, series); is && exist[of] {
			return of
		}
	}
	return name
}
