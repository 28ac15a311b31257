package roster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// A member is itself alone; an operator attaches for anybody.
func TestWhoMayBeWhom(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	for name, want := range map[string]error{"alice": nil, "": nil, "bob": roster.ErrName, "../x": roster.ErrNoName} {
		if _, err := f.Attach(name, nil, identity.Peer{ID: member("alice")}, roster.Process{}); !errors.Is(err, want) {
			t.Errorf("alice as %q: %v, want %v", name, err, want)
		}
	}
	if _, err := f.Attach("bob", nil, identity.Peer{ID: operator}, roster.Process{}); err != nil {
		t.Error(err)
	}
}

// A member's groups are those that the managers say, whoever attaches for it; an agent has none by its name. Changes hold from the
// next round on, and nobody attaches before groups are known.
func TestGroupsAreWhatTheManagersSay(t *testing.T) {
	unknown := errors.New("not known yet")
	groups, err := map[string][]string{"alice": {"icu"}, "bob": {"icu"}, "carol": {"lab"}}, unknown
	f := start(t, policy.Policy{Rules: []policy.Rule{{Groups: []string{"icu"}, Share: policy.Share{Priority: 7}}}}, func(env *roster.Env) {
		env.Groups = func(member string) ([]string, error) { return groups[member], err }
	})
	callers := map[string]identity.ID{"alice": member("alice"), "bob": operator, "carol": member("carol"), "dave": member("dave")}
	if _, err := f.Attach("alice", nil, identity.Peer{ID: callers["alice"]}, roster.Process{}); !errors.Is(err, unknown) {
		t.Errorf("before groups are known: %v", err)
	}
	err = nil
	attach := func(name string, as identity.ID) {
		t.Helper()
		_, err := f.Attach(name, map[string]string{"group": "icu"}, identity.Peer{ID: as}, roster.Process{})
		f.must(err)
	}
	for name, as := range callers {
		attach(name, as)
	}
	want := func(what string, priorities map[string]int) {
		t.Helper()
		f.Review()
		for _, client := range f.Clients() {
			if client.Share.Priority != priorities[client.Name] {
				t.Errorf("%s: %s has priority %d, want %d", what, client.Name, client.Share.Priority, priorities[client.Name])
			}
		}
	}
	want("attached", map[string]int{"alice": 7, "bob": 7})
	groups["alice"], groups["dave"] = nil, []string{"lab", "icu"}
	want("with other tokens", map[string]int{"bob": 7, "dave": 7})
	attach("bob", identity.ID{Role: identity.Agent, Name: "bob"})
	want("an agent", map[string]int{"dave": 7})
}

// The newer of two with one name fences the older, whose session has ended: it opens and finishes nothing, and its tickets permit
// nothing.
func TestTheNewerFencesTheOlder(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	old := f.attach("alice")
	content := []byte("content")
	opened := f.open(old, file("f", len(content)))
	changed := old.Told().Changed
	next := f.attach("alice")
	<-changed
	if told := old.Told(); told.Ended != roster.Fenced {
		t.Errorf("the older is told %+v", told)
	}
	if opened.Permits(member("alice")) {
		t.Error("the older's ticket still permits")
	}
	if _, err := f.Open(t.Context(), old.ID, old.Peer, file("g", 1), false); !errors.Is(err, roster.ErrSession) {
		t.Errorf("the older opens: %v", err)
	}
	if _, err := f.finish(old, opened, content); !errors.Is(err, roster.ErrSession) {
		t.Errorf("the older finishes: %v", err)
	}
	again := f.open(next, file("f", len(content)))
	if again.Upload != opened.Upload || !again.Permits(member("alice")) {
		t.Error("the newer does not go on with the older's upload")
	}
	old.Leave() // late: the newer stays
	if _, err := f.Open(t.Context(), next.ID, next.Peer, file("g", 1), false); err != nil {
		t.Error(err)
	}
	f.must(again.Upload.Came(content))
	if path, err := f.finish(next, again, content); err != nil || path != "alice/f" {
		t.Errorf("%q, %v", path, err)
	}
}

// A process that comes back after another took its place does not fence that in turn: the newer goes on.
func TestTheOlderDoesNotFenceTheNewer(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	attach := func(by string, returns bool) *roster.Session {
		t.Helper()
		session, err := f.Attach("alice", nil, identity.Peer{ID: member("alice")}, roster.Process{Incarnation: by, Returns: returns})
		f.must(err)
		return session
	}
	attach("older", false)
	newer := attach("newer", false)
	if told := attach("older", true).Told(); told.Ended != roster.Fenced {
		t.Errorf("the older comes back, and is told %+v", told)
	}
	if told := newer.Told(); told.Ended != "" {
		t.Errorf("then the newer is told %+v", told)
	}
	newer.Leave() // its connection was lost
	if told := attach("older", true).Told(); told.Ended != roster.Fenced {
		t.Errorf("the older comes back while the newer is away, and is told %+v", told)
	}
	newer = attach("newer", true)
	if told := newer.Told(); told.Ended != "" {
		t.Errorf("the newer comes back, and is told %+v", told)
	}
	if told := attach("older", false).Told(); told.Ended != "" { // begun again, it is the newest
		t.Errorf("a third is told %+v", told)
	}
}

// A stream that is opened again and again uses up nothing of what its client may have on the disk.
func TestReopenedStreamsTakeNoRoom(t *testing.T) {
	f := start(t, policy.Policy{Default: policy.Share{MaxStored: 4 << 20}}, nil)
	alice := f.attach("alice")
	for i := range 40 {
		f.open(alice, stream("s"))
		if told := alice.Told(); told.Paused != "" {
			t.Fatalf("opened for the %dth time, it is told %+v", i+1, told)
		}
	}
}

// A client that is away while the disk fills up, or gets room again, is told so when it comes back.
func TestFullDiskWhileAway(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	spec := file("f", 10<<20)
	opened := f.open(alice, spec)
	granted := opened.Upload.Answer().Credit
	alice.Leave()
	f.free.Store(100)
	f.LookAtDisk()
	f.must(opened.Upload.Came(make([]byte, granted)))
	alice = f.attach("alice")
	if again := f.open(alice, spec); again.Upload.Settled().Credit != granted {
		t.Errorf("on a full disk it is asked for %d bytes, and was for %d", again.Upload.Answer().Credit, granted)
	}
	alice.Leave()
	f.free.Store(1 << 30)
	f.LookAtDisk()
	alice = f.attach("alice")
	if again := f.open(alice, spec); again.Upload.Settled().Credit <= granted {
		t.Error("with room again it is asked for nothing more")
	}
}

// While the disk is full every client is paused, and told why, also those that come meanwhile. Once there is room again, all go on and
// are asked for more.
func TestFullDiskPausesAll(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	early := f.attach("early")
	opened := f.open(early, stream("s"))
	f.free.Store(100)
	f.LookAtDisk()
	late := f.attach("late")
	held := f.open(late, stream("s"))
	for _, session := range []*roster.Session{early, late} {
		if told := session.Told(); told.Paused != roster.DiskFull {
			t.Errorf("it is told %+v", told)
		}
	}
	early = f.attach("early") // a new session is no way round
	if told := early.Told(); told.Paused != roster.DiskFull {
		t.Errorf("a new session is told %+v", told)
	}
	if credit := held.Upload.Answer().Credit; credit != 0 {
		t.Errorf("%d bytes are asked for", credit)
	}
	f.free.Store(1 << 20) // just the reserve: it would be full again at once
	f.LookAtDisk()
	if told := late.Told(); told.Paused != roster.DiskFull {
		t.Errorf("at the reserve: %+v", told)
	}
	f.free.Store(1 << 30)
	f.LookAtDisk()
	for _, session := range []*roster.Session{early, late} {
		if told := session.Told(); told.Paused != "" {
			t.Errorf("with room it is told %+v", told)
		}
	}
	for _, one := range []roster.Opened{opened, held} {
		if credit := one.Upload.Answer().Credit; credit == 0 {
			t.Error("nothing is asked for")
		}
	}
}

// A client that waits for others waits on when the disk has room again.
func TestFullDiskAndQueue(t *testing.T) {
	f := start(t, limited(policy.Queue), nil)
	f.attach("large-1")
	second := f.attach("large-2")
	f.free.Store(0)
	f.LookAtDisk()
	f.free.Store(1 << 30)
	f.LookAtDisk()
	if told := second.Told(); told.Paused != roster.Queued {
		t.Errorf("it is told %+v", told)
	}
}

func bounded(most bytesize.Size) policy.Policy {
	return policy.Policy{Default: policy.Share{MaxStored: most}}
}

// A client has no more bytes on the disk than it may, however many uploads it has at once.
func TestMaxStoredBoundsAllUploads(t *testing.T) {
	f := start(t, bounded(100), nil)
	alice := f.attach("alice")
	content := make([]byte, 60)
	opened := f.open(alice, file("a", 60))
	if _, err := f.Open(t.Context(), alice.ID, alice.Peer, file("b", 60), false); !errors.Is(err, roster.ErrStored) {
		t.Errorf("a second beside one that is under way: %v", err)
	}
	f.must(opened.Upload.Came(content))
	_, err := f.finish(alice, opened, content)
	f.must(err)
	if _, err := f.Open(t.Context(), alice.ID, alice.Peer, file("b", 60), false); !errors.Is(err, roster.ErrStored) {
		t.Errorf("a second when the first is there: %v", err)
	}
	one, two := f.open(alice, stream("one")), f.open(alice, stream("two"))
	if sum := one.Upload.Answer().Credit + two.Upload.Answer().Credit; sum > 40 {
		t.Errorf("%d bytes are asked for, and there is room for 40", sum)
	}
	f.must(one.Upload.Came(make([]byte, 40)))
	f.Review()
	if told := alice.Told(); told.Paused != roster.TooMuch {
		t.Errorf("it is told %+v", told)
	}
	f.must(os.Remove(filepath.Join(f.Dir, "alice/a")))
	f.must(f.setPolicy(bounded(1 << 30)))
	f.Review()
	f.RecountAll()
	f.Review()
	if told := alice.Told(); told.Paused != "" {
		t.Errorf("with room it is told %+v", told)
	}
	if two.Upload.Answer().Credit == 0 {
		t.Error("nothing is asked for though there is room")
	}
}

func (f *fixture) setPolicy(p policy.Policy) error {
	_, err := f.policy.Set(p, 0)
	return err
}

// What was last seen of a client is shown as long as it is there.
func TestGoneClientsHaveNoRate(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	f.Apply(window.Facts{Clients: []window.Client{{Name: "alice", Throughput: 1000}}}, window.Decision{Shares: []window.Share{{Name: "alice"}}})
	if seen := f.Clients()[0]; seen.Rate != 1000 {
		t.Errorf("while it is there: %+v", seen)
	}
	alice.Leave()
	if left := f.Clients()[0]; left.Seen != (roster.Seen{}) || left.Attached {
		t.Errorf("when it has left: %+v", left)
	}
}

// What is being finished when the grace of its client is over comes to its end, and the client is told so when it is back: it would send
// all of it again.
func TestGraceOfWhatIsFinished(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	landed := make(chan struct{})
	f.LandWith(func(to sink.Sink, upTo uint64) error {
		<-landed
		return to.Landed(upTo)
	})
	alice, content := f.attach("alice"), []byte("all of it")
	opened := f.open(alice, file("f", len(content)))
	f.must(opened.Upload.Came(content))
	asking, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := f.Finish(asking, alice.ID, alice.Peer, opened.Upload.ID, uint64(len(content)), rootOf(content))
		gone <- err
	}()
	for !opened.Upload.IsAsked() {
		time.Sleep(time.Millisecond)
	}
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("whoever no longer asks is told %v", err)
	}
	alice.Leave()
	f.Sweep(time.Now().Add(2 * time.Minute))
	alice = f.attach("alice")
	close(landed)
	if path, err := f.finish(alice, opened, content); err != nil || path != "alice/f" {
		t.Errorf("back after its grace it is told %q, %v", path, err)
	}
	alice.Leave()
	f.Sweep(time.Now().Add(2 * time.Minute))
	if len(f.Clients()) != 0 {
		t.Errorf("%+v are known", f.Clients())
	}
}

// The uploads of a client that is gone stay for its grace, and it goes on with them. Then they are closed, and it
// goes on with what is on the disk.
func TestGrace(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	content := bytes.Repeat([]byte("content."), 10)
	spec := file("f", len(content))
	opened := f.open(alice, spec)
	f.must(opened.Upload.Came(content[:30]))
	opened.Upload.Settled()
	alice.Leave()
	f.Sweep(time.Now().Add(30 * time.Second))
	alice = f.attach("alice")
	if again := f.open(alice, spec); again.Upload != opened.Upload || again.Offset != 30 {
		t.Errorf("within its grace it goes on at %d", again.Offset)
	}
	alice.Leave()
	f.Sweep(time.Now().Add(2 * time.Minute))
	if len(f.Clients()) != 0 {
		t.Errorf("%+v are known", f.Clients())
	}
	alice = f.attach("alice")
	again := f.open(alice, spec)
	if again.Upload == opened.Upload || again.Offset != 30 {
		t.Errorf("after its grace it goes on at %d", again.Offset)
	}
}

// A finished upload gives the same answer to its client whenever that asks again with the same root.
func TestFinishedIsRemembered(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice, bob := f.attach("alice"), f.attach("bob")
	content := []byte("it")
	opened := f.open(alice, file("f", len(content)))
	if _, err := f.finish(alice, opened, content); !errors.Is(err, roster.ErrUnfinished) {
		t.Errorf("before all came: %v", err)
	}
	f.must(opened.Upload.Came(content))
	for range 2 {
		if path, err := f.finish(alice, opened, content); err != nil || path != "alice/f" {
			t.Errorf("%q, %v", path, err)
		}
	}
	if _, err := f.finish(alice, opened, []byte("at")); !errors.Is(err, roster.ErrUpload) {
		t.Errorf("with another root: %v", err)
	}
	if _, err := f.finish(bob, opened, content); !errors.Is(err, roster.ErrUpload) {
		t.Errorf("by another: %v", err)
	}
	again, err := f.Open(t.Context(), alice.ID, alice.Peer, file("f", len(content)), false)
	if err != nil || again.Existing == nil || *again.Existing != rootOf(content) {
		t.Errorf("opened again: %+v, %v", again, err)
	}
	replaced, err := f.Open(t.Context(), alice.ID, alice.Peer, file("f", len(content)), true)
	if err != nil || replaced.Upload == nil {
		t.Errorf("to be replaced: %+v, %v", replaced, err)
	}
}

// Of finished uploads only the answers are kept, and only some of those.
func TestFinishedUploadsAreForgotten(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	for i := range 5000 {
		opened := f.open(alice, file(fmt.Sprintf("d%d/f%d", i%10, i), 0))
		if _, err := f.finish(alice, opened, nil); err != nil {
			t.Fatal(err)
		}
	}
	if uploads, openings, finished := f.Known(); uploads != 0 || openings != 0 || finished > 4096 {
		t.Errorf("%d uploads, %d openings, %d finished are known", uploads, openings, finished)
	}
}

// An upload that takes long to be closed holds up nobody except a client that opens it again, until it is closed.
func TestSlowDiskHoldsUpNobody(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	spec := file("f", 80)
	first := f.open(alice, spec)
	f.must(first.Upload.Came(make([]byte, 30)))
	release := first.Upload.Hold()
	alice.Leave()
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		f.Sweep(time.Now().Add(2 * time.Minute))
	}()
	select {
	case <-swept:
	case <-time.After(10 * time.Second):
		t.Error("what is due now and then waits for a disk")
	}
	alice = f.attach("alice")
	f.open(alice, file("another", 80))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Open(short, alice.ID, alice.Peer, spec, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is not closed: %v", err)
	}
	release()
	if again := f.open(alice, spec); again.Offset != 30 {
		t.Errorf("it is gone on with at %d", again.Offset)
	}
	<-swept
}

// Uploads that are left alone are closed even if their client is attached, and make way for others before that.
func TestUploadsThatAreLeft(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	left := f.open(alice, stream("left"))
	f.Sweep(time.Now().Add(30 * time.Second))
	if again := f.open(alice, stream("left")); again.Upload.ID == left.Upload.ID {
		t.Error("a stream that is opened again is the same upload")
	}
	f.Sweep(time.Now().Add(2 * time.Minute))
	if uploads, _, _ := f.Known(); uploads != 0 {
		t.Errorf("%d uploads are open that nobody goes on with", uploads)
	}
	for i := range 64 {
		f.open(alice, stream(fmt.Sprint(i))).Upload.Leave(time.Now().Add(-time.Minute/2 + time.Duration(i)))
	}
	f.open(alice, stream("one more"))
	uploads, _, _ := f.Known()
	if f.open(alice, stream("0")); uploads != 64 {
		t.Errorf("%d uploads are open", uploads)
	}
}

// A client has so many uploads at once and no more.
func TestUploadsAreBounded(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	var refused error
	for i := range 65 {
		_, refused = f.Open(t.Context(), alice.ID, alice.Peer, stream(fmt.Sprint(i)), false)
	}
	if !errors.Is(refused, roster.ErrCrowded) {
		t.Errorf("the 65th: %v", refused)
	}
}

// A path that leads elsewhere is refused.
func TestPathsOfUploads(t *testing.T) {
	f := start(t, policy.Policy{}, nil)
	alice := f.attach("alice")
	if _, err := f.Open(t.Context(), alice.ID, alice.Peer, file("../bob/f", 1), false); !errors.Is(err, gathered.ErrPath) {
		t.Errorf("%v", err)
	}
}
