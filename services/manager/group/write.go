package group

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Caller is who asks for a change.
type Caller struct{ ID identity.ID }

// MaxRequestID is how long a request id can be.
const MaxRequestID = 64

// attempts is how often a change is planned anew because others changed the same.
const attempts = 20

// plan is a change ready to be written.
type plan struct {
	conditions []store.Cond
	changes    []store.Op
}

// request is what makes a repeated request known.
type request struct {
	key         string // empty for a request without an id
	fingerprint [sha256.Size]byte
}

// identify returns how a request is known when it comes again. The id belongs to
// the caller: two callers may use the same.
func identify(caller Caller, id string, message proto.Message) (request, error) {
	if id == "" {
		return request{}, nil
	}
	var problems checks
	problems.that(len(id) <= MaxRequestID, "request_id", "has %d characters: at most %d", len(id), MaxRequestID)
	problems.that(!strings.ContainsAny(id, "/\x00\n"), "request_id", "holds a character that it may not")
	if err := problems.err(); err != nil {
		return request{}, err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return request{}, fmt.Errorf("encode request: %w", err)
	}
	return request{
		key:         "request/" + caller.ID.String() + "/" + id,
		fingerprint: sha256.Sum256(append([]byte(message.ProtoReflect().Descriptor().FullName()), encoded...)),
	}, nil
}

// write plans a change and commits it, again while others change the same
// meanwhile. A request that was carried out before is not carried out again: its
// earlier response is returned. make must fill response before it returns.
func (r *Registry) write(ctx context.Context, as request, response proto.Message, make func() (plan, error)) error {
	for range attempts {
		planned, err := make()
		if err == nil {
			err = r.commit(ctx, as, response, planned)
		}
		if err == nil {
			return nil
		}
		known, lookupErr := r.earlier(ctx, as, response)
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
		if err := r.view.Sync(ctx); err != nil {
			return err
		}
	}
	return ErrContention
}

// commit writes the plan together with the response to a repeated request, and
// waits until the view shows it.
func (r *Registry) commit(ctx context.Context, as request, response proto.Message, planned plan) error {
	if as.key != "" {
		encoded, err := proto.Marshal(response)
		if err != nil {
			return fmt.Errorf("encode response: %w", err)
		}
		lease, err := r.lease(ctx)
		if err != nil {
			return err
		}
		planned.conditions = append(planned.conditions, store.Absent(as.key))
		planned.changes = append(planned.changes, store.PutLeased(as.key, append(as.fingerprint[:], encoded...), lease))
	}
	at, err := r.store.Commit(ctx, r.term, planned.conditions, planned.changes)
	if err != nil {
		return err
	}
	return r.view.Await(ctx, at)
}

// earlier fills the response with what was answered when the request came first, if it did.
func (r *Registry) earlier(ctx context.Context, as request, response proto.Message) (known bool, err error) {
	if as.key == "" {
		return false, nil
	}
	item, found, err := r.store.Get(ctx, as.key)
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
	return true, r.view.Await(ctx, item.Changed)
}

// next returns a number that is larger than every incarnation of anything so
// far: a record that it replaces was written at an earlier revision.
func (r *Registry) next() uint64 { return uint64(r.view.Revision()) + 1 }
