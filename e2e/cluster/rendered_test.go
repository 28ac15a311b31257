//go:build cluster

package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// operator is the Prometheus operator's module, which contains the definitions of its kinds. This operator is older than the types that
// the chart's own tests know, and has to accept what the chart renders, too.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// gateways is the module that defines the Gateway API's kinds.
const gateways = "sigs.k8s.io/gateway-api@v1.6.3"

// definitions returns the files that define the kinds that the chart renders and no cluster has by itself, from the cache of Go's modules.
func definitions(t *testing.T) (files []string) {
	t.Helper()
	operatorFiles := filepath.Join(downloaded(t, operator), "example", "prometheus-operator-crd")
	for _, kind := range []string{"servicemonitors", "podmonitors", "prometheusrules"} {
		files = append(files, filepath.Join(operatorFiles, "monitoring.coreos.com_"+kind+".yaml"))
	}
	gatewayFiles := filepath.Join(downloaded(t, gateways), "config", "crd", "standard")
	for _, kind := range []string{"tcproutes", "tlsroutes"} {
		files = append(files, filepath.Join(gatewayFiles, "gateway.networking.k8s.io_"+kind+".yaml"))
	}
	return files
}

// downloaded returns the directory of a module.
func downloaded(t *testing.T, of string) string {
	t.Helper()
	output, err := command(5*time.Minute, "go", "mod", "download", "-json", of)
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(output), &module); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return module.Dir
}

// send makes a real API server check everything that the chart renders with a file of ci/ and further values, strictly
// and without storing anything.
func send(t *testing.T, profile string, values ...string) (said string, err error) {
	t.Helper()
	args := []string{"template", "sent", chart, "--namespace", "default", "--values", chart + "/ci/" + profile + "-values.yaml", "--set", "namespaceOverride=default"}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	rendered, err := command(time.Minute, "helm", args...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(file, []byte(rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubectl("apply", "--dry-run=server", "--validate=strict", "-f", file)
}

// "Validate against a real kube-apiserver": it accepts everything that the chart renders, including monitors, rules and routes, as it is.
func TestMRenderedIsValid(t *testing.T) {
	for _, file := range definitions(t) {
		mustKubectl(t, "apply", "--server-side", "-f", file)
		t.Cleanup(func() { mustKubectl(t, "delete", "--wait=false", "-f", file) })
		eventually(t, filepath.Base(file)+" is established", func() bool {
			_, err := kubectl("wait", "--for=condition=Established", "-f", file, "--timeout=10s") // fails at once as long as there are no conditions
			return err == nil
		})
	}
	ports := "envoy.service.nodePort=0,envoy.service.httpNodePort=0" // those of ci/ are in use
	said, err := send(t, "everything", ports)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"servicemonitor", "podmonitor", "prometheusrule", "tcproute", "tlsroute", "statefulset.apps", "daemonset.apps"} {
		if !strings.Contains(said, kind) {
			t.Errorf("no %s was sent:\n%s", kind, said)
		}
	}
	profiles, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(profiles) < 6 {
		t.Fatalf("values files %v, %v", profiles, err)
	}
	for _, file := range profiles {
		profile := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		if said, err := send(t, profile, ports); err != nil {
			t.Errorf("%s: %v\n%s", profile, err, said)
		}
	}
	said, err = send(t, "everything", ports, "monitoring.podMonitor.relabelings[0].targetLable=node")
	if err == nil || !strings.Contains(said, `unknown field "spec.podMetricsEndpoints[0].relabelings[1].targetLable"`) {
		t.Errorf("a field that there is not is taken: %v\n%s", err, said)
	}
}
