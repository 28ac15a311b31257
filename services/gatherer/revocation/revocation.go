// Package revocation knows whose certificates count no more, as the managers say.
package revocation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
)

// Why a peer is not let in.
var (
	ErrRevoked = errors.New("the identity was revoked: enroll with a new join token")
	ErrUnsure  = errors.New("no manager has said for too long who was revoked: try again when the managers are back")
)

// Stale is how long no manager may have been heard before nobody new is let in: as long as a capability lives, which neighbours
// in a tree show each other.
const Stale = 20 * time.Minute

// List says who was revoked.
type List struct {
	now func() time.Time

	mu     sync.RWMutex
	stamps map[identity.ID]identity.Stamp // the highest that no longer counts; nil is not known yet
	heard  time.Time
	known  chan struct{} // closed when it is known
}

// New returns a list that is not known yet: nobody is let in.
func New(now func() time.Time) *List { return &List{now: now, known: make(chan struct{})} }

// Known is closed when a manager has said who was revoked.
func (l *List) Known() <-chan struct{} { return l.known }

// Run follows the managers until ctx is done, and calls changed when the list may have changed.
func (l *List) Run(ctx context.Context, managers *uplink.Uplink, changed func()) error {
	err := managers.WatchRevocations(ctx, func(event uplink.RevocationEvent) error {
		l.take(event)
		changed()
		return nil
	}, l.hear)
	if err != nil {
		return fmt.Errorf("learn who was revoked: %w", err)
	}
	return nil
}

func (l *List) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = l.now()
}

func (l *List) take(event uplink.RevocationEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := event.Snapshot
	if event.Change != nil {
		all = []*groupv1.Revocation{event.Change}
	} else {
		if l.stamps == nil {
			close(l.known)
		}
		l.stamps = make(map[identity.ID]identity.Stamp, len(all))
	}
	for _, one := range all {
		l.stamps[identity.Named(one)] = identity.Stamp(one.GetStamp())
	}
}

// Revoked returns ErrRevoked for a peer whose certificate counts no more.
func (l *List) Revoked(peer identity.Peer) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if stamp, is := l.stamps[peer.ID]; is && stamp != 0 && peer.Stamp <= stamp {
		return ErrRevoked
	}
	return nil
}

// Admit returns why a peer may not come in: it was revoked, or that is not known.
func (l *List) Admit(peer identity.Peer) error {
	l.mu.RLock()
	unsure := l.stamps == nil || l.now().Sub(l.heard) > Stale
	l.mu.RUnlock()
	if unsure {
		return ErrUnsure
	}
	return l.Revoked(peer)
}
