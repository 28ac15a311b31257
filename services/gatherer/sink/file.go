package sink

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// file is a file that appears when it is whole.
type file struct {
	parent  string
	path    string // below its client's directory, with slashes
	landing *object.Landing
	content *os.File // nil of one without bytes
	resumed bool     // part of it is from an earlier landing
	holding          // keeps the file that has appeared until the sink is closed
	placed  []Placed
}

func openFile(ctx context.Context, parent string, spec Spec) (*file, error) {
	_ = object.RemoveSuperseded(ctx, parent, spec.Info) // Sweep removes what is left
	landing, err := object.Land(ctx, parent, spec.Info)
	if err != nil {
		return nil, err
	}
	f := &file{parent: parent, path: spec.Path, landing: landing, resumed: landing.Offset() > 0}
	if spec.Info.Length > 0 {
		if f.content, err = landing.Content(); err != nil {
			_ = landing.Keep() // the first error is told
			return nil, err
		}
	}
	return f, nil
}

func (f *file) Offset() uint64 { return f.landing.Offset() }

func (f *file) GoesOn() bool { return f.content == nil || !isRemoved(f.content) }

func (f *file) Place(offset uint64) (link.Place, int64, error) {
	return link.Place{File: f.content, At: int64(offset)}, int64(f.landing.Info().Length - offset), nil
}

func (f *file) Landed(upTo uint64) error { return f.landing.Landed(upTo) }

// Due is never: a landing claims by itself what is on disk.
func (f *file) Due() time.Time { return time.Time{} }

func (f *file) Commit() (uint64, error) { return f.landing.Offset(), nil }

// Finish lets the file appear. If it is damaged, an earlier landing's part may be the cause.
func (f *file) Finish(length uint64, root object.Root) (string, error) {
	f.hold(f.name())
	err := f.landing.Complete(length, root, true)
	if err == nil {
		f.placed = []Placed{{Path: f.path, File: f.name()}}
	}
	return f.name(), err
}

func (f *file) name() string { return filepath.Join(f.parent, f.landing.Info().Name) }

func (f *file) Placed() []Placed { return f.placed }

func (f *file) Close() error {
	f.letGo()
	return f.landing.Keep()
}
