package supply_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/supply"
)

// source makes a file an object, and returns its name and its supply.
func source(t *testing.T, content []byte) (name string, from *supply.Object) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(name, content, 0o600))
	opened, err := object.Open(t.Context(), name)
	must(t, err)
	from = supply.NewObject(opened)
	t.Cleanup(func() {
		from.Close()
		must(t, opened.Close())
	})
	return name, from
}

// What stripes take in turn, in pieces of any size and repeatedly, is the file's content; the supply knows how far it was sent.
func TestObjectIsItsFile(t *testing.T) {
	content := random(1, 100_000)
	_, from := source(t, content)
	from.Begin(7)
	var got []byte
	for size := uint64(1); len(got) < len(content); size = 3*size + 1 {
		at := uint64(len(got))
		one, other := next(t, from, at, size), next(t, from, at, size) // both are under way at once
		if one.TreeVersion != 7 {
			t.Errorf("tree version %d, want 7", one.TreeVersion)
		}
		first := bytesOf(t, from, at, one)
		if again := bytesOf(t, from, at, other); !bytes.Equal(first, again) {
			t.Fatalf("at %d two stripes are given other bytes", at)
		}
		got = append(got, first...)
		if sent := from.SentUpTo(); sent != uint64(len(got)) {
			t.Errorf("sent up to %d, want %d", sent, len(got))
		}
	}
	if !bytes.Equal(got, content) {
		t.Error("other bytes than the file's")
	}
	wantBye(t, from, uint64(len(content))+1)
}

// While the supply is held it hands out nothing, and those that wait are told when it no longer is.
// The end is told when the root is known.
func TestObjectIsHeldAndEnds(t *testing.T) {
	_, from := source(t, make([]byte, 10))
	from.Hold(true)
	held := next(t, from, 0, 10)
	if held.Length != 0 || held.End != nil {
		t.Errorf("while it is held: %+v", held)
	}
	from.Hold(false)
	wantChanged(t, held)
	if portion := next(t, from, 0, 10); portion.Length != 10 {
		t.Errorf("%d bytes, want 10", portion.Length)
	} else {
		bytesOf(t, from, 0, portion)
	}
	unknown := next(t, from, 10, 10)
	if unknown.End != nil {
		t.Error("the end is told before the root is known")
	}
	from.Known(object.Root{1})
	wantChanged(t, unknown)
	if end, _ := endOf(t, from, 10); end == nil || end.Length != 10 || end.Root != [32]byte{1} {
		t.Errorf("the end is %+v", end)
	}
}

// endOf waits until the end is told, or an error.
func endOf(t *testing.T, from *supply.Object, length uint64) (*link.End, error) {
	t.Helper()
	for range 3 { // a look at the source, and one more if something was read during the first
		portion, err := from.Next(length, 1)
		if portion.End != nil || err != nil {
			return portion.End, err
		}
		select {
		case <-portion.Changed:
		case <-time.After(10 * time.Second):
			t.Fatal("nothing has changed for 10 s")
		}
	}
	t.Fatal("the end is not told")
	return nil, nil
}

// A look at a large directory, or on a disk that hangs, takes long: nobody waits for it but the end.
func TestNobodyWaitsForTheLookAtTheSource(t *testing.T) {
	_, from := source(t, make([]byte, 10))
	looks := make(chan error)
	from.Look(func() error { return <-looks })
	from.Known(object.Root{1})
	from.Begin(1)
	bytesOf(t, from, 0, next(t, from, 0, 10))
	looked := next(t, from, 10, 1)
	if looked.End != nil || from.SentUpTo() != 10 {
		t.Errorf("%+v, and sent up to %d, while the source is looked at", looked, from.SentUpTo())
	}
	from.Begin(2) // over another link more may be sent after this look
	looks <- object.ErrChanged
	wantChanged(t, looked)
	if portion, err := from.Next(10, 1); portion.End != nil || err != nil {
		t.Errorf("%+v, %v, after a look that is of another link", portion, err)
	}
	looks <- nil
	if end, err := endOf(t, from, 10); end == nil || err != nil {
		t.Errorf("%v, %v, after all was found as it was", end, err)
	}
}

// That a file was changed meanwhile is found out before the end is told, over every link anew.
func TestObjectThatChanges(t *testing.T) {
	name, from := source(t, make([]byte, 10))
	from.Known(object.Root{1})
	from.Begin(1)
	if _, err := endOf(t, from, 10); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	must(t, os.WriteFile(name, make([]byte, 11), 0o600))
	from.Begin(2)
	if _, err := endOf(t, from, 10); !errors.Is(err, object.ErrChanged) {
		t.Errorf("changed: %v", err)
	}
}

// If the file changes while one stripe still reads and another is at the end, that is noticed as soon as the first has
// read its part.
func TestObjectThatChangesWhileAnotherStripeReads(t *testing.T) {
	name, from := source(t, make([]byte, 10))
	from.Known(object.Root{1})
	from.Begin(1)
	last := next(t, from, 5, 5)
	if end, _ := endOf(t, from, 10); end == nil {
		t.Error("a slow stripe keeps the end back")
	}
	must(t, os.WriteFile(name, []byte("other bytes"), 0o600))
	bytesOf(t, from, 5, last)
	if _, err := endOf(t, from, 10); !errors.Is(err, object.ErrChanged) {
		t.Errorf("changed: %v", err)
	}
}
