package roster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// wantTold makes sure that an upload cannot be opened, and that its client is told whose disk is the reason, but not where the store
// is.
func (f *fixture) wantTold(path string, reason error) {
	f.Helper()
	session := f.attach("alice")
	_, err := f.Open(f.Context(), session.ID, session.Peer, file(path, 1000), false)
	if !errors.Is(err, reason) || !strings.Contains(err.Error(), "the gatherer") || strings.Contains(err.Error(), f.Dir) {
		f.Errorf("%s: %v, want %v, without %s", path, err, reason, f.Dir)
	}
}

// Where nothing can be written to the store, a client is told that no other upload would fare better.
func TestStoreThatIsReadOnly(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	testdisk.Mount(t, "none", "bind,ro", f.Dir, f.Dir)
	f.wantTold("f", roster.ErrUnwritable)
	f.wantTold("a/f", roster.ErrUnwritable)
}

// A failure that other uploads may not have is told as such.
func TestDiskThatFailsForOne(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	f.must(os.MkdirAll(filepath.Join(f.Dir, "alice/a"), 0o700))
	testdisk.Mount(t, "none", "bind,ro", filepath.Join(f.Dir, "alice/a"), filepath.Join(f.Dir, "alice/a"))
	f.wantTold("a/f", roster.ErrDisk)
}

// An upload whose disk fails while it is asked to finish says so at once, to whoever waits and to whoever asks again.
func TestDiskThatFailsAsAnUploadIsFinished(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	lands, fails := make(chan struct{}), make(chan struct{})
	f.LandWith(func(sink.Sink, uint64) error {
		close(lands)
		<-fails
		return unix.EIO
	})
	session, content := f.attach("alice"), []byte("all of it")
	opened := f.open(session, file("f", len(content)))
	f.must(opened.Upload.Came(content))
	<-lands
	ended := make(chan error, 1)
	go func() {
		_, err := f.finish(session, opened, content)
		ended <- err
	}()
	for !opened.Upload.IsAsked() {
		time.Sleep(time.Millisecond)
	}
	close(fails)
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, roster.ErrDisk) {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("whoever waits for its end waits on")
		}
		_, err := f.finish(session, opened, content)
		ended <- err
	}
}

// That the gatherer has no more descriptors passes, and is no failure of its disk: the upload goes on when it is opened again.
func TestScarceDescriptorsEndNoUpload(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	session, content := f.attach("alice"), []byte("all of it")
	f.LandWith(func(sink.Sink, uint64) error { return fmt.Errorf("open segment: %w", unix.EMFILE) })
	opened := f.open(session, file("f", len(content)))
	f.must(opened.Upload.Came(content))
	_, err := f.finish(session, opened, content)
	if !errors.Is(err, unix.EMFILE) || errors.Is(err, roster.ErrDisk) {
		t.Errorf("%v, want that there are too many open files", err)
	}
	f.LandWith(sink.Sink.Landed)
	if _, err := f.Open(f.Context(), session.ID, session.Peer, file("f", len(content)), false); !errors.Is(err, unix.EMFILE) || errors.Is(err, roster.ErrDisk) {
		t.Errorf("%v, want why it could not go on", err)
	}
	f.bring(session, "f", content)
}

// A path that is too long for the disk is no failure of the disk.
func TestPathThatIsTooLong(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	session := f.attach("alice")
	_, err := f.Open(f.Context(), session.ID, session.Peer, file(strings.Repeat(strings.Repeat("n", 255)+"/", 15)+strings.Repeat("d", 250)+"/f", 10), false)
	if !errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, roster.ErrDisk) || strings.Contains(err.Error(), f.Dir) {
		t.Errorf("%.300v, want that the path is too long", err)
	}
}
