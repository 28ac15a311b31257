//go:build cluster

package cluster

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What the README says for Kubernetes works as it is written, with all defaults of the chart. Only the first of its three commands has no
// registry here: each node is given the images under the names by which they would be pushed.
func TestSAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	push, install, check := readme(t)
	if _, err := gc.helm(3*time.Minute, "uninstall", gc.name, "--wait"); err != nil { // a node's ports are for one release, and nobody needs this one any more
		t.Fatal(err)
	}
	name(t, push)
	r := release{name: "groupcast", namespace: "groupcast"}
	t.Cleanup(func() { _, _ = r.helm(2*time.Minute, "uninstall", r.name) }) // of a cluster that is kept
	r.keepArtifacts(t)
	started := time.Now()
	if _, err := written(install); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is ready after %v", r.name, time.Since(started).Round(time.Second))
	said, err := written(check)
	r.passed(t, said, err)
}

// readme returns the README's commands for Kubernetes.
func readme(t *testing.T) (push, install, check string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^    (make images push-images .+)\n    (helm install .+)\n    (helm test .+)$`).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("the README has no commands for Kubernetes")
	}
	return found[1], found[2], found[3]
}

// written runs a command as it is written, at the root of the repository.
func written(line string) (output string, err error) {
	return command(6*time.Minute, "env", "-C", "../..", "KUBECONFIG="+kubeconfig, "sh", "-c", line)
}

// name gives the images on all nodes the names by which a command pushes them.
func name(t *testing.T, push string) {
	t.Helper()
	said, err := written(strings.Replace(push, "make images", "make --dry-run", 1))
	if err != nil {
		t.Fatal(err)
	}
	pushed := regexp.MustCompile(`docker push --quiet (\S+-)\$service(:\S+)`).FindStringSubmatch(said)
	if pushed == nil {
		t.Fatalf("what is pushed? %s", said)
	}
	for _, node := range nodeNames(t) {
		for _, service := range []string{"manager", "agent", "gatherer", "replicator", "cli"} {
			if _, err := command(time.Minute, "docker", "exec", node, "ctr", "--namespace", "k8s.io", "images", "tag", "--force", own(service), pushed[1]+service+pushed[2]); err != nil {
				t.Fatal(err)
			}
		}
	}
}
