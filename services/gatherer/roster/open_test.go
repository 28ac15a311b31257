package roster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// openAlone has an upload be opened, while nobody waits for that. meanwhile happens before it is.
func (f *fixture) openAlone(session *roster.Session, spec sink.Spec, meanwhile func()) {
	f.Helper()
	done, err := f.Reading(f.Context(), session.Peer.Name)
	f.must(err)
	short, cancel := context.WithTimeout(f.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Open(short, session.ID, session.Peer, spec, false); !errors.Is(err, context.DeadlineExceeded) {
		f.Fatalf("%s is opened at once: %v", spec.Path, err)
	}
	meanwhile()
	done()
	for end := time.Now().Add(20 * time.Second); f.Readers() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("%s is not opened", spec.Path)
		}
	}
}

// A client that was away for so long that it was forgotten while its upload was opened opens that upload when it is back: that its session
// has ended is not said of its new one.
func TestUploadThatWasOpenedForNobody(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice, spec := f.attach("alice"), file("f", 10)
	f.openAlone(alice, spec, func() {
		alice.Leave()
		f.Sweep(time.Now().Add(2 * time.Minute))
		if len(f.Clients()) != 0 {
			t.Errorf("%+v are known", f.Clients())
		}
	})
	f.open(f.attach("alice"), spec)
}

// What was there when nobody waited any more for the answer is looked for again by whoever asks a while later: it may have been removed
// since.
func TestWhatWasThereIsLookedForAgain(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice, content := f.attach("alice"), []byte("content")
	spec := file("f", len(content))
	opened := f.open(alice, spec)
	f.must(opened.Upload.Came(content))
	path, err := f.finish(alice, opened, content)
	f.must(err)
	f.openAlone(alice, spec, func() {})
	f.must(os.Remove(filepath.Join(f.Dir, path)))
	for range 100 { // that it was opened is noted a moment later
		f.Sweep(time.Now().Add(20 * time.Second))
		if _, openings, _ := f.Known(); openings == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	f.open(alice, spec)
}

// Clients that have large files read that are there already hold up nobody's streams.
func TestStreamsWaitForNoFiles(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	sensor := f.attach("sensor")
	for _, name := range []string{"alice", "bob"} { // they have all turns
		done, err := f.Reading(f.Context(), name)
		f.must(err)
		defer done()
	}
	short, cancel := context.WithTimeout(f.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := f.Open(short, sensor.ID, sensor.Peer, file("f", 10), false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a file is opened at once: %v", err)
	}
	f.open(sensor, stream("log"))
}

// Where a client has too many uploads, one that was left alone makes way for one other, also while that waits until it can be opened.
func TestOneUploadMakesWayForOne(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	slow := f.open(alice, stream("slow")).Upload
	release := slow.Hold()
	slow.Leave(time.Now().Add(-time.Hour))
	f.Sweep(time.Now()) // it is being closed
	for i := range 64 {
		left := time.Hour // from now, however long it takes to open all
		if i == 0 {
			left = -10 * time.Second
		}
		f.open(alice, stream(fmt.Sprint(i))).Upload.Leave(time.Now().Add(left))
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Open(short, alice.ID, alice.Peer, stream("slow"), false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is opened before it is closed: %v", err)
	}
	if _, err := f.Open(t.Context(), alice.ID, alice.Peer, stream("too many"), false); !errors.Is(err, roster.ErrCrowded) {
		t.Errorf("a second one: %v", err)
	}
	release()
	f.open(alice, stream("slow"))
}
