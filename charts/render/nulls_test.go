package render

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// --set KEY=null takes a value away. A list or a map is empty then; without any other value the chart either does, or says that it needs one. When an upgrade
// reuses values of which one is null already, it is the same: what one command takes, the next ones do not refuse.
func TestNullIsEmptyOrRefused(t *testing.T) {
	loaded, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	leak := regexp.MustCompile(`<nil>|%!|: null$|=$`)
	const encoded = "groupcast.binpb: " // in base64, which may end with =
	for _, path := range documented(t) {
		refused := make(map[string]bool)
		for how, defaults := range map[string]map[string]any{"set": loaded.Values, "reused": without(loaded.Values, path)} {
			of := *loaded
			of.Values = defaults
			manifest, err := templates(&of, null(path))
			refused[how] = err != nil
			if err != nil && !saysNull(err, path) {
				t.Errorf("%s is null, %s: %v", path, how, err)
			}
			for line := range strings.Lines(manifest) {
				if line = strings.TrimSpace(line); leak.MatchString(line) && !strings.Contains(line, `"`) && !strings.HasPrefix(line, encoded) {
					t.Errorf("%s is null, %s: the chart renders %.200q", path, how, line)
				}
			}
		}
		if refused["set"] != refused["reused"] {
			t.Errorf("%s is null, and refused: %v", path, refused)
		}
	}
}

// templates renders a chart without reading the objects again, which would take most of the time.
func templates(of *chart.Chart, values map[string]any) (text string, err error) {
	all, err := util.ToRenderValues(of, values, common.ReleaseOptions{Name: "release", Namespace: "default", IsInstall: true}, nil)
	if err != nil {
		return "", err
	}
	rendered, err := engine.Render(of, all)
	return strings.Join(slices.Collect(maps.Values(rendered)), "\n"), err
}

// saysNull reports whether an error says of a value, or of one below it, that it is null.
func saysNull(err error, path string) bool {
	message := regexp.MustCompile(regexp.QuoteMeta(path) + `[A-Za-z.]* is null, and has to be something|at '/` + strings.ReplaceAll(path, ".", "/") + `': got null`)
	return message.MatchString(err.Error())
}

// documented returns the paths of all values, and of the sections that they are in.
func documented(t *testing.T) (paths []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var walk func(node *yaml.Node, above string)
	walk = func(node *yaml.Node, above string) {
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, below := node.Content[i], node.Content[i+1]
			if path := above + key.Value; path != "global" { // which Helm makes itself
				paths = append(paths, path)
			}
			if below.Kind == yaml.MappingNode && !strings.Contains(key.HeadComment, "# -- ") {
				walk(below, above+key.Value+".")
			}
		}
	}
	walk(document.Content[0], "")
	return paths
}

// null returns values that have null at one path alone.
func null(path string) map[string]any {
	key, rest, more := strings.Cut(path, ".")
	if !more {
		return map[string]any{key: nil}
	}
	return map[string]any{key: null(rest)}
}

// without returns values without the one at a path.
func without(values map[string]any, path string) map[string]any {
	left := maps.Clone(values)
	key, rest, more := strings.Cut(path, ".")
	if below, is := left[key].(map[string]any); is && more {
		left[key] = without(below, rest)
	} else {
		delete(left, key)
	}
	return left
}
