package daemon

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"

	"golang.org/x/net/http2"

	"github.com/groupcast/groupcast/internal/identity"
)

// passing is a connection on which frames pass, in pieces of any size.
type passing struct {
	*testing.T
	*pending
	random   *rand.Rand
	from, to bytes.Buffer // the caller, and to it
	caller   *http2.Framer
	server   *http2.Framer
}

func newPassing(t *testing.T) *passing {
	p := &passing{T: t, pending: newPending(), random: rand.New(rand.NewPCG(1, 2))}
	p.caller, p.server = http2.NewFramer(&p.from, nil), http2.NewFramer(&p.to, nil)
	p.from.WriteString(http2.ClientPreface)
	p.did(p.caller.WriteSettings(), p.server.WriteSettings())
	return p
}

// did lets pass what was written.
func (p *passing) did(wrote ...error) {
	p.Helper()
	for _, err := range wrote {
		if err != nil {
			p.Fatal(err)
		}
	}
	for _, direction := range []struct {
		frames *bytes.Buffer
		pass   func([]byte)
	}{{&p.from, p.received}, {&p.to, p.sent}} {
		for direction.frames.Len() > 0 {
			direction.pass(direction.frames.Next(1 + p.random.IntN(40)))
		}
	}
}

func (p *passing) calls(call uint32, ended bool) {
	p.Helper()
	p.did(p.caller.WriteHeaders(http2.HeadersFrameParam{StreamID: call, BlockFragment: []byte("a path, and more"), EndHeaders: true, EndStream: ended}))
}

func (p *passing) answers(call uint32, ended bool) {
	p.Helper()
	p.did(p.server.WriteHeaders(http2.HeadersFrameParam{StreamID: call, BlockFragment: []byte("200"), EndHeaders: true, EndStream: ended}))
}

func (p *passing) sends(call uint32, ended bool, data []byte) {
	p.Helper()
	p.did(p.caller.WriteData(call, ended, data))
}

func (p *passing) wantHeld(least, most int64, when string) {
	p.Helper()
	if p.held < least || p.held > most {
		p.Errorf("%s: %d bytes are held, want %d to %d", when, p.held, least, most)
	}
}

// message returns a message of gRPC.
func message(size int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), make([]byte, size)...)
}

// A request is held from its first byte until the call is answered, whole or not, and whatever its caller says of its end.
func TestRequestIsHeldUntilItIsAnswered(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, ended := range []bool{false, true} {
			p := newPassing(t)
			p.wantHeld(0, 0, "at first")
			p.calls(1, false)
			p.wantHeld(callCost, callCost+100, "with its headers")
			request := message(100_000)
			if !whole {
				request = request[:90_000]
			}
			for len(request) > 0 {
				n := min(len(request), 16<<10)
				p.sends(1, ended && n == len(request), request[:n])
				request = request[n:]
			}
			p.wantHeld(callCost+90_000, callCost+120_000, "with its bytes")
			p.answers(1, true)
			p.wantHeld(0, 0, "when it is answered")
			if len(p.pending.calls) != 0 {
				t.Error("the call is remembered")
			}
		}
	}
}

// What gives a call up ends it: either side may.
func TestCallsThatAreGivenUp(t *testing.T) {
	p := newPassing(t)
	for call := uint32(1); call < 9; call += 2 {
		p.calls(call, false)
		p.sends(call, false, message(10))
	}
	p.did(p.caller.WriteRSTStream(1, http2.ErrCodeCancel), p.server.WriteRSTStream(3, http2.ErrCodeCancel))
	p.wantHeld(2*callCost, 2*callCost+500, "when two of four are given up")
	p.sends(1, false, message(1000)) // gRPC drops it
	p.calls(3, true)                 // gRPC ends the connection
	p.wantHeld(2*callCost, 2*callCost+500, "after more of these")
}

// On a stream each message is held until it is whole; a stream between messages costs nothing, however many there were.
func TestMessagesOfAStream(t *testing.T) {
	p := newPassing(t)
	p.calls(1, false)
	p.sends(1, false, message(300))
	p.answers(1, false)
	p.wantHeld(0, 0, "after the first")
	for range 100 {
		p.sends(1, false, append(message(20), message(0)...)) // two in one frame
		large := message(50_000)
		p.sends(1, false, large[:10_000])
		p.wantHeld(10_000, 20_000, "within a message")
		p.did(p.caller.WriteDataPadded(1, false, large[10_000:20_000], make([]byte, 200)))
		p.wantHeld(20_000, 40_000, "within a message")
		p.sends(1, false, append(large[20_000:], message(7)...))
		p.wantHeld(0, 0, "between messages")
	}
}

// Who watches something has sent one request, which the server may keep: it costs nothing if it is small.
func TestRequestsThatAreKept(t *testing.T) {
	p := newPassing(t)
	for i, size := range []int{100, 100_000} {
		call := uint32(2*i + 1)
		p.calls(call, false)
		p.sends(call, true, message(size))
		p.answers(call, false)
		p.did(p.server.WriteData(call, false, message(1000)))
	}
	p.wantHeld(90_000, 100_000, "with a large one")
	p.did(p.server.WriteData(3, true, nil))
	p.wantHeld(0, 0, "when that has ended")
}

// Bytes that come one in each frame cost what their frames do.
func TestSmallFrames(t *testing.T) {
	p := newPassing(t)
	p.calls(1, false)
	for _, b := range message(1000) {
		p.sends(1, false, []byte{b})
	}
	p.wantHeld(50_000, 100_000, "after 1005 frames")
}

// holder is a connection of a budget, on which requests are made.
type holder struct {
	*metered
	cutOff bool
	call   uint32
}

func hold(t *testing.T, b *budget) *holder {
	near, _ := net.Pipe()
	t.Cleanup(func() { near.Close() })
	h := new(holder)
	h.metered = &metered{Conn: near, budget: b, cut: func() { h.cutOff = true }, most: b.most, calls: 10, pending: newPending()}
	h.pending.in.left = 0
	return h
}

// asks sends a request of so many bytes.
func (h *holder) asks(bytes int) error {
	h.call += 2
	head := func(length int, kind http2.FrameType) []byte {
		return binary.BigEndian.AppendUint32([]byte{byte(length >> 16), byte(length >> 8), byte(length), byte(kind), 0}, h.call-1)
	}
	return h.count(func() {
		h.pending.received(head(0, http2.FrameHeaders))
		h.pending.received(append(head(bytes, http2.FrameData), make([]byte, bytes)...))
	})
}

// When all connections hold too much, the one that holds most is closed, and no other; what it held is free.
func TestBudgetClosesWhoHoldsMost(t *testing.T) {
	const most = 1 << 20
	b := newBudget(most, slog.New(slog.DiscardHandler))
	small, large, medium := hold(t, b), hold(t, b), hold(t, b)
	for _, ask := range []error{small.asks(10_000), large.asks(600_000), medium.asks(350_000)} {
		if ask != nil {
			t.Fatal(ask)
		}
	}
	if large.cutOff {
		t.Fatal("one is closed though all have room")
	}
	if err := small.asks(100_000); err != nil || !large.cutOff || small.cutOff || medium.cutOff {
		t.Errorf("%v; closed: %t %t %t, want the one that holds most", err, small.cutOff, large.cutOff, medium.cutOff)
	}
	if err := large.asks(200_000); err != nil { // of bytes that were there
		t.Error(err)
	}
	if err := small.asks(400_000); err != nil || small.cutOff || medium.cutOff {
		t.Errorf("%v; closed: %t %t, want none: there is room for what the one that was closed held", err, small.cutOff, medium.cutOff)
	}
	for _, h := range []*holder{small, large, medium} {
		h.Close()
	}
	if b.all != 0 || len(b.held) != 0 {
		t.Errorf("%d bytes of %d connections are counted when all are closed", b.all, len(b.held))
	}
}

// Connections that many share are not closed as long as there are others: a gateway's goes last, and another manager's never.
func TestBudgetSparesWhomManyCallThrough(t *testing.T) {
	const most = 1 << 20
	b := newBudget(most, slog.New(slog.DiscardHandler))
	manager, gateway, small, medium := hold(t, b), hold(t, b), hold(t, b), hold(t, b)
	manager.role, gateway.role, small.role, medium.role = identity.Manager, identity.Gateway, identity.Member, identity.Agent
	manager.most *= 2
	for _, step := range []struct {
		asks                   *holder
		bytes                  int
		gateway, small, medium bool // what is closed then
	}{
		{asks: manager, bytes: 500_000},
		{asks: gateway, bytes: 400_000},
		{asks: small, bytes: 10_000},
		{asks: medium, bytes: 50_000},
		{asks: gateway, bytes: 100_000, medium: true},
		{asks: gateway, bytes: 20_000, medium: true, small: true},
		{asks: manager, bytes: 100_000, medium: true, small: true, gateway: true},
		{asks: manager, bytes: 500_000, medium: true, small: true, gateway: true},
		{asks: hold(t, b), bytes: 100_000, medium: true, small: true, gateway: true},
	} {
		if err := step.asks.asks(step.bytes); err != nil {
			t.Error(err)
		}
		if manager.cutOff || gateway.cutOff != step.gateway || small.cutOff != step.small || medium.cutOff != step.medium {
			t.Fatalf("%d bytes more: closed are manager %t, gateway %t, small %t, medium %t; want %+v", step.bytes, manager.cutOff, gateway.cutOff, small.cutOff, medium.cutOff, step)
		}
	}
}

// A connection has a bound of its own, for its bytes and for its calls.
func TestBoundsOfAConnection(t *testing.T) {
	b := newBudget(10<<20, slog.New(slog.DiscardHandler))
	h := hold(t, b)
	h.most = 64 << 10
	if err := h.asks(40_000); err != nil {
		t.Error(err)
	}
	if err := h.asks(40_000); err == nil {
		t.Error("more bytes than it may hold are taken")
	}
	h = hold(t, b)
	var err error
	calls := 0
	for err == nil && calls < 100 {
		err = h.asks(1)
		calls++
	}
	if calls != 11 {
		t.Errorf("call %d is refused (%v), want the 11th", calls, err)
	}
}
