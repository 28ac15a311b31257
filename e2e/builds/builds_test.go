// Package builds checks that the same sources give the same bits, which know the version that they were given.
package builds

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sources is what the build of an image reads.
var sources = []string{"go.mod", "go.sum", "internal", "sdk", "services"}

// Every binary is the same, byte for byte, when it is built in two directories with the flags of images and `make build`. One directory is a clone,
// which Go would stamp into binaries; the other has no repository, like the place where images are built. As long as nothing of its directory goes
// into it, compiled code comes out of Go's cache, so that this costs little more than linking.
func TestSameBitsFromTheSameSources(t *testing.T) {
	t.Setenv("VERSION", stamp)
	first, second := build(t, "here"), build(t, filepath.Join("somewhere", "else"), func(dir string) {
		t.Setenv("GOFLAGS", "-buildvcs=true") // whatever the machine's flags are
		run(t, dir, "git", "init", "--quiet")
		run(t, dir, "git", "add", ".")
		run(t, dir, "git", "-c", "user.name=builder", "-c", "user.email=builder@example.org", "commit", "--quiet", "--message", "what is built")
	})
	services, err := filepath.Glob("../../services/*/cmd/*")
	if err != nil || len(first) != len(services) || len(services) < 6 {
		t.Fatalf("%d binaries of %d services: %v", len(first), len(services), err)
	}
	for name, binary := range first {
		if !bytes.Equal(binary, second[name]) {
			t.Errorf("%s is another in another directory", name)
		}
		if said := versionOf(t, name, binary); !strings.Contains(said, stamp) {
			t.Errorf("%s was built as %s, and says %q", name, stamp, said)
		}
	}
}

// stamp is the version as which everything is built here. The linker says nothing if what it is to set is not there.
const stamp = "v9.8.7-stamped"

// versionOf returns what a binary says of its version.
func versionOf(t *testing.T, name string, binary []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, binary, 0o700); err != nil {
		t.Fatal(err)
	}
	ask := "--version"
	if name == "groupcast" {
		ask = "version"
	}
	said, err := exec.CommandContext(t.Context(), file, ask).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said)
	}
	return string(said)
}

// build returns what is built in a directory with a copy of the sources, by name; first is called there beforehand.
func build(t *testing.T, name string, first ...func(dir string)) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		run(t, "../..", "cp", "-r", source, dir)
	}
	for _, do := range first {
		do(dir)
	}
	run(t, dir, "services/build.sh", "-o", "out/", "./services/...")
	built, err := os.ReadDir(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	binaries := make(map[string][]byte)
	for _, file := range built {
		if binaries[file.Name()], err = os.ReadFile(filepath.Join(dir, "out", file.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return binaries
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
}
