package send

import (
	"context"
	"io"
	"sync"

	"github.com/groupcast/groupcast/internal/pulse"
)

// Opened is a source that is closed after use.
type Opened interface {
	Source
	io.Closer
	// Beside returns the same source for another sender at the same time, with the pulse that is in ctx. It is closed before the source is.
	Beside(ctx context.Context) Opened
}

// Patient is a source that is waited for as long as its disk answers; for not much longer once nobody wants it any more.
type Patient struct {
	Opened
	ctx   context.Context // of whoever waits
	watch *pulse.Watch
	close func() // once
}

// Await has the calls of a source be waited for.
func Await(ctx context.Context, watch *pulse.Watch, source Opened) *Patient {
	p := &Patient{Opened: source, ctx: ctx, watch: watch}
	p.close = sync.OnceFunc(func() {
		if p.Opened != nil {
			_ = p.Opened.Close()
		}
	})
	return p
}

// AwaitOpen is Await for a source that is opened by a function, which is waited for, too.
func AwaitOpen(ctx context.Context, watch *pulse.Watch, open func(context.Context) (Opened, error)) (*Patient, error) {
	p := Await(ctx, watch, nil)
	err := watch.Await(ctx, "open", func() error {
		source, err := open(pulse.In(ctx, &watch.Pulse))
		if err == nil { // else it may be a pointer to nothing
			p.Opened = source
		}
		return err
	}, p.close)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// ReadAt is that of the source.
func (p *Patient) ReadAt(b []byte, offset uint64) error {
	return p.watch.Await(p.ctx, "read", func() error { return p.Opened.ReadAt(b, offset) }, p.close)
}

// Changed is that of the source.
func (p *Patient) Changed() error {
	return p.watch.Await(p.ctx, "find out whether it has changed", p.Opened.Changed, p.close)
}

// Close ends it, unless a call of it is left behind: then it ends with that.
func (p *Patient) Close() error {
	if p.watch.Err() != nil {
		return nil
	}
	p.close()
	return nil
}
