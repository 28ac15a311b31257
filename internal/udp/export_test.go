package udp

import "golang.org/x/sys/unix"

// Arrival returns when something came that has the kernel's stamp.
var Arrival = arrival

// WithoutOffloads makes a socket behave as on a kernel without offloads.
func (s *Socket) WithoutOffloads() {
	s.segment.Store(false)
	raw, err := s.conn.SyscallConn()
	if err != nil {
		panic(err)
	}
	_ = raw.Control(func(descriptor uintptr) {
		s.merge = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_UDP, unix.UDP_GRO, 0) != nil
	})
}

// Zone returns the name of the interface that an address is good on.
func Zone(index uint32) string { return newIncoming(1, 1).zone(index) }
