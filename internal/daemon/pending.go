package daemon

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// pending is what one connection's calls have sent without having been answered, as far as the frames of HTTP/2 tell that pass. gRPC puts no bound to it:
// it reads whatever a request announces before anybody is asked whether the caller may, and it lets a connection send as much as its streams may together.
type pending struct {
	in, out frames
	last    uint32 // number of the last call that began
	calls   map[uint32]*call
	held    int64 // what all calls cost

	cost    int64 // of the frame of data that comes
	body    int   // what is left of it, without its padding
	padding bool  // its first byte, which says how much padding it has, is to come
}

// newPending returns the state of a connection on which nothing has passed.
func newPending() *pending {
	return &pending{in: frames{left: len(http2.ClientPreface)}, calls: make(map[uint32]*call)}
}

// callCost is what a call costs as long as its server has not said anything, without its bytes: mostly its goroutine.
const callCost = 4 << 10

// messageHead is how many bytes come before a message of gRPC.
const messageHead = 5

// call is a call that its server has not ended.
type call struct {
	head     [messageHead]byte // of the message that comes
	had      int               // of the head
	left     uint32            // of the message
	whole    bool              // a message has come, and the next one has not begun
	bytes    int64             // what the frames of this message cost; before the first answer, those of all messages, and the headers
	ended    bool              // by its caller
	answered bool              // the server has begun to answer
}

// cost is what the server holds for a call. A request is held until it is answered; and until the call ends if it was the only one. On a
// stream, a whole message is held no longer.
func (c *call) cost() int64 {
	switch {
	case !c.answered:
		return callCost + c.bytes
	case c.whole && !c.ended:
		return 0
	}
	return max(0, c.bytes-callCost) // thousands that watch something have asked for it in a few bytes
}

// received sees what the caller has sent.
func (p *pending) received(data []byte) {
	for len(data) > 0 {
		payload, rest, begun := p.in.next(data)
		data = rest
		c := p.calls[p.in.call]
		switch {
		case begun && p.in.kind == http2.FrameRSTStream:
			p.forget(p.in.call)
		case begun && p.in.kind == http2.FrameHeaders && p.in.call > p.last: // else it ends a call, or is an error for which gRPC ends the connection
			p.last = p.in.call
			c = &call{bytes: int64(p.in.left), ended: p.in.flags.Has(http2.FlagHeadersEndStream)}
			p.calls[p.in.call] = c
			p.held += c.cost()
		case c == nil: // gRPC drops it
		case begun:
			p.change(c, func() { p.begin(c) })
		case p.in.kind == http2.FrameData:
			p.change(c, func() { p.take(c, payload) })
		}
	}
}

// sent sees what the server has sent.
func (p *pending) sent(data []byte) {
	for len(data) > 0 {
		_, rest, begun := p.out.next(data)
		data = rest
		c := p.calls[p.out.call]
		if !begun || c == nil {
			continue
		}
		switch p.out.kind {
		case http2.FrameRSTStream:
			p.forget(p.out.call)
		case http2.FrameHeaders, http2.FrameData:
			p.change(c, func() { c.answered = true })
			if p.out.flags.Has(http2.FlagDataEndStream) { // which is that of headers, too
				p.forget(p.out.call)
			}
		}
	}
}

// change keeps the sum of all calls' costs when one changes.
func (p *pending) change(c *call, by func()) {
	p.held -= c.cost()
	by()
	p.held += c.cost()
}

func (p *pending) forget(number uint32) {
	if c := p.calls[number]; c != nil {
		p.held -= c.cost()
		delete(p.calls, number)
	}
}

// begin sees the head of a frame of a call that is there.
func (p *pending) begin(c *call) {
	switch p.in.kind {
	case http2.FrameContinuation: // of its headers
		c.bytes += int64(p.in.left)
	case http2.FrameHeaders:
		c.ended = c.ended || p.in.flags.Has(http2.FlagHeadersEndStream)
	case http2.FrameData:
		c.ended = c.ended || p.in.flags.Has(http2.FlagDataEndStream)
		if p.in.left > 0 {
			p.body, p.padding, p.cost = p.in.left, p.in.flags.Has(http2.FlagDataPadded), bufferOf(p.in.left)
			c.bytes += p.cost
		}
	}
}

// take sees bytes of a frame of data.
func (p *pending) take(c *call, payload []byte) {
	if p.padding {
		p.padding = false
		p.body -= 1 + int(payload[0])
		payload = payload[1:]
	}
	payload = payload[:max(0, min(len(payload), p.body))]
	p.body -= len(payload)
	for len(payload) > 0 {
		if c.whole { // another message begins; where it may not, gRPC holds both
			c.whole, c.had = false, 0
			if c.answered {
				c.bytes = p.cost
			}
		}
		var n int
		if c.had < messageHead {
			n = copy(c.head[c.had:], payload)
			if c.had += n; c.had == messageHead {
				c.left = binary.BigEndian.Uint32(c.head[1:])
			}
		} else {
			n = int(min(uint32(len(payload)), c.left))
			c.left -= uint32(n)
		}
		payload = payload[n:]
		c.whole = c.had == messageHead && c.left == 0
	}
}

// bufferOf is how much gRPC allocates for a frame with so many bytes. Small ones are allocated one by one, and in most of the others there is
// room for a part of a page, or for the largest frame.
func bufferOf(size int) int64 {
	const beside, small, page, largest = 64, 1 << 10, 4 << 10, 16 << 10
	switch {
	case size <= small:
		return beside + int64(size)
	case size <= page:
		return beside + page
	}
	return beside + max(largest, int64(size))
}

// frames finds the frames in what passes in one direction of a connection.
type frames struct {
	head [frameHead]byte
	had  int // of the next frame's head
	left int // of this frame, or of what comes before the first

	kind  http2.FrameType
	flags http2.Flags
	call  uint32
}

// frameHead is the size of a frame's head.
const frameHead = 9

// next takes what comes next: a part of the frame's payload, or of the next one's head. Begun says that this head is complete.
func (f *frames) next(data []byte) (payload, rest []byte, begun bool) {
	if f.left > 0 {
		n := min(f.left, len(data))
		f.left -= n
		return data[:n], data[n:], false
	}
	n := copy(f.head[f.had:], data)
	if f.had += n; f.had < frameHead {
		return nil, data[n:], false
	}
	f.had = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	f.kind, f.flags = http2.FrameType(f.head[3]), http2.Flags(f.head[4])
	f.call = binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)
	return nil, data[n:], true
}
