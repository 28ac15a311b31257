// Package ledger is how the manager that leads writes: planned changes that are committed in its term, requests that have one effect however
// often they come, and what is wrong with requests. All that hold rules for a part of the state write by the one ledger of the term.
package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// rememberFor is how long request ids, and all else that is remembered for a while, are kept at least.
const rememberFor = time.Hour

// RenewalInterval is how often a fresh lease is taken for what is to be remembered.
const RenewalInterval = 10 * time.Minute

// Ledger writes in one term.
type Ledger struct {
	store *store.Store
	view  *view.View
	term  *store.Term

	renewing chan struct{} // is full while somebody takes a lease because there is none

	mu     sync.Mutex
	memory store.Lease // for what is to be remembered for a while
	taken  time.Time   // when it was asked for
}

// Open returns the ledger of a term.
func Open(term *store.Term, to *store.Store, shown *view.View) *Ledger {
	return &Ledger{store: to, view: shown, term: term, renewing: make(chan struct{}, 1)}
}

// Term returns the term that is written in.
func (l *Ledger) Term() *store.Term { return l.term }

// Renew takes a fresh lease for what is to be remembered.
func (l *Ledger) Renew(ctx context.Context) error {
	_, err := l.renew(ctx)
	return err
}

func (l *Ledger) renew(ctx context.Context) (store.Lease, error) {
	asked := time.Now()
	lease, err := l.store.Grant(ctx, rememberFor+RenewalInterval)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory, l.taken = lease, asked
	return lease, nil
}

// Lease returns the lease for what is to be remembered for a while, taking one if there is none yet, or if it is about to end, or has: where the
// store had no room for long, none could be renewed.
func (l *Ledger) Lease(ctx context.Context) (store.Lease, error) {
	l.mu.Lock()
	lease, taken := l.memory, l.taken
	l.mu.Unlock()
	if lease != 0 && time.Since(taken) < rememberFor {
		return lease, nil
	}
	select {
	case l.renewing <- struct{}{}: // one for all who wait
		defer func() { <-l.renewing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	l.mu.Lock()
	again, taken := l.memory, l.taken
	l.mu.Unlock()
	if again != lease && time.Since(taken) < rememberFor {
		return again, nil
	}
	return l.renew(ctx)
}

// MaxRequestID is how long a request id can be.
const MaxRequestID = 64

// attempts is how often a change is planned anew because others changed the same.
const attempts = 20

// Plan is a change ready to be written.
type Plan struct {
	Conditions []store.Cond
	Changes    []store.Op
}

// Put plans to write a key that was last written at a revision.
func Put(key string, value []byte, changed store.Revision) Plan {
	return Plan{Conditions: []store.Cond{store.Unchanged(key, changed)}, Changes: []store.Op{store.Put(key, value)}}
}

// PutMessage is Put of a message.
func PutMessage(key string, message proto.Message, changed store.Revision) (Plan, error) {
	encoded, err := proto.Marshal(message)
	if err != nil {
		return Plan{}, fmt.Errorf("encode %s: %w", key, err)
	}
	return Put(key, encoded, changed), nil
}

// Remove plans to delete a key that was last written at a revision.
func Remove(key string, changed store.Revision) Plan {
	return Plan{Conditions: []store.Cond{store.Unchanged(key, changed)}, Changes: []store.Op{store.Delete(key)}}
}

// Request is what makes a repeated request known.
type Request struct {
	key         string // empty for a request without an id
	fingerprint [sha256.Size]byte
}

// Identify returns how a request is known when it comes again. The id belongs to
// the caller: two callers may use the same.
func Identify(caller identity.ID, id string, message proto.Message) (Request, error) {
	if id == "" {
		return Request{}, nil
	}
	var problems Checks
	problems.That(len(id) <= MaxRequestID, "request_id", "has %d characters: at most %d", len(id), MaxRequestID)
	problems.That(!strings.ContainsAny(id, "/\x00\n"), "request_id", "holds a character that it may not")
	if err := problems.Err(); err != nil {
		return Request{}, err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return Request{}, fmt.Errorf("encode request: %w", err)
	}
	return Request{
		key:         "request/" + caller.String() + "/" + id,
		fingerprint: sha256.Sum256(append([]byte(message.ProtoReflect().Descriptor().FullName()), encoded...)),
	}, nil
}

// Write plans a change and commits it, again while others change the same
// meanwhile: plan is called up to 20 times. A request that was carried out before is not
// carried out again: its earlier response is returned. plan must fill response before it
// returns. What it refuses is planned once more by what is so now: another manager may
// lead, and this one's view be behind.
func (l *Ledger) Write(ctx context.Context, as Request, response proto.Message, plan func() (Plan, error)) error {
	current := false
	for range attempts {
		planned, err := plan()
		switch {
		case err == nil:
			err = l.commit(ctx, as, response, planned)
		case !current:
			if err := l.view.Sync(ctx); err != nil {
				return err
			}
			current = true
			continue
		}
		if err == nil {
			return nil
		}
		known, lookupErr := l.earlier(ctx, as, response)
		switch {
		case lookupErr != nil:
			return lookupErr
		case known:
			return nil
		case errors.Is(err, store.ErrFenced):
			return ErrNotLeading
		case !errors.Is(err, store.ErrConflict):
			return err
		}
		if err := l.view.Sync(ctx); err != nil {
			return err
		}
	}
	return ErrContention
}

// commit writes the plan together with the response to a repeated request, and
// waits until the view shows it.
func (l *Ledger) commit(ctx context.Context, as Request, response proto.Message, planned Plan) error {
	if as.key != "" {
		encoded, err := proto.Marshal(response)
		if err != nil {
			return fmt.Errorf("encode response: %w", err)
		}
		lease, err := l.Lease(ctx)
		if err != nil {
			return err
		}
		planned.Conditions = append(planned.Conditions, store.Absent(as.key))
		planned.Changes = append(planned.Changes, store.PutLeased(as.key, append(as.fingerprint[:], encoded...), lease))
	}
	at, err := l.store.Commit(ctx, l.term, planned.Conditions, planned.Changes)
	if err != nil {
		return err
	}
	return l.view.Await(ctx, at)
}

// earlier fills the response with what was answered when the request came first, if it did.
func (l *Ledger) earlier(ctx context.Context, as Request, response proto.Message) (known bool, err error) {
	if as.key == "" {
		return false, nil
	}
	item, found, err := l.store.Get(ctx, as.key)
	if err != nil || !found {
		return false, err
	}
	fingerprint, encoded := item.Value[:sha256.Size], item.Value[sha256.Size:]
	if [sha256.Size]byte(fingerprint) != as.fingerprint {
		return false, ErrReused
	}
	if err := proto.Unmarshal(encoded, response); err != nil {
		return false, fmt.Errorf("decode earlier response: %w", err)
	}
	return true, l.view.Await(ctx, item.Changed)
}

// Next returns a number that is larger than every incarnation of anything so far: a record that it replaces was written at an earlier revision.
func (l *Ledger) Next() uint64 { return uint64(l.view.Revision()) + 1 }

// GoesOn reports whether somebody who registers as an incarnation is still the newest of its name, and keeps that. Zero is a new one;
// of a name that is not known, current is zero. One that is newer than all that is known is of a state that an older one was put in the
// place of, as a backup: it is no rival's, and gets a number of this state.
func GoesOn(asked, current uint64) (bool, error) {
	if asked != 0 && asked < current {
		return false, fmt.Errorf("incarnation %d: %w", asked, ErrReplaced)
	}
	return asked != 0 && asked == current, nil
}
