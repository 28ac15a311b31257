package testprocess

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// earlier contains what the commands of the version before were made of: the last commit with the previous version of
// the chart, kept by `make former-programs`.
const earlier = "internal/testprocess/testdata/earlier.tar.gz"

// EarlierBinary is BuildEarlier for a test.
func EarlierBinary(t testing.TB, importPath string) string {
	t.Helper()
	binary, err := BuildEarlier(importPath)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// BuildEarlier builds a command of this module as it was in the version before, as Build does.
func BuildEarlier(importPath string) (binary string, err error) {
	if dir := os.Getenv(Prepared); dir != "" {
		return prepared(built(filepath.Join(dir, earlierDir), importPath))
	}
	module, err := once(earlier, unpackEarlier)
	if err != nil {
		return "", err
	}
	return once("earlier "+importPath, func(dir string) (string, error) {
		return built(dir, importPath), build(filepath.Dir(module), dir, importPath)
	})
}

// unpackEarlier unpacks the sources of the version before.
func unpackEarlier(dir string) (module string, err error) {
	today, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	packed := filepath.Join(filepath.Dir(string(today)), earlier)
	if said, err := exec.Command("tar", "-xzf", packed, "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the version before: %w: %s", err, said)
	}
	module = filepath.Join(dir, "go.mod")
	_, err = os.Stat(module)
	return module, err
}
