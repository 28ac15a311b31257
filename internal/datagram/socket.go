package datagram

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

const (
	// batchSize is how many datagrams one system call moves at most.
	batchSize = 64
	// bufferBytes is what the kernel is asked to hold for a socket: at a gigabit per second,
	// what comes in 30 ms. It gives what net.core.rmem_max allows.
	bufferBytes = 4 << 20
	// sendTries is how often a full socket is tried, and sendPause how long it is waited for
	// in between: it is full when this machine's own interface is, and then for all children.
	sendTries = 5
	sendPause = time.Millisecond
)

// Socket sends and receives datagrams, many with one system call.
type Socket struct {
	conn    *net.UDPConn
	batch   *ipv4.PacketConn // it serves IPv6, too: the calls are the same
	reading []ipv4.Message
}

// Listen takes a UDP port.
func Listen(address string) (*Socket, error) {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, fmt.Errorf("take a port for datagrams: %w", err)
	}
	conn := packets.(*net.UDPConn)
	// A kernel that gives less loses more in bursts, and that is reported.
	_, _ = conn.SetReadBuffer(bufferBytes), conn.SetWriteBuffer(bufferBytes)
	s := &Socket{conn: conn, batch: ipv4.NewPacketConn(conn), reading: make([]ipv4.Message, batchSize)}
	for i := range s.reading {
		s.reading[i].Buffers = [][]byte{make([]byte, wire.MaxDatagram+1)} // one more, to see what is too long
	}
	return s, nil
}

// Addr returns the port.
func (s *Socket) Addr() net.Addr { return s.conn.LocalAddr() }

// Close gives the port back, and ends a Receive.
func (s *Socket) Close() error { return s.conn.Close() }

// Send sends one datagram.
func (s *Socket) Send(whole []byte, to netip.AddrPort) error {
	_, err := s.conn.WriteToUDPAddrPort(whole, to)
	return err
}

// Receive hands on what comes, and calls rested whenever no more is there, until the
// socket is closed, which is nil. What is handed on is reused. Other errors are about single
// datagrams: an answer to one that was sent that nobody listens, as a rule.
func (s *Socket) Receive(take func(whole []byte, from netip.AddrPort), rested func()) error {
	for {
		n, err := s.batch.ReadBatch(s.reading, 0)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue
		}
		for _, message := range s.reading[:n] {
			if from, is := message.Addr.(*net.UDPAddr); is {
				take(message.Buffers[0][:message.N], from.AddrPort())
			}
		}
		rested()
	}
}

// Batch collects sealed datagrams and sends them together. It belongs to one goroutine.
type Batch struct {
	socket   *Socket
	messages []ipv4.Message
	addrs    []net.UDPAddr
	outs     []*Out
	n        int
}

// NewBatch returns an empty batch.
func NewBatch(socket *Socket) *Batch {
	b := &Batch{socket: socket, messages: make([]ipv4.Message, batchSize), addrs: make([]net.UDPAddr, batchSize), outs: make([]*Out, batchSize)}
	for i := range b.messages {
		b.messages[i].Buffers = [][]byte{make([]byte, 0, wire.MaxDatagram)}
		b.messages[i].Addr = &b.addrs[i]
	}
	return b
}

// add seals a datagram of a link that is locked.
func (b *Batch) add(by *Out, to netip.AddrPort, h wire.Header, payload []byte) {
	message := &b.messages[b.n]
	message.Buffers[0] = by.box.Seal(message.Buffers[0][:0], h, payload)
	b.addrs[b.n] = net.UDPAddr{IP: to.Addr().AsSlice(), Port: int(to.Port()), Zone: to.Addr().Zone()}
	b.outs[b.n] = by
	b.n++
}

// IsFull reports whether it has to be flushed before more is added.
func (b *Batch) IsFull() bool { return b.n == len(b.messages) }

// Flush sends what was added. What finds no room is not sent, and counted by its link.
func (b *Batch) Flush() {
	if b.n == 0 {
		return
	}
	for done := 0; done < b.n; {
		sent, err := b.write(b.messages[done:b.n])
		if done += max(sent, 0); err != nil {
			b.outs[done].unsent(len(b.messages[done].Buffers[0]) - wire.Overhead)
			done++
		}
	}
	b.n = 0
}

// write sends some of what there is, or returns why not even the first was sent. A deadline
// would be that of all who send, and pass while this goroutine waits for a processor.
func (b *Batch) write(messages []ipv4.Message) (sent int, err error) {
	for try := range sendTries {
		if try > 0 {
			time.Sleep(sendPause)
		}
		sent, err = b.socket.batch.WriteBatch(messages, unix.MSG_DONTWAIT)
		if sent > 0 {
			return sent, nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return 0, cmp.Or(err, io.ErrShortWrite)
}
