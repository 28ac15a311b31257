package receive

import (
	"context"
	"errors"
	"fmt"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// Existing is what may be the object already.
type Existing interface {
	// Root hashes it; there is none if it changes meanwhile, or is of no use.
	Root(ctx context.Context) (root object.Root, there bool, err error)
	// Confirm returns an error if what was hashed is not there any more; durable has it be on disk.
	Confirm(durable bool) error
	Close() error
}

// present is something of the object's name and length, as if all had landed. It is hashed beside
// what the sender does: a replica that hashed first would join too late.
type present struct {
	life     context.Context // of whoever receives
	existing Existing
	length   uint64
	stop     context.CancelFunc
	hashed   chan struct{} // closed when the others are known
	root     object.Root
	there    bool
	err      error
	ended    bool
}

// Inspect begins to hash what may be the object. As a landing it is whole, and complete if its root is
// the object's; otherwise it is damaged, and left as it is.
func Inspect(ctx context.Context, existing Existing, length uint64) Landing {
	p := &present{life: ctx, existing: existing, length: length, hashed: make(chan struct{})}
	ctx, p.stop = context.WithCancel(ctx)
	go func() {
		defer close(p.hashed)
		p.root, p.there, p.err = existing.Root(ctx)
	}()
	return p
}

// InspectObject begins to hash what has the object's name in a directory, if it is like it; nil if not.
func InspectObject(ctx context.Context, dir string, info object.Info) (Landing, error) {
	found, err := object.Find(ctx, dir, info)
	if found == nil || err != nil {
		return nil, err
	}
	return Inspect(ctx, found, info.Length), nil
}

// InspectDevice begins to hash a device that had all of an object once; nil if it had not.
func InspectDevice(ctx context.Context, target device.Target, info object.Info) (Landing, error) {
	found, err := device.Find(target, info)
	if found == nil || err != nil {
		return nil, err
	}
	return Inspect(ctx, found, info.Length), nil
}

// errWhole says that something is to land where nothing is missing.
var errWhole = errors.New("all is there already")

func (p *present) Offset() uint64                     { return p.length }
func (p *present) Write([]byte) (int, error)          { return 0, errWhole }
func (p *present) Zeros(uint64) error                 { return errWhole }
func (p *present) Ahead(uint64, []byte) (bool, error) { return false, errWhole }
func (p *present) Adopt(uint64) error                 { return errWhole }

// Complete compares the root. Whatever is wrong with what is there, it is not the object; if it was not hashed to the end, nobody knows.
func (p *present) Complete(length uint64, root object.Root, durable bool) error {
	<-p.hashed
	err := p.err
	switch {
	case err == nil && (!p.there || p.root != root || p.length != length):
		err = fmt.Errorf("%w: what is there has another root", object.ErrDamaged)
	case err == nil:
		err = p.existing.Confirm(durable)
	case p.life.Err() != nil:
		return errors.Join(context.Cause(p.life), p.end())
	}
	if err != nil {
		return errors.Join(object.ErrDamaged, err, p.end())
	}
	return p.end()
}

func (p *present) Keep() error   { return p.end() }
func (p *present) Remove() error { return p.end() }

func (p *present) end() error {
	if p.ended {
		return nil
	}
	p.ended = true
	p.stop()
	<-p.hashed
	return p.existing.Close()
}
