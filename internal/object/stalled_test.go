package object_test

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
)

// givenUp has a pulse be that of a disk that nobody waits for any more.
func givenUp(t *testing.T, w *pulse.Watch) {
	t.Helper()
	answer := make(chan struct{})
	defer close(answer)
	err := w.Await(t.Context(), "stand", func() error {
		<-answer
		return nil
	}, func() {})
	if !errors.Is(err, pulse.ErrStalled) {
		t.Fatal(err)
	}
}

// What nobody waits for any more, for its disk did not answer, does not appear when that answers late, and is kept: all of it.
func TestWhatIsGivenUpIsKept(t *testing.T) {
	from := t.TempDir()
	plant(t, from, map[string]string{"file": "hello", "tree/a": "hello", "tree/b/c": "hullo"})
	for _, name := range []string{"file", "tree"} {
		to, source := t.TempDir(), open(t, filepath.Join(from, name))
		w := &pulse.Watch{Log: slog.New(slog.DiscardHandler), Patience: time.Millisecond}
		landing, err := object.Land(pulse.In(t.Context(), &w.Pulse), to, source.Info())
		if err != nil {
			t.Fatal(err)
		}
		length := source.Info().Length
		if err := deliver(source, landing, length, whole); err != nil {
			t.Fatal(err)
		}
		givenUp(t, w)
		if err := landing.Complete(length, rootOf(t, source), true); !errors.Is(err, pulse.ErrStalled) || !missing(filepath.Join(to, name)) {
			t.Errorf("%s: %v, and it has its name: %v", name, err, !missing(filepath.Join(to, name)))
		}
		if err := landing.Keep(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		again := land(t, to, source.Info())
		if again.Offset() != length {
			t.Errorf("%s: %d bytes of %d are kept", name, again.Offset(), length)
		}
		if err := again.Complete(length, rootOf(t, source), true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where a pulse is asked for, trees are removed name by name, and whole, whatever may be written to in them.
func TestTreesAreRemovedByBeats(t *testing.T) {
	from := t.TempDir()
	plant(t, from, map[string]string{"tree/a": "hello", "tree/b/c": "hullo", "tree/closed/d": "hallo"})
	if err := os.Chmod(filepath.Join(from, "tree", "closed"), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(from, "tree", "closed"), 0o700) })
	to, source := t.TempDir(), open(t, filepath.Join(from, "tree"))
	plant(t, to, map[string]string{"tree/old/one": "hello", "tree/old/two/three": "hullo"})
	landing, err := object.Land(pulse.In(t.Context(), new(pulse.Pulse)), to, source.Info())
	if err != nil {
		t.Fatal(err)
	}
	if err := deliver(source, landing, source.Info().Length, whole); err != nil {
		t.Fatal(err)
	}
	if err := landing.Complete(source.Info().Length, rootOf(t, source), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "tree", "closed"), 0o700) })
	if got, want := tree(t, to), tree(t, from); !maps.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
}

// While a claim takes long the disk is asked to write what is large and not claimed, until the claim has ended. No other file is touched: there
// may be a million of them.
func TestOnlyWhatIsLargeAndNotClaimedIsFlushed(t *testing.T) {
	large := strings.Repeat("x", pulse.Piece+1)
	over, under := make(chan struct{}), make(chan struct{})
	close(over)
	for name, c := range map[string]struct {
		content  string
		claimed  bool
		ended    <-chan struct{}
		isOpened bool
	}{
		"large": {large, false, under, true}, "large and claimed": {large, true, under, false},
		"large, and the claim has ended": {large, false, over, false}, "small": {"hello", false, under, false},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			plant(t, from, map[string]string{"tree/a": c.content, "tree/b": "hello"})
			source := open(t, filepath.Join(from, "tree"))
			info := source.Info()
			begin := func(upTo uint64) *object.Landing {
				landing, err := object.Land(pulse.In(t.Context(), new(pulse.Pulse)), to, info)
				if err != nil {
					t.Fatal(err)
				}
				if err := deliver(source, landing, upTo, whole); err != nil {
					t.Fatal(err)
				}
				return landing
			}
			landing := begin(info.Length - 1)
			if c.claimed {
				if err := landing.Keep(); err != nil {
					t.Fatal(err)
				}
				landing = begin(info.Length)
			}
			files, err := filepath.Glob(filepath.Join(object.PartialOf(to, info), "*", "a"))
			if err != nil || len(files) != 1 {
				t.Fatalf("there are %v: %v", files, err)
			}
			if err := os.Remove(files[0]); err != nil { // so that whoever opens it fails
				t.Fatal(err)
			}
			if err := landing.Flush(c.ended); (err != nil) != c.isOpened {
				t.Errorf("it is opened: %v", err)
			}
			if err := landing.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
}
