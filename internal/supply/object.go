// Package supply is where the sending end of a link gets its bytes from: an object's files, or a stream as it comes.
package supply

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// Object supplies an object from its files.
type Object struct {
	source  *object.Source
	look    func() error  // whether the source is what it was
	most    atomic.Uint64 // the offset up to which anything was sent
	carried atomic.Uint64 // how much was, what was sent again counting again

	mu      sync.Mutex
	readers map[*os.File]*object.Reader // of portions that are being sent, by file
	resting []*object.Reader
	version uint64
	links   int  // how many have begun
	held    bool // nothing is handed out
	end     *link.End
	looking bool  // the source is being looked at
	checked bool  // it was unchanged after all had been sent over this link,
	early   bool  // except for what was still being read then: it is checked once more
	wrong   error // what was found instead
	changed chan struct{}
}

// NewObject returns the supply of a source; the source must stay open as long as the supply is used.
func NewObject(source *object.Source) *Object {
	return &Object{source: source, look: source.Changed, readers: make(map[*os.File]*object.Reader), changed: make(chan struct{})}
}

// Begin says that another link begins, in a tree of a version.
func (s *Object) Begin(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.checked, s.wrong = version, false, nil
	s.links++
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
	s.change()
}

// change wakes those who wait for something else to be handed out. The lock is held.
func (s *Object) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Known says that the root is known, so that the end can be told.
func (s *Object) Known(root object.Root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = &link.End{Length: s.source.Info().Length, Root: root}
	s.change()
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
		if s.isChecked() {
			portion.End = s.end
		}
		return portion, s.wrong
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

// isChecked reports whether all is still what was hashed: what changed after that may have been sent, and then no child is told that this
// is all. A slow stripe does not delay this check, as others may have sent its part, too. Of a large directory it takes long, and the link
// goes on meanwhile.
func (s *Object) isChecked() bool {
	reading := len(s.readers) > 0
	if s.end == nil || s.looking || s.wrong != nil {
		return false
	}
	if s.checked && (!s.early || reading) {
		return true
	}
	s.looking, s.checked = true, false
	of := s.links
	go func() {
		wrong := s.look()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looking = false
		if of == s.links {
			s.checked, s.early, s.wrong = true, reading, wrong
		}
		s.change()
	}()
	return false
}

// Usable returns object.ErrChanged if the source is no longer what it was.
func (s *Object) Usable() error { return s.look() }

// Sent implements link.Supply.
func (s *Object) Sent(offset uint64, portion link.Portion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most.Store(max(s.most.Load(), offset+portion.Length))
	s.carried.Add(portion.Length)
	s.resting = append(s.resting, s.readers[portion.File])
	delete(s.readers, portion.File)
}

// SentUpTo returns the offset up to which anything was sent. It waits for no disk, as Next may.
func (s *Object) SentUpTo() uint64 { return s.most.Load() }

// Acked has nothing to do: the source stays as long as the delivery runs.
func (s *Object) Acked(uint64, relay.Level) error { return nil }

// Carried returns how much was sent; what was sent again counts again.
func (s *Object) Carried() uint64 { return s.carried.Load() }
