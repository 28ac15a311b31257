package udp

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Arrival returns when something came that has the kernel's stamp.
var Arrival = arrival

// WithoutOffloads makes a socket behave as on a kernel without offloads.
func (s *Socket) WithoutOffloads() {
	s.segment.Store(false)
	_ = s.Control(func(descriptor int) error {
		s.merge = unix.SetsockoptInt(descriptor, unix.IPPROTO_UDP, unix.UDP_GRO, 0) != nil
		return nil
	})
}

// Zone returns the name of the interface that an address is good on.
func Zone(index uint32) string { return newIncoming(1, 1).zone(index) }

// BriskReads is for how many reads there is no pause after one that brought much.
const BriskReads = briskReads

// Pauses reports whether there is one pause after some reads; those that may not have read everything are negative.
func Pauses(buffer int, apart time.Duration, reads []int) bool {
	p, now := pause{isWanted: true}, time.Now()
	for _, bytes := range reads {
		now = now.Add(apart)
		p.note(max(bytes, -bytes), buffer, bytes < 0, now)
	}
	return p.next() > 0 && p.next() == 0
}

// ReadAfter reads once, and does something when nothing was there, before it waits.
func (s *Socket) ReadAfter(do func()) error {
	s.reading = s.room()
	return s.waiting.read(s.descriptor, 0, func() error {
		_, err := s.reading.read(s.descriptor)
		if do != nil && errors.Is(err, unix.EAGAIN) {
			do()
			do = nil
		}
		return err
	})
}
