package sdk

import (
	"context"

	"github.com/groupcast/groupcast/internal/object"
)

// Source is a file, or a directory as one object, that was looked at to be sent.
type Source struct{ object *object.Source }

// OpenSource looks at all that belongs to a file or a directory, which must not change from then on. With a large tree, or over a network,
// that takes a while; it gives up when ctx is done.
func OpenSource(ctx context.Context, path string) (*Source, error) {
	source, err := object.Open(ctx, path)
	if err != nil {
		code := InvalidArgument
		if ctx.Err() != nil {
			code = CodeOf(ctx.Err())
		}
		return nil, Because(code, err)
	}
	return &Source{source}, nil
}

// Close ends a source that is not sent.
func (s *Source) Close() error { return s.object.Close() }
