package roster

import (
	"context"
	"fmt"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// What is looked for at once at most: it is read and hashed where it is there.
const (
	findFiles = 1000
	findBytes = 1 << 20 // of each
)

// ErrTooMuch says that more is looked for at once than may be.
var ErrTooMuch = fmt.Errorf("want at most %d files of %d bytes at once", findFiles, findBytes)

// Find returns for each of some small files the root of what has its path and its length already; nil where nothing has.
func (r *Roster) Find(ctx context.Context, session string, peer identity.ID, specs []sink.Spec) ([]*object.Root, error) {
	r.mu.Lock()
	client, err := r.clientOf(session, peer)
	r.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case len(specs) > findFiles:
		return nil, ErrTooMuch
	}
	done, err := r.readers.turn(ctx, client.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	roots, known := make([]*object.Root, len(specs)), make(map[sink.Spec]*object.Root)
	for i, spec := range specs {
		if spec.Client = client.Name; spec.Info.Length > findBytes {
			return nil, ErrTooMuch
		}
		root, isKnown := known[spec]
		if !isKnown { // each is read once, however often it is named
			if root, err = r.existing(ctx, spec); err != nil {
				return nil, r.told(err)
			}
			known[spec] = root
		}
		roots[i] = root
	}
	return roots, nil
}

// existing returns the root of what is there already; nil if nothing is.
func (r *Roster) existing(ctx context.Context, spec sink.Spec) (*object.Root, error) {
	root, found, err := sink.Existing(ctx, r.Dir, spec)
	if err != nil || !found {
		return nil, err
	}
	return &root, nil
}
