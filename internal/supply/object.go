// Package supply is where the sending end of a link gets its bytes from: an object's files, or a stream as it comes.
package supply

import (
	"io"
	"os"
	"sync"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// Object supplies an object from its files.
type Object struct {
	source *object.Source

	mu      sync.Mutex
	readers map[*os.File]*object.Reader // of portions that are being sent, by file
	resting []*object.Reader
	version uint64
	most    uint64 // the offset up to which anything was sent
	carried uint64
	held    bool // nothing is handed out
	end     *link.End
	checked bool // the source was unchanged after all had been sent over this link,
	early   bool // except for what was still being read then: it is checked once more
	changed chan struct{}
}

// NewObject returns the supply of a source; the source must stay open as long as the supply is used.
func NewObject(source *object.Source) *Object {
	return &Object{source: source, readers: make(map[*os.File]*object.Reader), changed: make(chan struct{})}
}

// Begin says that another link begins, in a tree of a version.
func (s *Object) Begin(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.checked = version, false
}

// reader returns a reader that nobody uses.
func (s *Object) reader() *object.Reader {
	last := len(s.resting) - 1
	if last < 0 {
		return s.source.NewReader()
	}
	reader := s.resting[last]
	s.resting = s.resting[:last]
	return reader
}

// Close closes what was opened to be read.
func (s *Object) Close() {
	for _, reader := range s.resting {
		_ = reader.Close() // they were only read
	}
}

// Hold stops handing out bytes while held is set.
func (s *Object) Hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	close(s.changed)
	s.changed = make(chan struct{})
}

// Known says that the root is known, so that the end can be told.
func (s *Object) Known(root object.Root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = &link.End{Length: s.source.Info().Length, Root: root}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Next implements link.Supply.
func (s *Object) Next(offset, most uint64) (link.Portion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	portion := link.Portion{Changed: s.changed, TreeVersion: s.version}
	length := s.source.Info().Length
	switch {
	case offset > length:
		return portion, &link.Bye{Reason: relay.Protocol, Text: "asked beyond the end"}
	case offset == length:
		portion.End = s.end
		reading := len(s.readers) > 0
		if s.end == nil || s.checked && (!s.early || reading) {
			return portion, nil
		}
		// What changed after it was hashed may have been sent: then no child is told that this is all. A slow
		// stripe does not delay this check, as others may have sent its part, too.
		s.checked, s.early = true, reading
		return portion, s.Usable()
	case most == 0 || s.held:
		return portion, nil
	}
	reader := s.reader()
	file, n, err := reader.Section(offset)
	if err != nil {
		s.resting = append(s.resting, reader)
		return portion, err
	}
	s.readers[file] = reader
	at, err := file.Seek(0, io.SeekCurrent)
	portion.File, portion.At, portion.Length = file, uint64(at), min(most, uint64(n))
	return portion, err
}

// Usable returns object.ErrChanged if the source is no longer what it was.
func (s *Object) Usable() error { return s.source.Changed() }

// Sent implements link.Supply.
func (s *Object) Sent(offset uint64, portion link.Portion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.carried = max(s.most, offset+portion.Length), s.carried+portion.Length
	s.resting = append(s.resting, s.readers[portion.File])
	delete(s.readers, portion.File)
}

// SentUpTo returns the offset up to which anything was sent.
func (s *Object) SentUpTo() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Acked has nothing to do: the source stays as long as the delivery runs.
func (s *Object) Acked(uint64, relay.Level) error { return nil }

// Carried returns how much was sent; what was sent again counts again.
func (s *Object) Carried() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carried
}
