// Package render renders the chart as helm does, for tests.
package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Chart is the directory of the chart.
var Chart = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "groupcast")
}()

// Values reads a file of ci/.
func Values(name string) (map[string]any, error) {
	text, err := os.ReadFile(filepath.Join(Chart, "ci", name+"-values.yaml"))
	if err != nil {
		return nil, err
	}
	var values map[string]any
	return values, sigsyaml.Unmarshal(text, &values)
}

// Object is a rendered object.
type Object struct {
	Kind schema.GroupVersionKind
	Name string
	Text []byte
}

// Render renders the chart as a release in a namespace: its objects, its tests, and its notes.
func Render(ctx context.Context, name, namespace string, values map[string]any) (objects []Object, manifest, notes string, err error) {
	loaded, err := loader.Load(Chart)
	if err != nil {
		return nil, "", "", err
	}
	return RenderChart(ctx, loaded, name, namespace, values)
}

// RenderChart is Render for any chart.
func RenderChart(ctx context.Context, loaded *chart.Chart, name, namespace string, values map[string]any) (objects []Object, manifest, notes string, err error) {
	version, err := common.ParseKubeVersion("v1.34.3")
	if err != nil {
		return nil, "", "", err
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, name, namespace
	install.KubeVersion = version
	made, err := install.RunWithContext(ctx, loaded, values)
	if err != nil {
		return nil, "", "", err
	}
	rendered, is := made.(*release.Release)
	if !is {
		return nil, "", "", fmt.Errorf("a release of type %T", made)
	}
	manifest = rendered.Manifest
	for _, hook := range rendered.Hooks {
		manifest += "\n---\n" + hook.Manifest
	}
	objects, err = split(manifest)
	return objects, manifest, rendered.Info.Notes, err
}

func split(manifest string) (objects []Object, err error) {
	reader := yaml.NewYAMLReader(bufferedReader(manifest))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := sigsyaml.Unmarshal(text, &head); err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, text)
		}
		if head.Kind == "" {
			if len(bytes.TrimSpace(text)) > 0 && bytes.Contains(text, []byte(":")) && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("#")) {
				return nil, fmt.Errorf("no object:\n%s", text)
			}
			continue
		}
		objects = append(objects, Object{schema.FromAPIVersionAndKind(head.APIVersion, head.Kind), head.Metadata.Name, text})
	}
}
