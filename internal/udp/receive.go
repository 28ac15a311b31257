package udp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	mergedMessages = 8  // each of up to 64 KiB
	plainMessages  = 64 // each of one datagram
	controlBytes   = 64
)

// MaxDatagram is the size of the largest datagram that is received whole.
const MaxDatagram = 9216

// Receive hands on what comes, and calls rested whenever it has read everything that was there. It
// returns nil when the socket is closed, and os.ErrDeadlineExceeded when its deadline passes. The
// datagrams handed on may be used, and overwritten, until rested returns. Only one goroutine may
// call Receive.
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

// ReceiveOnce hands on what one system call brings. An error that is neither that of a closed
// socket nor that of a deadline is about a datagram that was sent earlier: mostly nobody listens
// there.
func (s *Socket) ReceiveOnce(take func(datagram []byte, from netip.AddrPort)) error {
	if s.reading == nil {
		s.reading = s.room()
	}
	count := 0
	err := s.waiting.read(s.descriptor, s.pause.next(), func() (err error) {
		count, err = s.reading.read(s.descriptor)
		return err
	})
	if err != nil {
		return s.orClosed(err)
	}
	bytes := 0
	for i := range count {
		bytes += s.split(i, take)
	}
	s.pause.note(bytes, s.buffer, count == len(s.reading.headers), s.arrived)
	return nil
}

func (s *Socket) room() *incoming {
	if s.merge {
		return newIncoming(mergedMessages, 1<<16)
	}
	return newIncoming(plainMessages, MaxDatagram)
}

// Arrived returns when the datagram that is being handed on came to this machine, by the monotonic
// clock, however long it waited for its reader. It is only valid while the datagram is handed on.
func (s *Socket) Arrived() time.Time { return s.arrived }

// longWait is the longest time for which a datagram is believed to have waited: the wall clock may be set.
const longWait = 10 * time.Second

// split hands on each of the datagrams that the kernel has merged, and returns how many bytes they have. A datagram that was cut off is lost.
func (s *Socket) split(i int, take func([]byte, netip.AddrPort)) (bytes int) {
	m, h := &s.reading.messages[i], &s.reading.headers[i]
	bytes = int(h.length)
	if h.Flags&unix.MSG_TRUNC != 0 {
		return bytes
	}
	from, whole := s.reading.sender(m), m.buffer[:h.length]
	t := parse(m.control[:h.Controllen])
	s.arrived = arrival(t.at, time.Now())
	for len(whole) > 0 {
		n := len(whole)
		if t.segment > 0 {
			n = min(t.segment, n)
		}
		take(whole[:n:n], from)
		whole = whole[n:]
	}
	return bytes
}

// arrival returns when something came that the kernel has stamped, and that is read now. The kernel stamps by the wall clock, which may
// be set while a socket lives. So the stamp only tells how long the datagram waited: compared with a later time, it could seem hours
// old.
func arrival(stamp, now time.Time) time.Time {
	waited := now.Sub(stamp)
	if waited < 0 || waited > longWait {
		waited = 0
	}
	return now.Add(-waited)
}
