package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
)

// bundle is many small files that come as one: their round trips are those of one. It lands as a file that
// never appears; when it is whole, its files do, each at once.
type bundle struct {
	*file
	dir    string // that all clients have their directories in
	spec   Spec
	placed []Placed
}

func openBundle(ctx context.Context, dir string, spec Spec) (*bundle, error) {
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

// placers is how many files are placed at once: most of that is waiting for the disk.
const placers = 16

// Finish lets all files appear, and returns the directory that they are below. Where one cannot, some of the others
// have appeared all the same.
func (b *bundle) Finish(length uint64, root object.Root) (string, error) {
	content, err := b.landing.Whole(length, root)
	if err != nil {
		return "", err
	}
	all, err := b.unpack(content, length)
	if err == nil {
		err = b.placeAll(all)
	}
	switch {
	case err == nil:
		for _, one := range all {
			b.placed = append(b.placed, Placed{one.spec.Path, filepath.Join(b.dir, filepath.Join(one.below...), one.spec.Info.Name)})
		}
	case noroom.Is(err), errors.Is(err, object.ErrBusy):
		return "", err // when it is asked for again it may do
	}
	return filepath.Join(b.dir, b.spec.Client, path.Dir(b.spec.Path)), errors.Join(err, b.landing.Remove())
}

// packed is one of a bundle's files.
type packed struct {
	spec    Spec
	below   []string // the directories that it goes into
	content *io.SectionReader
}

// unpack returns the files, all of which may have the paths that they have.
func (b *bundle) unpack(content io.ReaderAt, length uint64) (all []packed, err error) {
	items, err := object.Items(content, length)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", gathered.ErrPath, err)
	}
	for _, item := range items {
		if item.Kind != object.File {
			continue
		}
		spec := b.specOf(item)
		below, err := spec.below()
		if err != nil {
			return nil, err
		}
		all = append(all, packed{spec, below, io.NewSectionReader(content, int64(item.Offset), int64(item.Size))})
	}
	return all, nil
}

// placeAll lets files appear, several at a time.
func (b *bundle) placeAll(all []packed) error {
	var placing errgroup.Group
	placing.SetLimit(placers)
	for _, one := range all {
		placing.Go(func() error { return b.place(one) })
	}
	return placing.Wait()
}

// specOf returns what one of its files would be if it came by itself.
func (b *bundle) specOf(item object.Item) Spec {
	return Spec{
		Client: b.spec.Client, Path: path.Join(path.Dir(b.spec.Path), item.Path),
		Info: object.Info{Name: path.Base(item.Path), Kind: object.File, Length: item.Size, Mode: item.Mode, Time: b.spec.Info.Time},
	}
}

// place lets one file appear, as if it had come by itself.
func (b *bundle) place(one packed) error {
	parent, err := makeBelow(b.dir, one.below)
	if err != nil {
		return fmt.Errorf("make room for %s: %w", one.spec.Path, err)
	}
	var hash digest.Hash
	if _, err := io.Copy(&hash, one.content); err != nil {
		return err
	}
	landing, err := object.Land(context.Background(), parent, one.spec.Info)
	if err != nil {
		return err
	}
	defer func() { _ = landing.Keep() }() // it does nothing to what has appeared
	from := int64(landing.Offset())
	if _, err := io.Copy(landing, io.NewSectionReader(one.content, from, one.content.Size()-from)); err != nil {
		return err
	}
	return landing.Complete(one.spec.Info.Length, hash.Sum(), true)
}

func (b *bundle) Placed() []Placed { return b.placed }
