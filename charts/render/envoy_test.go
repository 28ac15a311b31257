package render

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// `make check-chart` puts Envoy here.
const envoyProgram = "../../.bin/envoy-1.40.0"

// "Every rendered configuration passes envoy --mode validate", and one that is not Envoy's does not.
func TestEnvoyAcceptsEveryProfile(t *testing.T) {
	if _, err := os.Stat(envoyProgram); err != nil {
		t.Fatalf("%v: `make .bin/%s` fetches it", err, filepath.Base(envoyProgram))
	}
	for profile, pods := range profiles {
		if _, has := pods["envoy"]; !has {
			continue
		}
		dir := unpack(t, profile)
		if said, err := validate(t, dir); err != nil {
			t.Errorf("%s: %v:\n%s", profile, err, said)
		}
		name := filepath.Join(dir, "envoy.json")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		broken := strings.Replace(string(text), `"auto_mapping"`, `"auto_napping"`, 1)
		if err := os.WriteFile(name, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := validate(t, dir); err == nil || !strings.Contains(said, "auto_napping") {
			t.Errorf("%s: what does not exist is valid: %v:\n%s", profile, err, said)
		}
	}
}

// Callers can make Envoy keep less than its container may use; without a limit there is no bound.
func TestEnvoysMemory(t *testing.T) {
	for limit, want := range map[any]string{"512Mi": "357913941", "1G": "666666666", "1.5Gi": "1073741824", 536870912: "357913941", nil: "1125899906842624"} {
		values := map[string]any{"envoy": map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": limit}}}}
		_, manifest, _, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatalf("%v: %v", limit, err)
		}
		if bound := `"max_heap_size_bytes": "` + want + `"`; strings.Count(manifest, bound) != 1 {
			t.Errorf("with a limit of %v there is no %s", limit, bound)
		}
	}
}

// `kubectl apply` and Argo CD keep a copy of an object in an annotation of it: Kubernetes takes 256 KiB of these.
func TestObjectsFitIntoAnAnnotation(t *testing.T) {
	const most = 256<<10 - 16<<10
	for profile := range profiles {
		objects, _, _ := rendered(t, profile, "release", "default")
		for _, o := range objects {
			text, err := sigsyaml.YAMLToJSON(o.Text)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > most {
				t.Errorf("%s: %s %s has %d bytes, want %d at most", profile, o.Kind.Kind, o.Name, len(text), most)
			}
		}
	}
}

func validate(t *testing.T, dir string) (string, error) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), envoyProgram, "--mode", "validate", "--config-path", filepath.Join(dir, "envoy.json")).CombinedOutput()
	return string(said), err
}

// unpack writes a profile's ConfigMaps for Envoy into a directory, as the kubelet does, and makes the configuration refer to that.
func unpack(t *testing.T, profile string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	objects, _, _ := rendered(t, profile, "release", "default")
	for _, o := range objects {
		if o.Kind.Kind != "ConfigMap" || !strings.HasPrefix(o.Name, "release-groupcast-envoy") {
			continue
		}
		var config corev1.ConfigMap
		if err := sigsyaml.Unmarshal(o.Text, &config); err != nil {
			t.Fatal(err)
		}
		files := maps.Clone(config.BinaryData)
		if files == nil {
			files = make(map[string][]byte)
		}
		for name, text := range config.Data {
			files[name] = []byte(strings.ReplaceAll(text, `"/etc/envoy`, `"`+dir))
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}
