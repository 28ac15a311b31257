package gather

import (
	"io"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// An open that returns no reader ends the upload of a stream with an error.
func TestStreamWithoutReader(t *testing.T) {
	s := &stream{open: func(uint64) (io.Reader, error) { return nil, nil }, begun: make(chan struct{})}
	if err := s.opened(t.Context(), 0); sdk.CodeOf(err) != sdk.InvalidArgument || s.kept != nil {
		t.Errorf("%v, want an invalid argument, and that nothing is read", err)
	}
}
