package testprocess

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What is published has the files of what was built, under a name that says what they contain, and takes the place of
// what was published before; what was published stays as it was while others are built.
func TestPublished(t *testing.T) {
	into := t.TempDir()
	building := filepath.Join(into, "building")
	publishing := func(program string) string {
		t.Helper()
		for _, name := range []string{"program", "earlier/program"} {
			file := filepath.Join(building, name)
			_ = os.Remove(file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(name+" "+program), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		for _, name := range []string{"program", "earlier/program"} { // as go build does it also where nothing has changed
			if err := os.Chtimes(filepath.Join(building, name), begun, begun); err != nil {
				t.Fatal(err)
			}
		}
		if err := settle(building, begun); err != nil {
			t.Fatal(err)
		}
		sum, err := contents(building)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(into, sum)
		if err := publish(into, building, dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	first := publishing("one")
	second := publishing("two")
	if first == second {
		t.Errorf("other programs have the name %s, too", second)
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("what was published before is still there: %v", err)
	}
	for name, want := range map[string]string{"program": "program two", "earlier/program": "earlier/program two"} {
		file := filepath.Join(second, name)
		if got, err := os.ReadFile(file); string(got) != want {
			t.Errorf("%s has %q, %v, want %q", file, got, err, want)
		}
	}
	third := publishing("one")
	if third != first {
		t.Errorf("the same programs are named %s and %s", first, third)
	}
	if again := publishing("one"); again != third {
		t.Errorf("the same programs are named %s and %s", third, again)
	}
	if there, err := os.Stat(filepath.Join(third, "program")); err != nil || !there.ModTime().Equal(builtAt) {
		t.Errorf("what is the same looks as if it were not: %v %v", there, err)
	}
}

// What is no more built is gone.
func TestOnlyWhatIsBuiltIsPublished(t *testing.T) {
	building := t.TempDir()
	former, begun := filepath.Join(building, "former"), time.Now()
	for name, at := range map[string]time.Time{former: begun.Add(-time.Minute), filepath.Join(building, "present"): begun} {
		if err := errors.Join(os.WriteFile(name, nil, 0o755), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := settle(building, begun); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(building); err != nil || len(left) != 1 || left[0].Name() != "present" {
		t.Errorf("there are %v, %v", left, err)
	}
}

// What was prepared is found by its path, whose last part may be a version, and nothing is built in place of what was not.
func TestPreparedPrograms(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Prepared, dir)
	for _, name := range []string{"server", "groupcast", "earlier/groupcast", "papers/member"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for importPath, want := range map[string]string{
		"go.etcd.io/etcd/server/v3": "server", module + "services/cli/cmd/groupcast": "groupcast", module + "e2e/papers/member": "papers/member",
	} {
		if file, err := Build(importPath); err != nil || file != filepath.Join(dir, want) {
			t.Errorf("%s is %s, %v", importPath, file, err)
		}
	}
	if file, err := BuildEarlier(module + "services/cli/cmd/groupcast"); err != nil || file != filepath.Join(dir, "earlier/groupcast") {
		t.Errorf("the version before is %s, %v", file, err)
	}
	if file, err := Build(module + "e2e/datagrams/member"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was not prepared is %s, %v", file, err)
	}
}
