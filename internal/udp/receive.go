package udp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

const (
	mergedMessages = 8  // each of up to 64 KiB
	plainMessages  = 64 // each of one datagram
	controlBytes   = 64
)

// MaxDatagram is the largest datagram that is received whole.
const MaxDatagram = 9216

// Receive hands on what comes, and calls rested whenever no more has been read, until the
// socket is closed, which is nil, or its deadline passes, which is os.ErrDeadlineExceeded.
// What is handed on is the caller's until rested returns, and may be overwritten by it. It is for
// one goroutine.
func (s *Socket) Receive(take func(datagram []byte, from netip.AddrPort), rested func()) error {
	for {
		switch err := s.ReceiveOnce(take); {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case err == nil:
			rested()
		}
	}
}

// ReceiveOnce hands on what one system call brings. Errors other than those of a closed
// socket and of a deadline are about a datagram that was sent: nobody listens there, as a rule.
func (s *Socket) ReceiveOnce(take func(datagram []byte, from netip.AddrPort)) error {
	if s.reading == nil {
		s.reading = s.messages()
	}
	n, err := s.batch.ReadBatch(s.reading, 0)
	if err != nil {
		return err
	}
	for i := range s.reading[:n] {
		s.split(&s.reading[i], take)
	}
	return nil
}

func (s *Socket) messages() []ipv4.Message {
	count, size := plainMessages, MaxDatagram
	if s.merge {
		count, size = mergedMessages, 1<<16
	}
	messages := make([]ipv4.Message, count)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, size)}
		messages[i].OOB = make([]byte, controlBytes)
	}
	return messages
}

// Arrived is when what is handed on came to this machine, however long it waited for its
// reader, by the clock that nobody sets. It is of use while it is handed on.
func (s *Socket) Arrived() time.Time { return s.arrived }

// longWait is how long what came waits for its reader at most, as far as is believed: clocks
// are set, too.
const longWait = 10 * time.Second

// split hands on each datagram of those that the kernel merged. One that was cut off is lost.
func (s *Socket) split(message *ipv4.Message, take func([]byte, netip.AddrPort)) {
	from, is := message.Addr.(*net.UDPAddr)
	if !is || message.Flags&unix.MSG_TRUNC != 0 {
		return
	}
	whole := message.Buffers[0][:message.N]
	t := parse(message.OOB[:message.NN])
	s.arrived = arrival(t.at, time.Now())
	for len(whole) > 0 {
		n := len(whole)
		if t.segment > 0 {
			n = min(t.segment, n)
		}
		take(whole[:n:n], from.AddrPort())
		whole = whole[n:]
	}
}

// arrival is when something came that was stamped by the kernel, and is read now. The kernel stamps by the wall clock, which is set
// while a socket lives: the stamp says how long it waited, and no more. Compared with a later time, it could be hours
// away.
func arrival(stamp, now time.Time) time.Time {
	waited := now.Sub(stamp)
	if waited < 0 || waited > longWait {
		waited = 0
	}
	return now.Add(-waited)
}
