package roster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// A client that gave up its place, and whose session breaks, as each does now and then, does not wait for a place because of that, and
// keeps none from those that have something to send, though it opens its upload again. It waits once something comes, or it begins
// another upload.
func TestWhoComesBackWithNothingTakesNoPlace(t *testing.T) {
	const grace = 5 * time.Second // shorter than what a place is kept for
	for what, back := range map[string]struct {
		closed bool // its upload was closed meanwhile
		then   func(*fixture, *roster.Session, roster.Opened)
	}{
		"its upload is open": {false, func(f *fixture, _ *roster.Session, opened roster.Opened) { f.must(opened.Upload.Came([]byte("more"))) }},
		"it was closed":      {true, func(f *fixture, _ *roster.Session, opened roster.Opened) { f.must(opened.Upload.Came([]byte("more"))) }},
		"another upload":     {false, func(f *fixture, session *roster.Session, _ roster.Opened) { f.open(session, stream("other")) }},
	} {
		f := start(t, limited(policy.Queue), func(env *roster.Env) { env.Grace = grace })
		first, spec := f.attach("large-1"), stream("s")
		upload := f.open(first, spec).Upload
		f.must(upload.Came([]byte("some")))
		upload.Settled() // else less would be there of an upload that is closed
		second := f.attach("large-2")
		f.BringNothing("large-1", policy.PlaceFor)
		f.wantPaused("it gave up its place", nil)
		if first.CutOff(); back.closed {
			f.Sweep(time.Now().Add(grace + time.Second))
		}
		first = f.attach("large-1")
		opened := f.goOn(first, spec, 4)
		f.wantPaused(what+": it is back", nil)
		f.attach("large-3")
		f.wantPaused(what+": another waits", map[string]string{"large-3": roster.Queued})
		second.Leave()
		f.wantPaused(what+": there is room for one", nil)
		back.then(f, first, opened)
		f.wantPaused(what+": it sends", map[string]string{"large-1": roster.Queued})
	}
}

// goOn opens an upload that has come up to an offset.
func (f *fixture) goOn(session *roster.Session, spec sink.Spec, from uint64) roster.Opened {
	f.Helper()
	opened := f.open(session, spec)
	if opened.Offset != from {
		f.Fatalf("it goes on at %d, want %d", opened.Offset, from)
	}
	return opened
}

// Clients that send something now and then have the place by turns: one that gave it up and goes on waits behind those that waited
// before it went on, and not before them because it came first.
func TestWhoGoesOnWaitsBehindThoseThatWait(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	uploads := make(map[string]roster.Opened)
	for _, name := range []string{"large-1", "large-2", "large-3"} {
		uploads[name] = f.open(f.attach(name), stream("s"))
		f.Review()
	}
	has, waits := "large-1", []string{"large-2", "large-3"}
	for range 4 {
		f.BringNothing(has, policy.PlaceFor)
		f.wantPaused(has+" is silent", map[string]string{waits[1]: roster.Queued})
		f.must(uploads[has].Upload.Came([]byte("more")))
		f.wantPaused(has+" goes on", map[string]string{waits[1]: roster.Queued, has: roster.Queued})
		has, waits = waits[0], []string{waits[1], has}
	}
}

// Nobody that fits is let in past a client that waits and is cut off for a moment, whether it came before that or just then; but a client
// without a minimum is. Once that client has left, or is away for longer, it holds nobody
// up, nor where there is no queue any more.
func TestQueueIsNotOvertakenWhileOneIsCutOff(t *testing.T) {
	for what, came := range map[string]struct{ after bool }{"who waits": {false}, "a newcomer": {true}} {
		f := start(t, limited(policy.Queue), nil)
		f.attach("large-1")
		second := f.attach("large-2")
		if !came.after {
			f.attach("small")
		}
		second.CutOff()
		if came.after {
			f.attach("small")
		}
		f.attach("free")
		waits := map[string]string{"large-2": roster.Queued, "small": roster.Queued}
		f.wantPaused(what, waits)
		second = f.attach("large-2")
		f.wantPaused(what+": it is back", waits)
		second.CutOff()
		f.wantPaused(what+": it is cut off again", waits)
		f.Sweep(time.Now().Add(time.Hour))
		f.wantPaused(what+": it stays away", nil)
	}

	f := start(t, limited(policy.Queue), nil)
	f.attach("large-1")
	second := f.attach("large-2")
	f.attach("small")
	second.Leave()
	f.wantPaused("it has left", map[string]string{"large-2": roster.Queued})

	f = start(t, limited(policy.Queue), nil)
	f.attach("large-1")
	second = f.attach("large-2")
	f.attach("small")
	second.CutOff()
	f.must(f.setPolicy(limited(policy.Admit)))
	f.wantPaused("nobody has to wait any more", map[string]string{"large-2": roster.Queued})
}

// A client that has its place keeps it when its session is renewed, also where a new policy has the link carry less than all that have
// one were promised. One whose labels now give it a greater minimum has to fit.
func TestPlaceIsKeptWhereTheLinkBecomesLess(t *testing.T) {
	for _, admission := range []policy.Admission{policy.Queue, policy.Refuse} {
		rules := limited(admission)
		large := policy.Rule{Labels: map[string]string{"size": "large"}, Share: policy.Share{Minimum: 30e9}}
		rules.Rules, rules.TrustLabels = append([]policy.Rule{large}, rules.Rules...), true
		f := start(t, rules, nil)
		f.attach("large-1")
		f.attach("small")
		rules.Link = 70e9
		f.must(f.setPolicy(rules))
		f.wantPaused(string(admission)+": it is less", nil)
		f.attach("large-1")
		f.wantPaused(string(admission)+": a new session beside the old", nil)
		f.attach("large-1").CutOff()
		f.attach("large-1")
		f.wantPaused(string(admission)+": a new session after it", nil)
		small, err := f.Attach("small", large.Labels, identity.Peer{ID: member("small")}, roster.Process{})
		if admission == policy.Refuse && !errors.Is(err, roster.ErrRefused) || admission == policy.Queue && small.Told().Paused != roster.Queued {
			t.Errorf("%s: one that wants more is let in: %v", admission, err)
		}
	}
}

// Where a policy now refuses places, nobody waits for one: who does and fits is let in, and who does not is sent away, and told why when
// it attaches again. Nobody can bring anything for it meanwhile. A client that gave up its place stays attached, until it goes on.
func TestWhoWaitsIsSentAwayWherePlacesAreRefused(t *testing.T) {
	attach := func(f *fixture, name string) error {
		_, err := f.Attach(name, nil, identity.Peer{ID: member(name)}, roster.Process{})
		return err
	}
	f := start(t, limited(policy.Queue), nil)
	first := f.attach("large-1")
	second := f.attach("large-2")
	f.attach("small")
	opened := f.open(second, stream("s"))
	f.wantPaused("they wait", map[string]string{"large-2": roster.Queued, "small": roster.Queued})
	f.must(f.setPolicy(limited(policy.Refuse)))
	f.Review()
	if told := second.Told(); told.Ended != roster.Refused || opened.Permits(second.Peer) {
		t.Errorf("who does not fit is told %+v, and its ticket permits: %t", told, opened.Permits(second.Peer))
	}
	for _, client := range f.Clients() {
		if fits := client.Name != "large-2"; client.Attached != fits || client.Paused != "" {
			t.Errorf("%s is attached: %t, and paused %q", client.Name, client.Attached, client.Paused)
		}
	}
	if err := attach(f, "large-2"); !errors.Is(err, roster.ErrRefused) {
		t.Errorf("it attaches again: %v", err)
	}
	first.Leave()
	second = f.attach("large-2")
	f.goOn(second, stream("s"), 0)
	if told := second.Told(); told.Paused != "" || told.Ended != "" {
		t.Errorf("with room, it is told %+v", told)
	}

	f = start(t, limited(policy.Queue), nil)
	f.attach("large-1").CutOff()
	f.attach("large-2")
	f.must(f.setPolicy(limited(policy.Refuse)))
	f.Review()
	if err := attach(f, "large-2"); !errors.Is(err, roster.ErrKept) {
		t.Errorf("there is room but for one that was cut off: %v", err)
	}

	f = start(t, limited(policy.Queue), nil)
	first = f.attach("large-1")
	opened = f.open(first, stream("s"))
	f.attach("large-2")
	f.BringNothing("large-1", policy.PlaceFor)
	f.wantPaused("it gave up its place", nil)
	f.must(f.setPolicy(limited(policy.Refuse)))
	f.wantPaused("it has nothing to send", nil)
	if told := first.Told(); told.Ended != "" {
		t.Errorf("with nothing to send, it is told %+v", told)
	}
	f.must(opened.Upload.Came([]byte("more")))
	f.Review()
	if told := first.Told(); told.Ended != roster.Refused {
		t.Errorf("when it goes on, it is told %+v", told)
	}
}
