package roster

import (
	"context"
	"fmt"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// How much can be looked for at once: each file that is there is read and hashed.
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
	case len(specs) == 0: // it is asked whether this is known here
		return nil, nil
	}
	done, err := r.readers.turn(ctx, client.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	all, indices := distinct(client.Name, specs)
	for _, spec := range all {
		if spec.Info.Length > findBytes {
			return nil, ErrTooMuch
		}
	}
	found, err := sink.Existing(ctx, r.Dir, all...)
	if err != nil {
		return nil, r.told(err)
	}
	roots := make([]*object.Root, len(specs))
	for i, index := range indices {
		roots[i] = found[index]
	}
	return roots, nil
}

// distinct returns what is looked for, each once however often it is named, and for each which of these it is.
func distinct(client string, specs []sink.Spec) (all []sink.Spec, indices []int) {
	known := make(map[sink.Spec]int)
	for _, spec := range specs {
		spec.Client = client
		index, is := known[spec]
		if !is {
			index = len(all)
			all, known[spec] = append(all, spec), index
		}
		indices = append(indices, index)
	}
	return all, indices
}
