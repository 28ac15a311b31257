package roster_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// A client is told of its own small files which are there, and of no others, nor of too many at once.
func TestFind(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	for name, content := range map[string]string{"alice/a": "one", "alice/b": "longer", "bob/c": "one"} {
		f.must(os.MkdirAll(filepath.Dir(filepath.Join(f.Dir, name)), 0o700))
		f.must(os.WriteFile(filepath.Join(f.Dir, name), []byte(content), 0o600))
	}
	roots, err := f.Find(f.Context(), alice.ID, alice.Peer, []sink.Spec{file("a", 3), file("b", 3), file("c", 3), file("none", 3)})
	f.must(err)
	if len(roots) != 4 || roots[0] == nil || *roots[0] != rootOf([]byte("one")) || roots[1] != nil || roots[2] != nil || roots[3] != nil {
		t.Errorf("found %v", roots)
	}
	if _, err := f.Find(f.Context(), alice.ID, alice.Peer, []sink.Spec{file("../bob/c", 3)}); !errors.Is(err, gathered.ErrPath) {
		t.Errorf("%v, want the path refused", err)
	}
	if _, err := f.Find(f.Context(), alice.ID, alice.Peer, make([]sink.Spec, 1001)); !errors.Is(err, roster.ErrTooMuch) {
		t.Errorf("%v, want it refused", err)
	}
	if _, err := f.Find(f.Context(), alice.ID, alice.Peer, []sink.Spec{file("a", 2<<20)}); !errors.Is(err, roster.ErrTooMuch) {
		t.Errorf("%v, want it refused", err)
	}
	if _, err := f.Find(f.Context(), alice.ID, member("bob"), []sink.Spec{file("a", 3)}); !errors.Is(err, roster.ErrSession) {
		t.Errorf("%v, want the session refused", err)
	}
}
