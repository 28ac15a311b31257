package send

import (
	"context"
	"errors"

	"github.com/groupcast/groupcast/internal/object"
)

// Object is a file or a directory as a source.
type Object struct {
	source *object.Source
	reader *object.Reader
	holes  []object.Hole
	isMain bool // the source is closed with it
}

// OpenObject opens a file or a directory, and finds its holes, so that nothing but reading is left for the goroutine that sends.
func OpenObject(ctx context.Context, path string) (*Object, error) {
	source, err := object.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	holes, err := source.Holes()
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return &Object{source, source.NewReader(), holes, true}, nil
}

// Info returns what receivers must know.
func (o *Object) Info() object.Info { return o.source.Info() }

// Head is how long the beginning of a directory is that says where the rest belongs.
func (o *Object) Head() uint64 { return o.source.Head() }

// ReadAt fills p with the bytes from offset on.
func (o *Object) ReadAt(p []byte, offset uint64) error { return o.reader.ReadAt(p, offset) }

// Holes returns the holes of a file.
func (o *Object) Holes() ([]object.Hole, error) { return o.holes, nil }

// Changed says why what was read is of no use.
func (o *Object) Changed() error { return o.source.Changed() }

// Beside returns the same source for another sender.
func (o *Object) Beside(ctx context.Context) Opened {
	source := o.source.Beside(ctx)
	return &Object{source, source.NewReader(), o.holes, false}
}

// Close ends the source.
func (o *Object) Close() error {
	err := o.reader.Close()
	if o.isMain {
		err = errors.Join(err, o.source.Close())
	}
	return err
}
