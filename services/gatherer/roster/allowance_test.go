package roster_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// What has come of a file that has changed since counts no longer when its next state is uploaded, even if the gatherer was started again
// in between, nor is it there. What has come of another file is, and whoever has too much is told how much that is.
func TestMaxStoredBesideWhatWasAbandoned(t *testing.T) {
	dir := t.TempDir()
	restarted := func() (*fixture, *roster.Session) {
		f := start(t, bounded(10_000), func(env *roster.Env) { env.Dir = dir })
		return f, f.attach("alice")
	}
	at := func(spec sink.Spec, since int64) sink.Spec {
		spec.Info.Time = time.Unix(since, 0)
		return spec
	}
	f, alice := restarted()
	f.must(f.open(alice, at(file("other", 4000), 1)).Upload.Came(make([]byte, 3000)))
	f.must(f.open(alice, at(file("f", 5000), 1)).Upload.Came(make([]byte, 4000)))
	f.open(alice, at(file("f", 5000), 2)) // in place of the one that is open
	f.must(f.open(alice, at(file("f", 5000), 3)).Upload.Came(make([]byte, 4000)))
	f.ends()
	f, alice = restarted()
	opened := f.open(alice, at(file("f", 4500), 3))
	if opened.Offset != 0 {
		t.Errorf("another state goes on at %d", opened.Offset)
	}
	_, err := f.Open(t.Context(), alice.ID, alice.Peer, file("g", 5000), false)
	if !errors.Is(err, roster.ErrStored) || !strings.Contains(err.Error(), " of these are of files that have not come whole") {
		t.Errorf("more than it may: %v", err)
	}
	if other := f.open(alice, at(file("other", 4000), 1)); other.Offset != 3000 {
		t.Errorf("another file goes on at %d", other.Offset)
	}
}

// What a gatherer cannot look at in a client's directory does not count, and keeps the client from nothing: it uploads, and goes on when
// it has less.
func TestMaxStoredBesideWhatCannotBeRead(t *testing.T) {
	f := start(t, bounded(10_000), nil)
	root, err := os.OpenRoot(f.Dir)
	f.must(err)
	defer root.Close()
	tooLong := strings.Repeat(strings.Repeat("d", 255)+"/", 20) // for a path, whoever opens it
	f.must(root.MkdirAll("alice/"+tooLong, 0o700))
	f.must(root.WriteFile("alice/old", make([]byte, 6000), 0o600))
	alice := f.attach("alice")
	f.open(alice, file("f", 3000))
	if _, err := f.Open(t.Context(), alice.ID, alice.Peer, file("g", 2000), false); !errors.Is(err, roster.ErrStored) {
		t.Errorf("more than it may: %v", err)
	}
	f.open(alice, stream("s"))
	f.must(root.Remove("alice/old"))
	f.RecountAll()
	f.Review()
	if told := alice.Told(); told.Paused != "" {
		t.Errorf("with room it is told %+v", told)
	}
}

// Whoever was asked for the last of what it may have is not paused before that has come, nor while a file is under way, which has its
// part.
func TestMaxStoredIsUsedToItsEnd(t *testing.T) {
	f := start(t, bounded(10_000), nil)
	alice := f.attach("alice")
	first := f.open(alice, stream("s"))
	f.wantPaused("all is asked for", nil)
	f.must(first.Upload.Came(make([]byte, 4000)))
	f.wantPaused("some of it has come", nil)
	f.must(first.Upload.Came(make([]byte, 6000)))
	f.wantPaused("all of it has come", map[string]string{"alice": roster.TooMuch})

	bob := f.attach("bob")
	whole, second := f.open(bob, file("f", 6000)), f.open(bob, stream("s"))
	f.must(second.Upload.Came(make([]byte, 4000)))
	f.wantPaused("a file is under way", map[string]string{"alice": roster.TooMuch})
	f.must(whole.Upload.Came(make([]byte, 6000)))
	f.wantPaused("both have come", map[string]string{"alice": roster.TooMuch, "bob": roster.TooMuch})
}

// A client whose stream can have no more keeps no place from others by that, though another of its streams was asked for more.
func TestWhoHasTooMuchKeepsNoPlace(t *testing.T) {
	rules := limited(policy.Queue)
	for i := range rules.Rules {
		rules.Rules[i].MaxStored = 300_000
	}
	f := start(t, rules, nil)
	large := f.attach("large-1")
	f.open(large, stream("quiet"))
	busy := f.open(large, stream("busy"))
	f.must(busy.Upload.Came(make([]byte, busy.Upload.Answer().Credit)))
	busy.Upload.Settled()
	f.attach("large-2")
	f.wantPaused("there is one place", map[string]string{"large-1": roster.TooMuch, "large-2": roster.Queued})
	f.BringNothing("large-1", policy.PlaceFor)
	f.wantPaused("who has it brings nothing", map[string]string{"large-1": roster.TooMuch})
}

// What comes while a client's bytes are counted is counted, also of an upload that is begun or ends meanwhile: the client never has more
// than it may.
func TestMaxStoredCountsWhatComesMeanwhile(t *testing.T) {
	for what, during := range map[string]struct {
		left    uint64
		happens func(*fixture, *roster.Session, roster.Opened) error
	}{
		"it comes": {200_000, func(*fixture, *roster.Session, roster.Opened) error { return nil }},
		"it ends": {200_000, func(f *fixture, alice *roster.Session, opened roster.Opened) error {
			return f.ended(alice, opened, 800_000)
		}},
		"another ends": {100_000, func(f *fixture, alice *roster.Session, _ roster.Opened) error {
			opened, err := f.Open(f.Context(), alice.ID, alice.Peer, file("g", 100_000), false)
			if err == nil {
				err = opened.Upload.Came(make([]byte, 100_000))
			}
			if err == nil {
				err = f.ended(alice, opened, 100_000)
			}
			return err
		}},
	} {
		f := start(t, bounded(1_000_000), nil)
		alice := f.attach("alice")
		opened := f.open(alice, file("f", 800_000))
		f.WhileCounting(func() { // not in the test's goroutine
			err := opened.Upload.Came(make([]byte, 800_000))
			if err == nil {
				err = during.happens(f, alice, opened)
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
		if asked := f.open(alice, stream("s")).Upload.Answer().Credit; asked == 0 || asked > during.left {
			t.Errorf("%s: a stream is asked for %d bytes, want %d at most", what, asked, during.left)
		}
	}
}

// A file that fits is not refused because bytes that come while its client's are counted may count twice. If they do each time, it is to
// be tried again.
func TestMaxStoredCountsNothingTwiceForGood(t *testing.T) {
	for what, during := range map[string]struct {
		comes, times int
		want         error
	}{
		"once":      {600_000, 1, nil},
		"each time": {150_000, 4, roster.ErrUncounted},
	} {
		f := start(t, bounded(1_000_000), nil)
		old := filepath.Join(f.Dir, "alice", "old")
		f.must(os.Mkdir(filepath.Dir(old), 0o700))
		f.must(os.WriteFile(old, make([]byte, 350_000), 0o600))
		alice := f.attach("alice")
		opened, second := f.open(alice, file("f", 600_000)), file("g", 300_000)
		if _, err := f.Open(t.Context(), alice.ID, alice.Peer, second, false); !errors.Is(err, roster.ErrStored) {
			t.Errorf("%s: more than it may: %v", what, err)
		}
		f.must(os.Remove(old))
		f.BeforeCounts(func() {
			if during.times--; during.times < 0 {
				return
			}
			if err := opened.Upload.Came(make([]byte, during.comes)); err != nil {
				t.Error(err)
			}
		})
		if _, err := f.Open(t.Context(), alice.ID, alice.Peer, second, false); !errors.Is(err, during.want) {
			t.Errorf("%s: a file that fits: %v, want %v", what, err, during.want)
		}
		f.open(alice, second)
	}
}

// ended has an upload of zeroes finished.
func (f *fixture) ended(session *roster.Session, opened roster.Opened, length int) error {
	_, err := f.finish(session, opened, make([]byte, length))
	return err
}

// A new policy's bound holds at once, for who waits because of the former one and for who could have had more by it.
func TestNewMaxStoredHoldsAtOnce(t *testing.T) {
	f := start(t, bounded(1000), nil)
	alice := f.attach("alice")
	opened := f.open(alice, stream("s"))
	f.must(opened.Upload.Came(make([]byte, 1000)))
	f.wantPaused("it has all", map[string]string{"alice": roster.TooMuch})
	becomes := func(what, paused string) {
		t.Helper()
		for range 500 {
			f.Review()
			if alice.Told().Paused == paused {
				return
			}
			<-time.After(10 * time.Millisecond)
			f.must(opened.Upload.Came(make([]byte, min(64<<10, opened.Upload.Answer().Credit-opened.Upload.Offset()))))
		}
		t.Errorf("%s: it is told %+v", what, alice.Told())
	}
	f.must(f.setPolicy(bounded(1 << 30)))
	becomes("it may have more", "")
	f.must(f.setPolicy(bounded(2000)))
	becomes("it may have less", roster.TooMuch)
	f.must(f.setPolicy(bounded(0)))
	becomes("it may have all", "")
}
