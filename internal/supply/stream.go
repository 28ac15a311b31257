package supply

import (
	"fmt"
	"slices"
	"sync"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/spool"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// streamSegment is how many bytes of a stream are given back at once.
const streamSegment = 16 << 20

// Stream supplies a stream as it comes. Bytes that may be asked for again are kept in temporary files until they are released.
type Stream struct {
	kept *spool.Spool
	sent chan struct{}

	mu       sync.Mutex
	version  uint64
	arrived  uint64
	unwanted uint64 // all before it was sent, and nobody will ask for it
	released uint64 // nothing before it is kept
	most     uint64
	carried  uint64
	inHand   []uint64 // offsets of what is being sent: its file stays open, even if another stripe has sent the same bytes and they were acknowledged
	held     bool     // nothing is handed out
	end      *link.End
	changed  chan struct{}
}

// NewStream returns a stream that begins at an offset, kept in a directory.
func NewStream(dir string, from uint64) *Stream {
	return &Stream{
		kept: spool.New(dir, streamSegment), sent: make(chan struct{}, 1),
		arrived: from, released: from, most: from, changed: make(chan struct{}),
	}
}

func (s *Stream) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Append takes the stream's next bytes. Only one goroutine may call it.
func (s *Stream) Append(p []byte) error {
	for len(p) > 0 {
		to, at, room, err := s.kept.Section(s.arrived)
		if err != nil {
			return err
		}
		part := p[:min(uint64(len(p)), room)]
		if _, err := to.WriteAt(part, int64(at)); err != nil {
			return fmt.Errorf("keep the stream: %w", err)
		}
		s.update(func() { s.arrived += uint64(len(part)) })
		p = p[len(part):]
	}
	return nil
}

// End says that nothing more will come.
func (s *Stream) End(end *link.End) { s.update(func() { s.end = end }) }

// Hold stops handing out bytes while held is set.
func (s *Stream) Hold(held bool) { s.update(func() { s.held = held }) }

// Arrived returns the offset up to which bytes have come.
func (s *Stream) Arrived() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived
}

// Kept returns how many bytes are kept.
func (s *Stream) Kept() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived - s.released
}

// Released returns the offset before which nothing is kept.
func (s *Stream) Released() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.released
}

// Release gives back what nobody will ask for any more, in whole segments, as far as it was sent. Bytes that are still
// being sent are given back when the last of them has been.
func (s *Stream) Release(upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwanted = max(s.unwanted, min(upTo, s.most))
	s.release()
}

// release gives back what nobody wants any more. It is called with s.mu held.
func (s *Stream) release() {
	if upTo := s.over(); upTo >= s.released+streamSegment {
		s.released = upTo - upTo%streamSegment
		_ = s.kept.Release(s.released) // files that cannot be closed are closed with the process
	}
}

// over returns the offset before which nothing is wanted any more, nor being sent. It is called with s.mu held.
func (s *Stream) over() uint64 {
	upTo := s.unwanted
	for _, offset := range s.inHand {
		upTo = min(upTo, offset)
	}
	return upTo
}

// ReleaseAll does what Release does and, if nobody will ask for any of the rest, gives back everything. It
// reports whether it gave anything back.
func (s *Stream) ReleaseAll(upTo uint64) bool {
	before := s.Kept()
	s.Release(upTo)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() == s.arrived {
		s.released = s.arrived
		_ = s.kept.Reset()
	}
	return s.arrived-s.released < before
}

// MoreSent tells whoever waits to give something back that something was sent: that may have been all that kept it.
func (s *Stream) MoreSent() <-chan struct{} { return s.sent }

// ReadAt reads kept bytes from an offset on into p, as far as they have come.
func (s *Stream) ReadAt(p []byte, offset uint64) (n int, err error) {
	s.mu.Lock()
	p = p[:min(uint64(len(p)), s.arrived-min(offset, s.arrived))]
	s.mu.Unlock()
	for n < len(p) && err == nil {
		file, at, there, failed := s.kept.At(offset + uint64(n))
		if failed != nil {
			return n, failed
		}
		var read int
		read, err = file.ReadAt(p[n:min(uint64(len(p)), uint64(n)+there)], int64(at))
		n += read
	}
	return n, err
}

// Close gives back everything.
func (s *Stream) Close() error { return s.kept.Close() }

// Begin says that another link begins, in a tree of a version.
func (s *Stream) Begin(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// Next implements link.Supply.
func (s *Stream) Next(offset, most uint64) (link.Portion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	portion := link.Portion{Changed: s.changed, TreeVersion: s.version}
	switch {
	case offset > s.arrived:
		return portion, &link.Bye{Reason: relay.Protocol, Text: "asked for what has not come"}
	case offset < s.released:
		return portion, &link.Bye{Reason: relay.NotKept, Text: "asked for what is not kept any more", Offset: s.released}
	case offset == s.arrived: // held or not: an end has no bytes
		portion.End = s.end
	case !s.held:
		file, at, there, err := s.kept.At(offset)
		portion.File, portion.At, portion.Length = file, at, min(most, s.arrived-offset, there)
		if err == nil && portion.Length > 0 {
			s.inHand = append(s.inHand, offset)
		}
		return portion, err
	}
	return portion, nil
}

// Sent implements link.Supply.
func (s *Stream) Sent(offset uint64, portion link.Portion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.carried = max(s.most, offset+portion.Length), s.carried+portion.Length
	at := slices.Index(s.inHand, offset)
	s.inHand = slices.Delete(s.inHand, at, at+1)
	s.release()
	select {
	case s.sent <- struct{}{}:
	default: // whoever waits was told already
	}
}

// SentUpTo returns the offset up to which anything was sent.
func (s *Stream) SentUpTo() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Acked has nothing to do: the sender releases what is acknowledged.
func (s *Stream) Acked(uint64, relay.Level) error { return nil }

// Carried returns how much was sent; what was sent again counts again.
func (s *Stream) Carried() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carried
}
