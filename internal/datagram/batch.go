package datagram

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

const (
	// batchSize is how many datagrams are collected at most before they are sent.
	batchSize = 256
	// bufferBytes is how much the kernel is asked to hold for a socket: at a gigabit per second,
	// what comes in 30 ms. If the kernel gives less, more is lost in bursts, and that is reported.
	bufferBytes = 4 << 20
	// sendTries is how often to try a full socket, and sendPause how long to wait between two
	// tries: a socket is full when this machine's own interface is, and then for all children.
	sendTries = 5
	sendPause = time.Millisecond
	// flushPatience is for how long a batch waits for room at most. A child behind a slow interface would hold up all others at each of its runs.
	flushPatience = 25 * time.Millisecond
)

// Listen takes a UDP port.
func Listen(address string) (*udp.Socket, error) {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, fmt.Errorf("take a port for datagrams: %w", err)
	}
	return udp.New(packets.(*net.UDPConn), bufferBytes)
}

// Batch collects sealed datagrams and sends them together; datagrams of one size to one child go as
// one run. A Batch belongs to one goroutine.
type Batch struct {
	socket *udp.Socket
	outbox *udp.Outbox
	runs   []udp.Run    // the collected runs; the memory after them is of earlier runs
	outs   []*Out       // the link of each run
	latest map[*Out]int // the last run of each link
	n      int          // datagrams
}

// NewBatch returns an empty batch.
func NewBatch(socket *udp.Socket) *Batch {
	return &Batch{socket: socket, outbox: udp.NewOutbox(socket), latest: make(map[*Out]int)}
}

// add seals a datagram of a link. It is called with by.mu held.
func (b *Batch) add(by *Out, to netip.AddrPort, h wire.Header, payload []byte) {
	at, begun := b.latest[by]
	size, together := wire.Overhead+len(payload), b.socket.Offload().Segment
	if !together || !begun || b.runs[at].To != to || !b.runs[at].Takes(size) {
		at = b.begin(by, to, size)
	}
	run := &b.runs[at]
	run.Bytes = by.box.Seal(run.Bytes, h, payload)
	b.n++
}

// begin begins a run, in the memory of an earlier run.
func (b *Batch) begin(by *Out, to netip.AddrPort, segment int) (at int) {
	at = len(b.runs)
	if at < cap(b.runs) {
		b.runs = b.runs[:at+1]
	} else {
		b.runs = append(b.runs, udp.Run{})
	}
	b.runs[at] = udp.Run{Bytes: b.runs[at].Bytes[:0], Segment: segment, To: to}
	b.outs = append(b.outs, by)
	b.latest[by] = at
	return at
}

// IsFull reports whether the batch has to be flushed before more is added.
func (b *Batch) IsFull() bool { return b.n == batchSize }

// Flush sends what was added. What finds no room is not sent; each link counts what became of its own.
func (b *Batch) Flush() {
	now := time.Now()
	for done := 0; done < len(b.runs); {
		sent, err := b.write(b.runs[done:], now.Add(flushPatience))
		for range sent {
			b.outs[done].left(b.runs[done], now)
			done++
		}
		if err != nil {
			b.outs[done].unsent(b.runs[done])
			done++
		}
	}
	b.runs, b.outs, b.n = b.runs[:0], b.outs[:0], 0
	clear(b.latest)
}

// write sends some of what there is, or returns why not even the first was sent. It sets no deadline: that
// would hold for everybody who sends, and could pass while this goroutine waits for a processor.
func (b *Batch) write(runs []udp.Run, until time.Time) (sent int, err error) {
	for try := 1; ; try++ {
		sent, err = b.outbox.TrySend(runs)
		if sent > 0 || !errors.Is(err, unix.EAGAIN) || try == sendTries || time.Now().After(until) {
			return sent, err
		}
		time.Sleep(sendPause)
	}
}
