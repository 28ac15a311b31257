package roster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// limited is a policy for a link that carries more than any test brings.
func limited(admission policy.Admission) policy.Policy {
	rule := func(name string, minimum bytesize.Size, priority int) policy.Rule {
		return policy.Rule{Clients: []string{name}, Share: policy.Share{Minimum: minimum, Priority: priority}}
	}
	return policy.Policy{
		Rules: []policy.Rule{rule("large*", 60e9, 0), rule("high", 50e9, 5), rule("low*", 50e9, 1), rule("small", 20e9, 0)}, Link: 100e9, Admission: admission,
	}
}

// A client whose minimum does not fit beside the others' is admitted, refused or has to wait, as the policy says.
func TestAdmission(t *testing.T) {
	f := start(t, limited(policy.Admit), nil)
	f.attach("large-1")
	if told := f.attach("large-2").Told(); told.Paused != "" {
		t.Errorf("admit: %+v", told)
	}
	f = start(t, limited(policy.Refuse), nil)
	f.attach("large-1")
	if _, err := f.Attach("large-2", nil, identity.Peer{ID: member("large-2")}, roster.Process{}); !errors.Is(err, roster.ErrRefused) {
		t.Errorf("refuse: %v", err)
	}
	f.attach("large-1") // it takes its own place
}

// Clients that fit are not let in past one that waits and comes before them: it would wait for ever. A client without a minimum
// takes nothing from it.
func TestQueueIsNotOvertaken(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	first := f.attach("large-1")
	high := f.attach("high")
	small := f.attach("small")
	free := f.attach("free")
	f.Review()
	for name, want := range map[*roster.Session]string{high: roster.Queued, small: roster.Queued, free: ""} {
		if told := name.Told(); told.Paused != want {
			t.Errorf("%+v, want paused %q", told, want)
		}
	}
	first.Leave()
	f.Review()
	for _, one := range []*roster.Session{high, small} {
		if told := one.Told(); told.Paused != "" {
			t.Errorf("with room for both, one is told %+v", told)
		}
	}
}

// Clients that wait come in when others have left: the highest priority first, and then whichever came first.
func TestQueueLetsInByPriority(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	first := f.attach("large-1")
	waiting := make(map[string]*roster.Session)
	for _, name := range []string{"low-b", "low-a", "high"} {
		waiting[name] = f.attach(name)
		f.Review()
		if told := waiting[name].Told(); told.Paused != roster.Queued {
			t.Fatalf("%s is told %+v", name, told)
		}
	}
	wantQueued := func(names ...string) {
		t.Helper()
		f.Review()
		for name, session := range waiting {
			want := strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ")
			if queued := session.Told().Paused == roster.Queued; queued != want {
				t.Errorf("%s: queued %t, want %t", name, queued, want)
			}
		}
	}
	first.Leave()
	wantQueued("low-a")
	waiting["high"].Leave()
	delete(waiting, "high")
	wantQueued()
}

// A client that waits and is cut off for a moment has its turn where it was when it comes back, even if its uploads are closed at once
// or its new session is there before the old one has ended. A client that has left, or stays away, waits behind those that came since.
func TestTurnIsKeptForAMoment(t *testing.T) {
	for what, back := range map[string]struct {
		after func(f *fixture, waiting *roster.Session)
		first bool
	}{
		"cut off":      {func(_ *fixture, waiting *roster.Session) { waiting.CutOff() }, true},
		"not seen yet": {func(*fixture, *roster.Session) {}, true},
		"no grace":     {func(f *fixture, waiting *roster.Session) { waiting.CutOff(); f.Sweep(time.Now().Add(time.Second)) }, true},
		"left":         {func(_ *fixture, waiting *roster.Session) { waiting.Leave() }, false},
		"away":         {func(f *fixture, waiting *roster.Session) { waiting.CutOff(); f.Sweep(time.Now().Add(time.Hour)) }, false},
	} {
		f := start(t, limited(policy.Queue), func(env *roster.Env) { env.Grace = 0 })
		first := f.attach("large-1")
		waiting := f.attach("low-b")
		f.Review()
		f.attach("low-a")
		f.Review()
		back.after(f, waiting)
		f.attach("low-b")
		first.Leave()
		f.attach("high") // beside which one of them fits
		want := map[string]string{"low-a": roster.Queued}
		if !back.first {
			want = map[string]string{"low-b": roster.Queued}
		}
		f.wantPaused(what, want)
	}
}

// A client that was let in and is cut off for a moment still has its place when it comes back, although others wait: nobody is let in
// for it meanwhile. A client that stays away, or has left, keeps none.
func TestPlaceIsKeptForAMoment(t *testing.T) {
	for _, admission := range []policy.Admission{policy.Queue, policy.Refuse} {
		f := start(t, limited(admission), nil)
		first := f.attach("large-1")
		attach := func() string {
			f.Review()
			second, err := f.Attach("high", nil, identity.Peer{ID: member("high")}, roster.Process{})
			if errors.Is(err, roster.ErrRefused) || errors.Is(err, roster.ErrKept) {
				return roster.Queued
			}
			f.must(err)
			f.Review()
			return second.Told().Paused
		}
		first.CutOff()
		if attach() != roster.Queued {
			t.Errorf("%s: another is let in while it is cut off", admission)
		}
		if first = f.attach("large-1"); first.Told().Paused != "" {
			t.Errorf("%s: who comes back is told %+v", admission, first.Told())
		}
		if attach() != roster.Queued {
			t.Errorf("%s: who waits was let in beside it", admission)
		}
		if first.Leave(); attach() != "" {
			t.Errorf("%s: another has to wait for one that has left", admission)
		}
	}
	f := start(t, limited(policy.Queue), nil)
	f.attach("large-1").CutOff()
	high := f.attach("high")
	f.BringNothing("large-1", policy.PlaceFor)
	if f.Review(); high.Told().Paused != "" {
		t.Error("one has to wait for another that does not come back")
	}
}

// Where places are refused, a client that was revoked keeps none, and one that was cut off keeps its own however soon its uploads are
// closed. Until it is back another is told to come again, and after that, that it does not fit.
func TestPlacesThatAreRefused(t *testing.T) {
	var revoked string
	f := start(t, limited(policy.Refuse), func(env *roster.Env) {
		env.Grace = time.Second
		env.Revoked = func(peer identity.Peer) error {
			if peer.ID.Name == revoked {
				return errGone
			}
			return nil
		}
	})
	wants := func(what string, want error) {
		t.Helper()
		second, err := f.Attach("high", nil, identity.Peer{ID: member("high")}, roster.Process{})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err == nil {
			second.Leave()
		}
	}
	f.attach("large-1").CutOff()
	f.Sweep(time.Now().Add(2 * time.Second))
	wants("one is cut off", roster.ErrKept)
	f.attach("large-1")
	wants("it is back", roster.ErrRefused)
	revoked = "large-1"
	f.Expel()
	wants("it was revoked", nil)
	revoked = ""
	f.attach("large-1").CutOff()
	revoked = "large-1"
	f.Expel()
	wants("it was revoked while it was cut off", nil)
}

// wantPaused compares which clients the next round has wait, by name.
func (f *fixture) wantPaused(what string, want map[string]string) {
	f.Helper()
	f.Review()
	for _, client := range f.Clients() {
		if client.Paused != want[client.Name] {
			f.Errorf("%s: %s is paused %q, want %q", what, client.Name, client.Paused, want[client.Name])
		}
	}
}

// A client that brings nothing keeps its place for 15 s, and after that until somebody waits for it. Its session and uploads do not
// end: when it goes on it waits in its turn, and its upload goes on where it was.
func TestWhoBringsNothingGivesUpItsPlace(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	first, content := f.attach("large-1"), []byte("content")
	opened := f.open(first, file("f", len(content)))
	f.must(opened.Upload.Came(content[:3]))
	second := f.attach("large-2")
	f.BringNothing("large-1", policy.PlaceFor-time.Second)
	f.wantPaused("for a moment", map[string]string{"large-2": roster.Queued})
	f.BringNothing("large-1", policy.PlaceFor)
	f.wantPaused("for long", nil)
	f.BringNothing("large-1", time.Hour)
	f.wantPaused("for an hour", nil)
	if told := first.Told(); told.Ended != "" || !opened.Permits(first.Peer) {
		t.Errorf("who gave up its place is told %+v, and its ticket permits: %t", told, opened.Permits(first.Peer))
	}
	f.must(opened.Upload.Came(content[3:]))
	f.wantPaused("it goes on", map[string]string{"large-1": roster.Queued})
	f.wantPaused("still", map[string]string{"large-1": roster.Queued})
	second.Leave()
	f.wantPaused("the other has left", nil)
	if path, err := f.finish(first, opened, content); err != nil || path != "large-1/f" {
		t.Errorf("%q, %v", path, err)
	}
}

// A client that gave up its place and goes on has one again at once if there is room, also if it begins another upload.
func TestWhoGoesOnHasItsPlaceAgain(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	first := f.attach("large-1")
	f.BringNothing("large-1", time.Minute)
	second := f.attach("large-2") // it need not wait
	f.wantPaused("one brings nothing", nil)
	second.Leave()
	f.open(first, stream("s"))
	f.wantPaused("it goes on", nil)
	third := f.attach("large-3")
	f.wantPaused("a third", map[string]string{"large-3": roster.Queued})
	first.Leave()
	f.wantPaused("the first has left", nil)
	if told := third.Told(); told.Ended != "" {
		t.Errorf("the third is told %+v", told)
	}
}

// A client keeps its place if those that wait are of lower priority. While it brings nothing because of the gatherer, as when the disk
// is full, it keeps it in any case.
func TestPlacesThatAreKept(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	f.attach("high")
	f.BringNothing("high", time.Hour)
	f.attach("large-1")
	f.wantPaused("a lower priority", map[string]string{"large-1": roster.Queued})

	f = start(t, limited(policy.Queue), nil)
	f.attach("large-1")
	f.attach("large-2")
	f.free.Store(100)
	f.LookAtDisk()
	f.BringNothing("large-1", time.Hour)
	f.wantPaused("a full disk", map[string]string{"large-1": roster.DiskFull, "large-2": roster.Queued})
	f.free.Store(1 << 30)
	f.LookAtDisk()
	f.wantPaused("with room", map[string]string{"large-2": roster.Queued})
}

// A client keeps its place while the gatherer reads what it has already of files that the client opens or asks for, and while the end of a file waits
// for commands.
func TestPlaceIsKeptWhileTheGathererIsBusy(t *testing.T) {
	f := start(t, limited(policy.Queue), func(env *roster.Env) { env.Exec = []string{"true"} })
	first := f.attach("large-1")
	f.attach("large-2")
	silent := func(what string) {
		f.Helper()
		f.BringNothing("large-1", time.Hour)
		f.wantPaused(what, map[string]string{"large-2": roster.Queued})
	}
	f.openAlone(first, file("f", 7), func() { silent("it is opened") })
	read, err := f.Reading(t.Context(), "large-1")
	f.must(err)
	silent("it is looked for")
	read()

	opened, done := f.open(first, file("f", 7)), f.CommandsWait()
	f.must(opened.Upload.Came([]byte("content")))
	var finishing errgroup.Group
	finishing.Go(func() error {
		_, err := f.finish(first, opened, []byte("content"))
		return err
	})
	f.isForgotten()
	silent("commands wait")
	done()
	f.must(finishing.Wait())
	f.BringNothing("large-1", time.Hour)
	f.wantPaused("it is done", nil)
}

// isForgotten waits until no upload is open.
func (f *fixture) isForgotten() {
	f.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) {
		uploads, _, _ := f.Known()
		if uploads == 0 {
			return
		}
		if time.Now().After(end) {
			f.Fatalf("%d uploads are open", uploads)
		}
	}
}
