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
	// Landed says that everything before an offset was written.
	Landed(upTo uint64) error
	// End says how long the object is, and its root.
	End(End) error
	// Answer returns what the parent is to know now.
	Answer() Answer
}

// Place is where bytes go: into a file from a position on, in any order; or, if there is
// no file, to a writer, one after the other.
type Place struct {
	File *os.File
	At   int64
	To   io.Writer
	// Full, if it is set, is called when the file's disk has no room, and reports whether there is some now, so that writing is tried
	// again. It may take its time, but less than a neighbour's patience.
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

// insisting writes again when there was no room, if there is some then.
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
	Level       wire.Level // and what that means
	Below       uint64     // of a stream, hop by hop: everything before it has been received by all members below; zero is not known
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
	if a.Below != told.Below {
		frames = wire.Header{Type: wire.Ack, Level: wire.Received, Offset: a.Below, TreeVersion: a.TreeVersion}.Append(frames)
	}
	if a.Credit != told.Credit {
		frames = wire.Header{Type: wire.Credit, Offset: a.Credit, TreeVersion: a.TreeVersion}.Append(frames)
	}
	return frames
}
