package gather

import (
	"io"
	"strings"
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

// A gatherer that was restored from a copy has less of a stream than when its upload began, and nothing of what was read here.
func TestRestoredGathererHasNothing(t *testing.T) {
	s := &stream{open: func(uint64) (io.Reader, error) { return strings.NewReader("more"), nil }, begun: make(chan struct{}), ended: make(chan struct{})}
	if err := s.opened(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	defer s.kept.Close()
	if err := s.opened(t.Context(), 900); err == nil || !strings.Contains(err.Error(), "up to 900 alone") {
		t.Errorf("%v, want that the stream is lost", err)
	}
	if s.safe() != 0 {
		t.Errorf("%d bytes are on its disk, want none", s.safe())
	}
}
