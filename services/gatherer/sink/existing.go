package sink

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/object"
)

// Existing returns for each upload the root of what is at its path already; nil if nothing is. Whatever has a root is durable by then,
// and so is its name: the process that put it there may have been killed before that, or told that the disk fails.
func Existing(ctx context.Context, dir string, specs ...Spec) ([]*object.Root, error) {
	roots := make([]*object.Root, len(specs))
	var reading errgroup.Group
	reading.SetLimit(placers)
	for i, spec := range specs {
		reading.Go(func() (err error) {
			roots[i], err = existing(ctx, dir, spec)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	var found []string // the directories that something is in
	for i, root := range roots {
		if root != nil {
			below, _ := specs[i].below() // its path was checked
			found = append(found, filepath.Join(below...))
		}
	}
	slices.Sort(found)
	for _, below := range slices.Compact(found) {
		if err := makeDurable(dir, below); err != nil {
			return nil, fmt.Errorf("sync what is there of %s: %w", below, err)
		}
	}
	return roots, nil
}

// makeDurable brings a directory's names to the disk, and its own.
func makeDurable(dir, below string) error {
	path, err := makeBelow(dir, strings.Split(below, "/")) // it is there
	if err != nil {
		return err
	}
	return object.SyncDirectory(path)
}

// existing returns the root of the file at a path; nil if there is none, or if it is taken away meanwhile.
func existing(ctx context.Context, dir string, spec Spec) (*object.Root, error) {
	below, err := spec.below()
	if err != nil || spec.Stream || spec.Bundle {
		return nil, err
	}
	found, err := object.Find(ctx, filepath.Join(append([]string{dir}, below...)...), spec.Info)
	if found == nil || err != nil {
		return nil, ignoreGone(err)
	}
	defer found.Close()
	root, whole, err := found.Root(ctx)
	if err == nil && whole {
		err = found.Sync()
	}
	switch {
	case errors.Is(err, object.ErrChanged):
		return nil, nil
	case err != nil || !whole:
		return nil, ignoreGone(err)
	}
	return &root, nil
}
