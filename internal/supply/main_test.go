package supply_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func random(seed uint64, size int) []byte {
	source, content := rand.New(rand.NewPCG(seed, 1)), make([]byte, size)
	for i := range content {
		content[i] = byte(source.Uint32())
	}
	return content
}

type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t failing, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// bytesOf returns a portion's bytes, and tells the supply that they were sent.
func bytesOf(t failing, from link.Supply, offset uint64, portion link.Portion) []byte {
	t.Helper()
	content := make([]byte, portion.Length)
	_, err := portion.File.ReadAt(content, int64(portion.At))
	must(t, err)
	from.Sent(offset, portion)
	return content
}

// next returns what a supply has from an offset on.
func next(t failing, from link.Supply, offset, most uint64) link.Portion {
	t.Helper()
	portion, err := from.Next(offset, most)
	must(t, err)
	if portion.Length > most {
		t.Fatalf("%d bytes, asked for %d at most", portion.Length, most)
	}
	return portion
}

// wantBye checks that a supply ends the link, and says that the other end broke the rules.
func wantBye(t failing, from link.Supply, offset uint64) {
	t.Helper()
	_, err := from.Next(offset, 1)
	var bye *link.Bye
	if !errors.As(err, &bye) || bye.Reason != relay.Protocol {
		t.Fatalf("from %d on: %v, want the link to be ended", offset, err)
	}
}

// wantChanged checks that those who wait for a change are woken.
func wantChanged(t failing, portion link.Portion) {
	t.Helper()
	select {
	case <-portion.Changed:
	default:
		t.Fatalf("who waits is not told that there is something else")
	}
}
