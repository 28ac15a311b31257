//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// closed is a policy that allows the stranger no connection at all.
const closed = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: stranger}
spec: {podSelector: {matchLabels: {app: stranger}}, policyTypes: [Egress]}
`

// "network policy on": a pod that is not a manager reaches the managers' gRPC port, but not their store.
func TestMStrangersDoNotReachTheStore(t *testing.T) {
	gc.keepArtifacts(t)
	gc.kubectl(t, "run", "stranger", "--image=envoyproxy/envoy:v1.40.0", "--image-pull-policy=Never", "--labels=app=stranger", "--command", "--", "sleep", "600")
	t.Cleanup(func() {
		_, _ = kubectl("-n", gc.namespace, "delete", "--now", "pod/stranger", "networkpolicy/stranger", "--ignore-not-found") // a node that has it could not be drained
	})
	gc.kubectl(t, "wait", "--for=condition=Ready", "pod/stranger", "--timeout=1m")
	manager := gc.kubectl(t, "get", "pod", "gc-groupcast-manager-0", "-o", "jsonpath={.status.podIP}")
	file := filepath.Join(t.TempDir(), "closed.yaml")
	if err := os.WriteFile(file, []byte(closed), 0o600); err != nil {
		t.Fatal(err)
	}
	gc.kubectl(t, "apply", "-f", file)
	if !becomes(false, manager, 7400) {
		t.Fatal("this cluster's network enforces no policies")
	}
	gc.kubectl(t, "delete", "-f", file)
	if !becomes(true, manager, 7400) {
		t.Error("a stranger does not reach a manager")
	}
	if reaches(manager, 2380) {
		t.Error("a stranger reaches the managers' store")
	}
}

// becomes waits until the stranger reaches a port, or no longer does: policies take a moment.
func becomes(reached bool, address string, port int) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		if reaches(address, port) == reached {
			return true
		}
	}
	return false
}

// reaches reports whether the stranger can open a connection.
func reaches(address string, port int) bool {
	_, err := command(20*time.Second, "kubectl", "--kubeconfig", kubeconfig, "-n", gc.namespace, "exec", "stranger", "--",
		"timeout", "3", "bash", "-c", fmt.Sprintf("</dev/tcp/%s/%d", address, port))
	return err == nil
}
