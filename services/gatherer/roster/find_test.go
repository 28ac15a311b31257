package roster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// A client is told which of its own small files are there; not of others, and not of too many at once.
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

// A client that has so much read that it has to wait itself keeps no other from opening an upload, or from asking what is there.
func TestNobodyReadsForAll(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice, bob := f.attach("alice"), f.attach("bob")
	done, err := f.Reading(t.Context(), "alice")
	f.must(err)
	over, stop := context.WithCancel(t.Context())
	stop()
	if _, err := f.Find(over, alice.ID, alice.Peer, []sink.Spec{file("f", 3)}); !errors.Is(err, context.Canceled) {
		t.Errorf("it need not wait for itself: %v", err)
	}
	f.open(bob, file("f", 3))
	_, err = f.Find(t.Context(), bob.ID, bob.Peer, []sink.Spec{file("g", 3), file("g", 3)})
	f.must(err)
	done()
	_, err = f.Find(t.Context(), alice.ID, alice.Peer, []sink.Spec{file("f", 3)})
	f.must(err)
	if left := f.Readers(); left > 0 {
		t.Errorf("%d clients are known to read, and none does", left)
	}
}
