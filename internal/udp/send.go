package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
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
	_, err := s.conn.WriteToUDPAddrPort(datagram, to)
	return err
}

// SendRun sends all datagrams of a run, with one system call if the kernel cuts it. It waits for room in the socket.
func (s *Socket) SendRun(run Run) error {
	if len(run.Bytes) <= run.Segment {
		return s.Send(run.Bytes, run.To)
	}
	if s.segment.Load() && !run.Apart {
		err := s.sendCut(run)
		if !cannotCut(err) {
			return err
		}
		s.segment.Store(false) // the interface lacks an offload that the kernel needs for this
	}
	return s.sendEach(run, 0)
}

// cannotCut reports whether sending failed because the interface cannot cut runs.
func cannotCut(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOPROTOOPT)
}

func (s *Socket) sendCut(run Run) error {
	_, _, err := s.conn.WriteMsgUDPAddrPort(run.Bytes, cut(run.Segment), run.To)
	return err
}

// sendEach sends the datagrams of a run one by one.
func (s *Socket) sendEach(run Run, flags int) error {
	var messages []ipv4.Message
	to := net.UDPAddrFromAddrPort(run.To)
	for rest := run.Bytes; len(rest) > 0; {
		n := min(run.Segment, len(rest))
		messages = append(messages, ipv4.Message{Buffers: [][]byte{rest[:n:n]}, Addr: to})
		rest = rest[n:]
	}
	for len(messages) > 0 {
		sent, err := s.batch.WriteBatch(messages, flags)
		if err != nil {
			return err
		}
		if sent <= 0 {
			return fmt.Errorf("send %d datagrams to %v: none left", len(messages), run.To)
		}
		messages = messages[sent:]
	}
	return nil
}
