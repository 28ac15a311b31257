package render

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"
)

// `make check-chart` puts the oldest Helm here that is enough according to the documents.
const helm3 = "../../.bin/helm-v3.14.4"

// template renders the chart with that Helm for the oldest Kubernetes, and returns what it wrote, and what it said.
func template(t *testing.T, arguments ...string) (manifest, said string, err error) {
	t.Helper()
	var out, complaints bytes.Buffer
	command := exec.CommandContext(t.Context(), helm3, append([]string{"template", "release", Chart, "--namespace=default", "--kube-version=1.30.0"}, arguments...)...)
	command.Env = []string{"HOME=" + t.TempDir()}
	command.Stdout, command.Stderr = &out, &complaints
	err = command.Run()
	return out.String(), complaints.String(), err
}

// "Helm 3.14 or later": for every file of values it installs the same as the Helm by which all other tests render, and
// it reads the schema.
func TestOldestHelm(t *testing.T) {
	if _, err := os.Stat(helm3); err != nil {
		t.Fatalf("%v: `make .bin/%s` fetches it", err, filepath.Base(helm3))
	}
	for profile := range profiles {
		manifest, said, err := template(t, "--values="+filepath.Join(Chart, "ci", profile+"-values.yaml"))
		if err != nil {
			t.Errorf("%s: %v: %s", profile, err, said)
			continue
		}
		old, err := split(manifest)
		if err != nil {
			t.Fatal(err)
		}
		objects, _, _ := rendered(t, profile, "release", "default")
		text := make(map[string]string)
		for _, o := range objects {
			text[o.Kind.String()+o.Name] = plain(t, o)
		}
		for _, o := range old {
			if text[o.Kind.String()+o.Name] != plain(t, o) {
				t.Errorf("%s: %s %s is another one by %s", profile, o.Kind.Kind, o.Name, filepath.Base(helm3))
			}
		}
		if len(old) != len(objects) {
			t.Errorf("%s: %d objects, want %d", profile, len(old), len(objects))
		}
	}
	for value, want := range map[string]string{
		"agent.port=80": "agent.port", "manager.replica=3": "replica", "gatherer.config.stopWait=soon": "gatherer.config.stopWait", "manager.replicas=2": "it can be 1 or 3",
	} {
		if _, said, err := template(t, "--set="+value); err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: %v: %s, want %q", value, err, said, want)
		}
	}
}

// plain returns an object without its comments, in which Helm says where it is from.
func plain(t *testing.T, o Object) string {
	t.Helper()
	text, err := sigsyaml.YAMLToJSON(o.Text)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
