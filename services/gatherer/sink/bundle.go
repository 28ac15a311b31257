package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
)

// bundle is many small files, or directories, that come as one upload, in the round trips of one. It lands as a file that itself
// never appears. Once it is whole, its files do, each in one step.
type bundle struct {
	*file
	dir  string // of the store
	spec Spec
}

func openBundle(ctx context.Context, dir string, spec Spec) (*bundle, error) {
	if spec.Info.Length > gathered.BundleBytes {
		return nil, fmt.Errorf("%w: %.200q has %d bytes: want at most %d", gathered.ErrBundle, spec.Path, spec.Info.Length, gathered.BundleBytes)
	}
	client, err := makeDirectory(dir, spec.Client)
	if err != nil {
		return nil, fmt.Errorf("make room for %s: %w", spec.Path, err)
	}
	landed, err := openFile(ctx, client, spec)
	if err != nil {
		return nil, err
	}
	return &bundle{file: landed, dir: dir, spec: spec}, nil
}

// placers is how many files of a bundle are placed at once: placing one is mostly waiting for the disk.
const placers = 16

// placing bounds how many are of all bundles: each takes a thread of its own while it waits for the disk, and if that stands, hundreds of
// bundles would take more than a process may have.
var placing = make(chan struct{}, 8*placers)

// Finish lets all files appear, and returns the directory that they are in. If one cannot appear, some of the others have all the
// same.
func (b *bundle) Finish(length uint64, root object.Root) (string, error) {
	content, err := b.landing.Whole(length, root)
	if err != nil {
		return "", err
	}
	all, err := b.unpack(content, length)
	var placed []Placed
	if err == nil {
		placed, err = b.placeAll(all)
	}
	if noroom.Is(err) || errors.Is(err, object.ErrBusy) {
		return "", err // the client may ask again: all appear again then
	}
	b.placed = placed
	return filepath.Join(b.dir, b.spec.Client, path.Dir(b.spec.Path)), errors.Join(err, b.landing.Remove())
}

// packed is one of a bundle's files, or an empty directory.
type packed struct {
	spec    Spec
	below   []string          // the directories that a file goes into; of a directory, itself is the last
	content *io.SectionReader // nil of a directory
}

func (p packed) isDirectory() bool { return p.content == nil }

// mostEntries is how many entries a bundle's table may have: its files, and all directories that they are in. It is known before the table
// is read. Where each of the most items is alone in its directories, there is room for three of these.
const mostEntries = 4 * gathered.BundleItems

// unpacking bounds how many bundles' tables are in memory at once: there is no room for those of all bundles that may end at once.
var unpacking = make(chan struct{}, 4)

// unpack returns the files and the empty directories of a bundle. It has checked all their paths.
func (b *bundle) unpack(content io.ReaderAt, length uint64) (all []packed, err error) {
	unpacking <- struct{}{}
	defer func() { <-unpacking }()
	items, err := object.Items(content, length, mostEntries)
	switch {
	case errors.Is(err, object.ErrManyItems):
		return nil, fmt.Errorf("%w: %.200q: %w", gathered.ErrBundle, b.spec.Path, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", gathered.ErrPath, err)
	}
	if len(items) == 0 { // it is the directory itself that the bundle goes into
		below, err := b.spec.below()
		return []packed{{spec: Spec{Path: path.Dir(b.spec.Path)}, below: below}}, err
	}
	for i, item := range items {
		if len(all) == gathered.BundleItems {
			return nil, fmt.Errorf("%w: %.200q has more than %d files", gathered.ErrBundle, b.spec.Path, gathered.BundleItems)
		}
		spec := b.specOf(item)
		below, err := spec.below()
		switch {
		case err != nil:
			return nil, err
		case item.Kind == object.File:
			all = append(all, packed{spec, below, io.NewSectionReader(content, int64(item.Offset), int64(item.Size))})
		case i+1 == len(items) || !strings.HasPrefix(items[i+1].Path, item.Path+"/"):
			all = append(all, packed{spec: spec, below: append(below, spec.Info.Name)})
		}
	}
	return all, nil
}

// placeAll lets all files appear, several at a time, and returns those that have.
func (b *bundle) placeAll(all []packed) (placed []Placed, err error) {
	var group errgroup.Group
	group.SetLimit(placers)
	failed := make([]error, len(all))
	for i, one := range all {
		group.Go(func() error {
			placing <- struct{}{}
			defer func() { <-placing }()
			failed[i] = b.place(one)
			return failed[i]
		})
	}
	err = group.Wait()
	for i, one := range all {
		if failed[i] == nil && !one.isDirectory() {
			placed = append(placed, Placed{one.spec.Path, filepath.Join(b.dir, filepath.Join(one.below...), one.spec.Info.Name)})
		}
	}
	return placed, err
}

// specOf returns what one of its files would be if it came by itself.
func (b *bundle) specOf(item object.Item) Spec {
	return Spec{
		Client: b.spec.Client, Path: path.Join(path.Dir(b.spec.Path), item.Path),
		Info: object.Info{Name: path.Base(item.Path), Kind: object.File, Length: item.Size, Mode: item.Mode, Time: b.spec.Info.Time},
	}
}

// checkDirectory returns an error if what was there is a file.
func checkDirectory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	}
	return err
}

// place lets one file appear, as if it had come by itself, or a directory.
func (b *bundle) place(one packed) error {
	parent, err := makeBelow(b.dir, one.below)
	if err != nil {
		return fmt.Errorf("make room for %s: %w", one.spec.Path, err)
	}
	if one.isDirectory() {
		return checkDirectory(parent)
	}
	var hash digest.Hash
	if _, err := io.Copy(&hash, one.content); err != nil {
		return err
	}
	landing, err := object.Land(context.Background(), parent, one.spec.Info)
	if err != nil {
		return err
	}
	defer func() { _ = landing.Keep() }() // a file that has appeared is left as it is
	from := int64(landing.Offset())
	if _, err := io.Copy(landing, io.NewSectionReader(one.content, from, one.content.Size()-from)); err != nil {
		return err
	}
	b.hold(filepath.Join(parent, one.spec.Info.Name))
	return landing.Complete(one.spec.Info.Length, hash.Sum(), true)
}
