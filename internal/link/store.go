package link

import (
	"io"
	"os"

	"github.com/groupcast/groupcast/internal/noroom"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Store is where a child puts the bytes that it gets.
type Store interface {
	// Section returns where the bytes from an offset on go, and how many fit there.
	Section(offset uint64) (to Place, most int64, err error)
	// Landed says that everything before an offset has been written.
	Landed(upTo uint64) error
	// End says what the whole object is.
	End(End) error
	// Answer returns what the parent is to know now.
	Answer() Answer
}

// Place is where bytes go. In a file they go from a position on, in any order. If there is no file
// they go to a writer, one place's bytes after the other.
type Place struct {
	File *os.File
	At   int64
	To   io.Writer
	// Full, if set, is called when the file's disk has no room. It reports whether there is room now, so that the bytes are
	// written again. It may take some time, but less than a neighbour's patience.
	Full func() bool
}

// writer returns the place as a writer.
func (p Place) writer() io.Writer {
	switch {
	case p.File == nil:
		return p.To
	case p.Full == nil:
		return io.NewOffsetWriter(p.File, p.At)
	}
	return &insisting{io.NewOffsetWriter(p.File, p.At), p.Full}
}

// insisting is a writer that tries again after there was no room.
type insisting struct {
	to   io.Writer // after an error it goes on where it was
	full func() bool
}

func (w *insisting) Write(p []byte) (written int, err error) {
	for {
		n, err := w.to.Write(p[written:])
		written += n
		if err == nil || !noroom.Is(err) || !w.full() {
			return written, err
		}
	}
}

// Answer is what a child tells its parent.
type Answer struct {
	Ack         uint64     // everything before it is acknowledged,
	Level       wire.Level // and this is what that means
	Credit      uint64     // everything before it may be sent
	TreeVersion uint64
	Done        bool            // nothing more is wanted
	Changed     <-chan struct{} // closed when another call may bring something else
}

// since returns the frames that tell what has changed since told.
func (a Answer) since(told Answer) (frames []byte) {
	if a.Ack != told.Ack || a.Level != told.Level {
		frames = wire.Header{Type: wire.Ack, Level: a.Level, Offset: a.Ack, TreeVersion: a.TreeVersion}.Append(frames)
	}
	if a.Credit != told.Credit {
		frames = wire.Header{Type: wire.Credit, Offset: a.Credit, TreeVersion: a.TreeVersion}.Append(frames)
	}
	return frames
}
