package testprocess

import (
	"os"
	"path/filepath"
	"testing"
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
		sum, err := contents(building)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(into, sum)
		if err := publish(into, building, dir); err != nil {
			t.Fatal(err)
		}
		t.Setenv(Prepared, dir)
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
	for part, want := range map[string]string{"": "program two", earlierDir: "earlier/program two"} {
		file, found := prepared(part, "example.org/some/program")
		if got, err := os.ReadFile(file); !found || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", file, got, err, want)
		}
	}
	if third := publishing("one"); third != first {
		t.Errorf("the same programs are named %s and %s", first, third)
	}
	if _, found := prepared("", "example.org/some/program/v2"); !found {
		t.Error("a module's major version is taken for the name of its program")
	}
	if _, found := prepared("", "example.org/some/other"); found {
		t.Error("a program is found that was not built")
	}
}
