package testprocess

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// earlier is the commit whose programs have to work with today's: the last with the chart's version before.
const earlier = "3deb01436be37e8247f3cde398499213cc4dafcd"

// EarlierBinary is BuildEarlier for a test.
func EarlierBinary(t testing.TB, importPath string) string {
	t.Helper()
	binary, err := BuildEarlier(importPath)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// BuildEarlier builds a command of this module as it was in the version before, like Build.
func BuildEarlier(importPath string) (binary string, err error) {
	module, err := once(earlier, unpackEarlier)
	if err != nil {
		return "", fmt.Errorf("the version before is not in this clone, which may be a shallow one (git fetch --unshallow): %w", err)
	}
	return once("earlier "+importPath, func(dir string) (string, error) { return build(importPath, filepath.Dir(module), dir) })
}

// unpackEarlier takes the sources of the version before out of git's history.
func unpackEarlier(dir string) (module string, err error) {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", err
	}
	unpack := exec.Command("bash", "-o", "pipefail", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, strings.TrimSpace(string(top)), earlier, dir)
	if said, err := unpack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return filepath.Join(dir, "go.mod"), nil
}
