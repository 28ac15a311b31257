package sdk

import (
	"context"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/supply"
)

// Source is a file, or a directory as one object, that was looked at to be sent.
type Source struct {
	object  *object.Source
	reading *pulse.Pulse
}

// OpenSource looks at all that belongs to a file or a directory, which must not change from then on. With a large tree, or over a network,
// that takes a while; it gives up when ctx is done.
func OpenSource(ctx context.Context, path string) (*Source, error) {
	return openWith(ctx, path, object.Open)
}

// OpenChanges is OpenSource for a directory of which members have an earlier version under the same name: each is sent the parts that it
// lacks. It reads all of the directory, which is read again when it is sent, and calls reading, if that is not nil, again and again with
// how much of all it has read. Members that join late may get nothing: no agent has the rest.
func OpenChanges(ctx context.Context, path string, reading func(read, all uint64)) (*Source, error) {
	if reading == nil {
		reading = func(uint64, uint64) {}
	}
	return openWith(ctx, path, func(ctx context.Context, path string) (*object.Source, error) {
		return object.OpenHashed(ctx, path, reading)
	})
}

func openWith(ctx context.Context, path string, open func(context.Context, string) (*object.Source, error)) (*Source, error) {
	reading := new(pulse.Pulse)
	source, err := open(pulse.In(ctx, reading), path)
	if err != nil {
		code := InvalidArgument
		if ctx.Err() != nil {
			code = CodeOf(ctx.Err())
		}
		return nil, Because(code, err)
	}
	return &Source{source, reading}, nil
}

// Close ends a source that is not sent.
func (s *Source) Close() error { return s.object.Close() }

// supplier is what a sender feeds from.
type supplier interface {
	link.Supply
	// begin has the next link begin at an offset.
	begin(version, offset uint64)
	// sentUpTo returns up to where anything was sent, and Carried how many bytes that was, counting again what was sent again.
	sentUpTo() uint64
	Carried() uint64
	// reads returns how often the source has been read; zero if that says nothing.
	reads() uint64
	// usable returns object.ErrChanged if the source has changed.
	usable() error
}

// objectSupply feeds from an object.
type objectSupply struct {
	*supply.Object
	reading *pulse.Pulse
}

func (s objectSupply) begin(version, _ uint64) { s.Begin(version) }
func (s objectSupply) sentUpTo() uint64        { return s.SentUpTo() }
func (s objectSupply) reads() uint64           { return s.reading.Beats() }
func (s objectSupply) usable() error           { return s.Usable() }
