package revocation_test

import (
	"errors"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/gatherer/revocation"
)

// list is a list under test, with a clock of its own.
type list struct {
	*testing.T
	*revocation.List
	now time.Time
}

func newList(t *testing.T) *list {
	l := &list{T: t, now: time.Unix(1e9, 0)}
	l.List = revocation.New(func() time.Time { return l.now })
	return l
}

func (l *list) hear(event uplink.RevocationEvent) {
	revocation.Hear(l.List)
	revocation.Take(l.List, event)
}

func revoked(name string, stamp uint64) *groupv1.Revocation {
	return &groupv1.Revocation{Role: string(identity.Member), Name: name, Stamp: stamp}
}

func peer(name string, stamp identity.Stamp) identity.Peer {
	return identity.Peer{ID: identity.ID{Role: identity.Member, Name: name}, Stamp: stamp}
}

func (l *list) want(who identity.Peer, admitted, attached error) {
	l.Helper()
	if got := l.Admit(who); !errors.Is(got, admitted) {
		l.Errorf("%v is let in with %v, want %v", who, got, admitted)
	}
	if got := l.Revoked(who); !errors.Is(got, attached) {
		l.Errorf("%v is revoked with %v, want %v", who, got, attached)
	}
}

// "Revocation by stamp": all certificates up to a stamp are refused, and one that was issued later lets the same
// name in again; another role of the same name is another identity.
func TestCertificatesUpToAStampAreRefused(t *testing.T) {
	l := newList(t)
	l.hear(uplink.RevocationEvent{Snapshot: []*groupv1.Revocation{revoked("alice", 7)}})
	for stamp, want := range map[identity.Stamp]error{6: revocation.ErrRevoked, 7: revocation.ErrRevoked, 8: nil} {
		l.want(peer("alice", stamp), want, want)
	}
	l.want(peer("bob", 1), nil, nil)
	l.want(identity.Peer{ID: identity.ID{Role: identity.Agent, Name: "alice"}, Stamp: 1}, nil, nil)
	l.hear(uplink.RevocationEvent{Change: revoked("bob", 9)})
	l.want(peer("bob", 1), revocation.ErrRevoked, revocation.ErrRevoked)
	l.want(peer("alice", 7), revocation.ErrRevoked, revocation.ErrRevoked)
}

// Before a manager has said who was revoked, nobody is let in. A snapshot replaces what was known.
func TestNobodyIsLetInBeforeItIsKnown(t *testing.T) {
	l := newList(t)
	l.want(peer("alice", 1), revocation.ErrUnsure, nil)
	l.hear(uplink.RevocationEvent{})
	<-l.Known()
	l.want(peer("alice", 1), nil, nil)
	l.hear(uplink.RevocationEvent{Snapshot: []*groupv1.Revocation{revoked("alice", 7)}})
	l.hear(uplink.RevocationEvent{})
	l.want(peer("alice", 1), nil, nil)
}

// Without a manager, those that were let in go on; for twenty minutes others are still let in.
func TestWithoutManagersNobodyNewIsLetInForLong(t *testing.T) {
	l := newList(t)
	l.hear(uplink.RevocationEvent{})
	l.now = l.now.Add(revocation.Stale)
	l.want(peer("alice", 1), nil, nil)
	l.now = l.now.Add(time.Second)
	l.want(peer("alice", 1), revocation.ErrUnsure, nil)
	revocation.Hear(l.List) // a heartbeat
	l.want(peer("alice", 1), nil, nil)
}
