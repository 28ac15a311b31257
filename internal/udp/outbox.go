package udp

import (
	"cmp"
	"errors"
	"io"
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// Outbox sends many runs with one system call, and never waits for room. It belongs to one
// goroutine.
type Outbox struct {
	socket   *Socket
	messages []ipv4.Message // reused
	addrs    []net.UDPAddr
}

// NewOutbox returns an outbox of a socket.
func NewOutbox(socket *Socket) *Outbox { return &Outbox{socket: socket} }

// TrySend sends the first of some runs, at least one of them, or returns why it could not.
func (o *Outbox) TrySend(runs []Run) (sent int, err error) {
	if runs[0].Count() > 1 && !o.socket.segment.Load() {
		return o.apart(runs[0])
	}
	o.fill(runs)
	sent, err = o.socket.batch.WriteBatch(o.messages, unix.MSG_DONTWAIT)
	if sent > 0 {
		return sent, nil
	}
	// A datagram that is larger than the network carries is sent in fragments, but not as part of a run.
	if runs[0].Count() > 1 && (cannotCut(err) || errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.EINVAL)) {
		o.socket.segment.Store(false)
		return o.apart(runs[0])
	}
	return 0, cmp.Or(err, io.ErrShortWrite)
}

// apart sends the datagrams of a run one by one.
func (o *Outbox) apart(run Run) (sent int, err error) {
	if err := o.socket.sendEach(run, unix.MSG_DONTWAIT); err != nil {
		return 0, err
	}
	return 1, nil
}

// fill makes a message of each run.
func (o *Outbox) fill(runs []Run) {
	if more := len(runs) - len(o.addrs); more > 0 {
		o.addrs = append(o.addrs, make([]net.UDPAddr, more)...)
	}
	o.messages = o.messages[:0]
	for i, run := range runs {
		addr := run.To.Addr()
		o.addrs[i] = net.UDPAddr{IP: addr.AsSlice(), Port: int(run.To.Port()), Zone: addr.Zone()}
		message := ipv4.Message{Buffers: [][]byte{run.Bytes}, Addr: &o.addrs[i]}
		if run.Count() > 1 {
			message.OOB = cut(run.Segment)
		}
		o.messages = append(o.messages, message)
	}
}
