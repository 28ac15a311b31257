package roster_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

var errGone = errors.New("it was revoked")

// Whoever attached with a certificate that counts no more is put out: its session ends with the reason, its tickets permit nothing, and
// only a later certificate lets it in again, to what it has uploaded. Nobody else is touched, not even somebody who uploads in its name
// with another identity.
func TestRevokedAreExpelled(t *testing.T) {
	revoked := identity.Peer{}
	f := start(t, policy.Policy{}, func(env *roster.Env) {
		env.Revoked = func(peer identity.Peer) error {
			if peer.ID == revoked.ID && peer.Stamp <= revoked.Stamp {
				return errGone
			}
			return nil
		}
	})
	attach := func(name string, id identity.ID, stamp identity.Stamp) *roster.Session {
		session, err := f.Attach(name, nil, identity.Peer{ID: id, Stamp: stamp}, roster.Process{})
		f.must(err)
		return session
	}
	alice, bob, byOperator := attach("alice", member("alice"), 7), attach("bob", member("bob"), 7), attach("carol", operator, 7)
	content := []byte("content")
	opened := f.open(alice, file("f", len(content)))
	f.must(opened.Upload.Came(content[:3]))
	changed := alice.Told().Changed
	revoked = identity.Peer{ID: member("alice"), Stamp: 7}
	f.Expel()
	<-changed
	if told := alice.Told(); told.Ended != roster.Revoked {
		t.Errorf("who was revoked is told %+v", told)
	}
	if opened.Permits(member("alice")) {
		t.Error("the ticket still permits")
	}
	if _, err := f.finish(alice, opened, content); !errors.Is(err, roster.ErrSession) {
		t.Errorf("who was revoked finishes: %v", err)
	}
	for _, other := range []*roster.Session{bob, byOperator} {
		if told := other.Told(); told.Ended != "" {
			t.Errorf("%v is told %+v", other.Peer, told)
		}
	}
	if _, err := f.Attach("alice", nil, revoked, roster.Process{}); !errors.Is(err, errGone) {
		t.Errorf("with the same certificate: %v", err)
	}
	again := f.open(attach("alice", member("alice"), 8), file("f", len(content)))
	if again.Upload != opened.Upload || again.Offset != 3 {
		t.Errorf("it goes on at %d", again.Offset)
	}
}

// While nobody knows who was revoked, clients that are in attach again, before their sessions end or after: each session breaks now and
// then. Nobody else comes in: neither other identities, though they may upload in the client's name, nor an earlier certificate, nor
// another process, nor whoever has been away for longer than its uploads stay, nor who is known to be revoked.
func TestClientsThatAreInAttachAgainWithoutManagers(t *testing.T) {
	unsure, revoked := error(nil), error(nil)
	f := start(t, policy.Policy{}, func(env *roster.Env) {
		env.Revoked = func(identity.Peer) error { return revoked }
		env.Admit = func(identity.Peer) error { return cmp.Or(revoked, unsure) }
	})
	alice, bob := identity.Peer{ID: member("alice"), Stamp: 7}, identity.Peer{ID: member("bob"), Stamp: 7}
	wants := func(what string, caller identity.Peer, by string, returns bool, want error) *roster.Session {
		t.Helper()
		session, err := f.Attach("alice", nil, caller, roster.Process{Incarnation: by, Returns: returns})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		return session
	}
	wants("before", alice, "older", false, nil)
	session := wants("before", alice, "a", false, nil)
	unsure = errors.New("nobody knows")
	if _, err := f.Attach("bob", nil, bob, roster.Process{}); !errors.Is(err, unsure) {
		t.Errorf("a newcomer: %v", err)
	}
	wants("an operator", identity.Peer{ID: operator, Stamp: 7}, "a", true, unsure)
	wants("an earlier certificate", identity.Peer{ID: alice.ID, Stamp: 6}, "a", true, unsure)
	wants("a process that was replaced", alice, "older", true, unsure)
	wants("another process with the same certificate, which may be a copy", alice, "copy", false, unsure)
	wants("one that does not say which process it is", alice, "", true, unsure)
	if told := session.Told(); told.Ended != "" {
		t.Errorf("who is in is told %+v", told)
	}
	session = wants("beside its session", alice, "a", true, nil)
	session.CutOff()
	f.Sweep(time.Now().Add(30 * time.Second))
	session = wants("after it was cut off", alice, "a", true, nil)
	revoked = errGone
	wants("it was revoked", alice, "a", true, errGone)
	revoked = nil
	session.CutOff()
	f.Sweep(time.Now().Add(2 * time.Minute))
	wants("it was away for long", alice, "a", true, unsure)
}
