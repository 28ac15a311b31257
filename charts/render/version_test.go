package render

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// A node that has an image does not pull it again: so another version of the chart names other images, as otherwise the
// old programs would go on running.
func TestImagesAreThoseOfTheVersion(t *testing.T) {
	present, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	before, now := images(t, former(t), nil), images(t, present, nil)
	if parts := slices.Sorted(maps.Keys(now)); !slices.Equal(parts, []string{"agent", "gatherer", "manager", "replicator", "test"}) {
		t.Fatalf("there are images of %v", parts)
	}
	for part, image := range now {
		if before[part] == image || !strings.HasSuffix(image, ":"+present.AppVersion()) {
			t.Errorf("%s has the image %s, and had %s before", part, image, before[part])
		}
	}
}

// images returns Groupcast's own images in a release of a chart, by component.
func images(t *testing.T, of *chart.Chart, values map[string]any) map[string]string {
	t.Helper()
	objects, _, _, err := RenderChart(t.Context(), of, "release", "default", values)
	if err != nil {
		t.Fatal(err)
	}
	return imagesOf(t, objects)
}

func imagesOf(t *testing.T, objects []Object) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, o := range objects {
		if labels, spec := pod(t, o); spec != nil && labels["app.kubernetes.io/component"] != "envoy" {
			all[labels["app.kubernetes.io/component"]] = spec.Containers[0].Image
		}
	}
	return all
}

// Managers can be upgraded first, as docs/UPGRADE.md says: with the installed chart, and the digest of their new image, nothing else changes. With
// the next chart and no digest, everything has its version. Notes name those that keep an image.
func TestManagersFirst(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	pinned := map[string]any{"manager": map[string]any{"image": map[string]any{"digest": digest}}}
	for part, image := range images(t, former(t), pinned) {
		if before := images(t, former(t), nil)[part]; (part == "manager") != (image != before) {
			t.Errorf("managers are to be of a digest, and %s has the image %s after %s", part, image, before)
		}
	}
	for _, tt := range []struct {
		digest, image string
		told          bool
	}{{digest, "@" + digest, true}, {"", ":" + version(t), false}} {
		values := map[string]any{"manager": map[string]any{"image": map[string]any{"digest": tt.digest}}}
		objects, _, notes, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatal(err)
		}
		if image := imagesOf(t, objects)["manager"]; !strings.HasSuffix(image, tt.image) {
			t.Errorf("with the digest %q, managers have the image %s", tt.digest, image)
		}
		if strings.Contains(notes, "--set manager.image.digest= lets it follow") != tt.told {
			t.Errorf("with the digest %q, the notes are\n%s", tt.digest, notes)
		}
	}
}

// Every part that stays at an image of a digest is named.
func TestDigestsAreTold(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, part := range []string{"manager", "agent", "gatherer", "replicator", "envoy", "tests"} {
		values := map[string]any{part: map[string]any{"image": map[string]any{"digest": digest}}}
		_, manifest, notes, err := Render(t.Context(), "release", "default", values)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(manifest, "@"+digest) || strings.Count(notes, "lets it follow") != 1 || !strings.Contains(notes, "--set "+part+".image.digest= lets it follow") {
			t.Errorf("where %s is of a digest, the notes are\n%s", part, notes)
		}
	}
}

// By default the chart asks for what is built and pushed by default.
func TestProgramsHaveTheVersion(t *testing.T) {
	version := version(t)
	command := exec.CommandContext(t.Context(), "make", "--dry-run", "build", "images", "push-images")
	command.Dir = filepath.Join(Chart, "..", "..")
	command.Env = []string{"PATH=" + os.Getenv("PATH")} // not the environment with which this test was called
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, want := range []string{
		"VERSION=" + version + " services/build.sh", "--build-arg VERSION=" + version + " ",
		"-t ghcr.io/groupcast/groupcast-$service:" + version + " ", "docker push --quiet ghcr.io/groupcast/groupcast-$service:" + version + " ",
	} {
		if !strings.Contains(string(output), want) {
			t.Errorf("make does not say %q:\n%s", want, output)
		}
	}
}

// Documents name the images of this version.
func TestDocumentsNameTheImages(t *testing.T) {
	version := version(t)
	named, found := regexp.MustCompile(`groupcast/groupcast-[a-zA-Z]+:([\w.-]+)`), 0
	for _, file := range []string{"README.md", "docs/kubernetes.md", "docs/UPGRADE.md"} {
		text, err := os.ReadFile(filepath.Join(Chart, "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; image[1] != version {
				t.Errorf("%s has %s, and the version is %s", file, image[0], version)
			}
		}
	}
	if found == 0 {
		t.Error("none names an image")
	}
}

// version returns the version of the programs that the chart installs.
func version(t *testing.T) string {
	t.Helper()
	present, err := loader.Load(Chart)
	if err != nil {
		t.Fatal(err)
	}
	return present.AppVersion()
}
