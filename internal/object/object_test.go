package object_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/object"
)

func TestRoundTrip(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a file":             {"it": "content"},
		"an empty file":      {"it": ""},
		"an empty directory": {"it/": ""},
		"a large file":       {"it": strings.Repeat("0123456789", 1<<20)},
		"a tree": {
			"it/a/b/c": "deep", "it/a-b": "after a in names, before a/b in bytes", "it/a/empty": "", "it/hollow/inner/": "",
			"it/z": strings.Repeat("z", 3<<20), "it/zz": "", "it/back\\slash": "x", "it/ü": "ü",
		},
		"only empty files": {"it/a": "", "it/b/c": ""},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			plant(t, from, files)
			source := open(t, filepath.Join(from, "it"))
			root := rootOf(t, source)
			for _, durable := range []bool{true, false} { // the second takes the place of the first
				landing := land(t, to, source.Info())
				if err := deliver(source, landing, source.Info().Length, whole); err != nil {
					t.Fatal(err)
				}
				if err := landing.Complete(source.Info().Length, root, durable); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
					t.Errorf("-sent +landed:\n%s", diff)
				}
			}
			there, found, err := object.Existing(t.Context(), to, source.Info())
			if err != nil || !found || there != root {
				t.Errorf("existing: %v %v %v, want %v", there, found, err, root)
			}
		})
	}
}

func TestResume(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"it/a": strings.Repeat("a", 3<<20), "it/b/c": strings.Repeat("c", 3<<20), "it/d": ""})
	if err := os.Chmod(filepath.Join(from, "it/b"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // so that a user that is not root can remove them
		_ = os.Chmod(filepath.Join(from, "it/b"), 0o755)
		_ = os.Chmod(filepath.Join(to, "it/b"), 0o755)
	})
	source := open(t, filepath.Join(from, "it"))
	for _, upTo := range []uint64{5, 40, 1 << 20, 4 << 20, source.Info().Length} {
		landing := land(t, to, source.Info())
		if err := deliver(source, landing, upTo, whole); err != nil {
			t.Fatal(err)
		}
		if err := landing.Keep(); err != nil {
			t.Fatal(err)
		}
		landing = land(t, to, source.Info())
		if landing.Offset() != upTo && upTo > 100 {
			t.Errorf("resumes at %d, want %d", landing.Offset(), upTo)
		}
		if err := landing.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	landing := land(t, to, source.Info())
	if err := landing.Complete(source.Info().Length, rootOf(t, source), true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
		t.Errorf("-sent +landed:\n%s", diff)
	}
}
