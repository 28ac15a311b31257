package udp

import (
	"errors"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// mostSegments is into how many datagrams every kernel with UDP_SEGMENT can cut a run.
	mostSegments = 64
	// mostBytes is the largest payload of a UDP datagram, whether it is cut later or not.
	mostBytes = 65507
)

// Run is a number of datagrams of one size to one place, one after the other in memory. The last may be shorter.
type Run struct {
	Bytes   []byte
	Segment int // the size of each datagram
	To      netip.AddrPort
	// Apart makes each datagram be sent by itself, even if the kernel could cut the run later.
	// Linux as a multicast router loses runs that are not cut yet, which is how they arrive over
	// virtual cables.
	Apart bool
}

// Longest returns how many datagrams of a size a Run may have.
func Longest(segment int) int { return min(mostSegments, mostBytes/segment) }

// Takes reports whether a datagram of a size may be appended.
func (r Run) Takes(size int) bool {
	count := len(r.Bytes) / r.Segment
	return size <= r.Segment && len(r.Bytes) == count*r.Segment && count < Longest(r.Segment)
}

// Count returns how many datagrams the run has.
func (r Run) Count() int { return (len(r.Bytes) + r.Segment - 1) / r.Segment }

// Send sends one datagram.
func (s *Socket) Send(datagram []byte, to netip.AddrPort) error {
	return s.send(Run{Bytes: datagram, Segment: max(len(datagram), 1), To: to}, waits)
}

// SendRun sends all datagrams of a run, with one system call if the kernel cuts it. It waits for room in the socket.
func (s *Socket) SendRun(run Run) error {
	if len(run.Bytes) <= run.Segment {
		return s.Send(run.Bytes, run.To)
	}
	if s.segment.Load() && !run.Apart {
		err := s.send(run, waits)
		if !cannotCut(err) {
			return err
		}
		s.segment.Store(false) // the interface lacks an offload that the kernel needs for this
	}
	run.Apart = true
	return s.send(run, waits)
}

// cannotCut reports whether sending failed because the interface cannot cut runs.
func cannotCut(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOPROTOOPT)
}

// rooms are reused by everybody who sends.
var rooms = sync.Pool{New: func() any { return new(outgoing) }}

// send sends a run.
func (s *Socket) send(run Run, patience patience) error {
	out := rooms.Get().(*outgoing)
	defer rooms.Put(out)
	out.reset(run.Count())
	add := out.add
	if run.Apart {
		add = out.addApart
	}
	if err := add(run, s.isIPv4); err != nil {
		return s.unsent(run, err)
	}
	for from := 0; from < len(out.headers); {
		sent, err := s.dispatch(out, from, patience)
		if err != nil {
			return s.unsent(run, err)
		}
		from += sent
	}
	return nil
}

// dispatch sends the first of some messages, at least one of them, or returns why it could not.
func (s *Socket) dispatch(out *outgoing, from int, patience patience) (sent int, err error) {
	for wait := false; ; wait = true {
		err = s.Control(func(descriptor int) (err error) {
			sent, err = out.send(descriptor, from, wait)
			return err
		})
		if patience != waits || !errors.Is(err, unix.EAGAIN) {
			return sent, err
		}
	}
}

// unsent says what could not be sent where.
func (s *Socket) unsent(run Run, err error) error {
	return &net.OpError{Op: "write", Net: "udp", Source: net.UDPAddrFromAddrPort(s.address), Addr: net.UDPAddrFromAddrPort(run.To), Err: err}
}
