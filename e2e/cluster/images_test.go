//go:build cluster

package cluster

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mostBytes is the largest size that the image of each service may have: 40 MB, or 80 with etcd in it.
var mostBytes = map[string]int{"manager": 80e6, "agent": 40e6, "gatherer": 40e6, "replicator": 40e6, "cli": 40e6}

func TestAImagesAreSmallAndWithoutRoot(t *testing.T) {
	for service, most := range mostBytes {
		said, err := exec.Command("docker", "image", "inspect", "--format", "{{.Size}}", own(service)).CombinedOutput()
		size, wrong := strconv.Atoi(strings.TrimSpace(string(said)))
		if err != nil || wrong != nil || size > most {
			t.Errorf("the image of %s has %s bytes, want at most %d: %v", service, said, most, err)
		}
		user, err := exec.Command("docker", "image", "inspect", "--format", "{{.Config.User}}", own(service)).CombinedOutput()
		if err != nil || strings.TrimSpace(string(user)) != "65532:65532" {
			t.Errorf("the image of %s runs as %q: %v", service, user, err)
		}
	}
}

// An image's own layer contains nothing of when it was built: the same sources give the same bits, of programs and of the layer.
func TestAImagesKnowNoTime(t *testing.T) {
	for service := range mostBytes {
		image, err := exec.Command("docker", "save", own(service)).Output()
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		files := entries(t, image)
		var manifest []struct{ Layers []string }
		if err := json.Unmarshal(files["manifest.json"].content, &manifest); err != nil || len(manifest) != 1 {
			t.Fatalf("%s: a manifest of %d images: %v", service, len(manifest), err)
		}
		layers := manifest[0].Layers
		var has []string
		for name, entry := range entries(t, files[path.Clean(layers[len(layers)-1])].content) {
			has = append(has, name)
			if !entry.time.Equal(time.Unix(0, 0)) {
				t.Errorf("%s: %s is of %v", service, name, entry.time)
			}
		}
		slices.Sort(has)
		if want := []string{"usr", "usr/local", "usr/local/bin", "usr/local/bin/groupcast"}; !slices.Equal(has, want) {
			t.Errorf("%s: its layer has %q, want %q", service, has, want)
		}
	}
}

type entry struct {
	content []byte
	time    time.Time
}

// entries returns an archive's entries, by name.
func entries(t *testing.T, archive []byte) map[string]entry {
	t.Helper()
	found := make(map[string]entry)
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[path.Clean(header.Name)] = entry{content, header.ModTime}
	}
}
