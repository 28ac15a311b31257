package supply_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/groupcast/groupcast/internal/supply"
)

// idle returns nothing so many times before it returns what it reads from.
type idle struct {
	from  io.Reader
	times int
}

func (i *idle) Read(p []byte) (int, error) {
	if i.times--; i.times >= 0 {
		return 0, nil
	}
	return i.from.Read(p)
}

// A source that gives nothing for a while is read on; one that never gives anything is not asked for ever.
func TestReadersThatGiveNothing(t *testing.T) {
	text := func(times int) io.Reader { return supply.Reader(&idle{strings.NewReader("text"), times}) }
	if err := iotest.TestReader(text(50), []byte("text")); err != nil {
		t.Error(err)
	}
	if n, err := text(1000).Read(make([]byte, 4)); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%d bytes and %v, want %v", n, err, io.ErrNoProgress)
	}
}
