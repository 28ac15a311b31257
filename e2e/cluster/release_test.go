//go:build cluster

package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// Release is an installation of the chart.
type release struct {
	name, namespace string
	values          []string
	port            int // of Envoy on the nodes, for clients outside
}

func kubectl(args ...string) (string, error) {
	return insist(2*time.Minute, "kubectl", append([]string{"--kubeconfig", kubeconfig}, args...)...)
}

// unanswered are messages that say that an API server is too busy: they say nothing about what is tested.
var unanswered = []string{"TLS handshake timeout", "i/o timeout", "connection refused", "etcdserver: request timed out", "etcdserver: leader changed", "context deadline exceeded (Client.Timeout", "http2: client connection lost"}

// insist runs a program, and runs it again up to twice if the API server did not answer.
func insist(limit time.Duration, name string, args ...string) (output string, err error) {
	for range 3 {
		output, err = command(limit, name, args...)
		busy := func(sign string) bool { return strings.Contains(output, sign) }
		if err == nil || !slices.ContainsFunc(unanswered, busy) {
			break
		}
	}
	return output, err
}

func mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := kubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(output)
}

func (r release) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return mustKubectl(t, append([]string{"-n", r.namespace}, args...)...)
}

func (r release) helm(limit time.Duration, args ...string) (string, error) {
	return insist(limit, "helm", append([]string{"--kubeconfig", kubeconfig, "--namespace", r.namespace}, args...)...)
}

// apply installs or upgrades, and waits until everything is ready.
func (r release) apply(t *testing.T, values ...string) {
	t.Helper()
	r.applyChart(t, chart, values...)
}

// upgrade upgrades the release to other values, and does not wait.
func (r release) upgrade(values ...string) (output string, err error) {
	return r.helm(2*time.Minute, append([]string{"upgrade", r.name, chart}, r.sets(values...)...)...)
}

// sets returns helm's flags for the values of the release, and further ones.
func (r release) sets(values ...string) (flags []string) {
	for _, value := range slices.Concat([]string{"image.tag=" + dev}, r.values, values) {
		flags = append(flags, "--set", value)
	}
	return flags
}

// applyChart is apply with another chart than the present one.
func (r release) applyChart(t *testing.T, chart string, values ...string) {
	t.Helper()
	args := append([]string{"upgrade", "--install", r.name, chart, "--wait", "--timeout", "5m"}, r.sets(values...)...)
	started := time.Now()
	if _, err := r.helm(6*time.Minute, args...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is ready after %v", r.name, time.Since(started).Round(time.Second))
}

// test runs helm's test: a real delivery by way of every agent and, if there is a gatherer, an upload.
func (r release) test() (output string, err error) {
	return r.helm(5*time.Minute, "test", r.name, "--logs", "--timeout", "4m")
}

func (r release) check(t *testing.T) {
	t.Helper()
	output, err := r.test()
	r.passed(t, output, err)
}

// passed checks what helm's test reported.
func (r release) passed(t *testing.T, output string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(output, " complete ") != nodes {
		t.Errorf("a delivery to %d nodes:\n%s", nodes, last(output, 2000))
	}
	gatherer := r.kubectl(t, "get", "sts", "-l", "app.kubernetes.io/instance="+r.name+",app.kubernetes.io/component=gatherer", "-o", "name")
	if gatherer != "" && (!strings.Contains(output, "test-gathering") || strings.Contains(output, "was there already")) {
		t.Errorf("nothing was uploaded to %s:\n%s", gatherer, last(output, 2000))
	}
}

// keepArtifacts saves what explains a failure. It is called after the removal of the release is registered, as cleanups
// run in reverse order.
func (r release) keepArtifacts(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir := r.artifacts(t)
		for name, args := range map[string][]string{
			"pods.txt":       {"get", "pods,pvc,svc,ds,sts,deploy", "-o", "wide"},
			"pods.yaml":      {"get", "pods", "-o", "yaml"},
			"events.txt":     {"get", "events", "--sort-by=.lastTimestamp"},
			"manager.log":    {"logs", "-l", "app.kubernetes.io/component=manager", "--tail=-1", "--prefix"},
			"agent.log":      {"logs", "-l", "app.kubernetes.io/component=agent", "--tail=-1", "--prefix"},
			"gatherer.log":   {"logs", "-l", "app.kubernetes.io/component=gatherer", "--tail=-1", "--prefix"},
			"replicator.log": {"logs", "-l", "app.kubernetes.io/component=replicator", "--tail=-1", "--prefix"},
			"envoy.log":      {"logs", "-l", "app.kubernetes.io/component=envoy", "--tail=-1", "--prefix"},
			"test.log":       {"logs", "-l", "app.kubernetes.io/component=test", "--tail=-1", "--prefix"},
			"previous.log":   {"logs", "-l", "app.kubernetes.io/instance=" + r.name, "--tail=-1", "--prefix", "--previous", "--ignore-errors"},
		} {
			output, err := kubectl(append([]string{"-n", r.namespace}, args...)...)
			keep(dir, name, output, err)
		}
		r.keepMetrics(dir)
		t.Logf("logs, events and metrics are in %s", dir)
	})
}

// artifacts returns the directory, made if need be, of what explains why a test failed.
func (r release) artifacts(t *testing.T) string {
	dir := filepath.Join(artifacts, strings.ReplaceAll(t.Name(), "/", "-"), r.namespace)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Error(err)
	}
	return dir
}

// podLines makes kubectl write a line for each pod: its name and, for Groupcast's own, the admin port and the component.
const podLines = `jsonpath={range .items[*]}{.metadata.name} {.spec.containers[0].ports[?(@.name=="admin")].containerPort} {.metadata.labels.app\.kubernetes\.io/component}{"\n"}{end}`

// keepMetrics saves what the pods of a release count, within a minute, whatever has become of them.
func (r release) keepMetrics(dir string) {
	pods, err := command(20*time.Second, "kubectl", "--kubeconfig", kubeconfig, "-n", r.namespace, "get", "pods", "-o", podLines)
	if err != nil {
		keep(dir, "metrics.txt", pods, err)
		return
	}
	var running sync.WaitGroup
	for name, path := range metricsOf(r.namespace, pods, time.Now()) {
		running.Go(func() {
			output, err := command(20*time.Second, "kubectl", "--kubeconfig", kubeconfig, "get", "--raw", path)
			keep(dir, name, output, err)
		})
	}
	running.Wait()
}

// keep saves what a program wrote, and its error.
func keep(dir, name, output string, err error) {
	if err != nil {
		output += "\n" + err.Error()
	}
	_ = os.WriteFile(filepath.Join(dir, name), []byte(output), 0o644)
}

// secret returns what a Secret holds.
func (r release) secret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	var secret struct{ Data map[string]string }
	if err := json.Unmarshal([]byte(r.kubectl(t, "get", "secret", name, "-o", "json")), &secret); err != nil {
		t.Fatal(err)
	}
	data := make(map[string][]byte)
	for key, text := range secret.Data {
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		data[key] = value
	}
	return data
}

// operator writes an operator's configuration that connects through Envoy from outside the cluster, and returns its file.
func (r release) operator(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range r.secret(t, r.name+"-groupcast-operator") {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var endpoints []string
	for _, address := range nodeAddresses(t) {
		endpoints = append(endpoints, fmt.Sprintf("%s:%d", address, r.port))
	}
	config := sdk.Config{Endpoints: endpoints, TrustDomain: sdk.DefaultTrustDomain, CredentialsDir: "."}
	file := filepath.Join(dir, "config.yaml")
	if err := config.Write(file); err != nil {
		t.Fatal(err)
	}
	return file
}

func nodeAddresses(t *testing.T) []string {
	t.Helper()
	return strings.Fields(mustKubectl(t, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
}

func nodeNames(t *testing.T) []string {
	t.Helper()
	return strings.Fields(mustKubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
}
