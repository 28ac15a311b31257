package paper

import (
	"errors"
	"fmt"
	"io"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
)

// source has the payloads of a transfer's packets, by number.
type source interface {
	// payload appends a packet's payload; one that is beyond the end has none.
	payload(b []byte, sn uint32) ([]byte, error)
	// sent is that the multicast phase is past these.
	sent(through uint32)
	// more is where it tells that there is more.
	more() <-chan algo.Event
	// note takes a piece of a stream, and tells how much there is with it.
	note(piece) algo.Ready
}

// file is a source of which every packet can be had at any time.
type file struct {
	from io.ReaderAt
	size int64
	each int

	events <-chan algo.Event
}

// ready tells at once how many packets the file has.
func (f file) ready() (<-chan algo.Event, error) {
	n := (f.size + int64(f.each) - 1) / int64(f.each)
	if n > algo.MostPackets {
		return nil, fmt.Errorf("%d bytes are %d packets of %d, and numbers are there for %d: take a larger payload", f.size, n, f.each, int64(algo.MostPackets))
	}
	events := make(chan algo.Event, 1)
	events <- algo.Ready{Packets: uint32(n), Ended: true}
	return events, nil
}

func (f file) payload(b []byte, sn uint32) ([]byte, error) {
	offset := int64(sn-algo.FirstSN) * int64(f.each)
	length := min(int64(f.each), f.size-offset)
	if length <= 0 {
		return b, nil
	}
	b = append(b, make([]byte, length)...)
	n, err := f.from.ReadAt(b[len(b)-int(length):], offset)
	if int64(n) == length {
		return b, nil
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the file has become shorter")
	}
	return b, fmt.Errorf("read packet %d: %w", sn, err)
}

func (f file) sent(uint32)             {}
func (f file) more() <-chan algo.Event { return f.events }
func (f file) note(p piece) algo.Ready { return p.Ready }

// ahead is how many packets of a stream are read before they can be sent.
const ahead = 2 * algo.DefaultMaxWindow

// piece is one of a stream, as the machine's loop is told of it.
type piece struct {
	algo.Ready
	bytes []byte
}

// stream is a source that is read as it comes, each piece a packet of its own.
type stream struct {
	pieces  chan algo.Event
	stopped chan struct{}
	broken  error // why there are no more pieces; set before they end

	held  [][]byte // not yet sent
	first uint32   // the number of the first held
}

func newStream() *stream {
	return &stream{pieces: make(chan algo.Event), stopped: make(chan struct{}), first: algo.FirstSN}
}

// read reads until the end or until it is stopped.
func (s *stream) read(from io.Reader, each int) {
	for {
		bytes := make([]byte, each)
		n, err := from.Read(bytes)
		if n > 0 && !s.tell(piece{bytes: bytes[:n]}) {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.broken = err
			}
			s.tell(piece{Ready: algo.Ready{Ended: true}})
			return
		}
	}
}

func (s *stream) tell(p piece) bool {
	select {
	case s.pieces <- p:
		return true
	case <-s.stopped:
		return false
	}
}

// more is where pieces come from, while there is room for them.
func (s *stream) more() <-chan algo.Event {
	if len(s.held) >= ahead {
		return nil
	}
	return s.pieces
}

func (s *stream) note(p piece) algo.Ready {
	if len(p.bytes) > 0 {
		s.held = append(s.held, p.bytes)
	}
	return algo.Ready{Packets: s.first + uint32(len(s.held)) - algo.FirstSN, Ended: p.Ended}
}

func (s *stream) payload(b []byte, sn uint32) ([]byte, error) {
	if at := sn - s.first; sn >= s.first && int(at) < len(s.held) {
		return append(b, s.held[at]...), nil
	}
	return b, nil
}

func (s *stream) sent(through uint32) {
	n := min(int(through-s.first)+1, len(s.held))
	s.held, s.first = s.held[n:], s.first+uint32(n)
}
