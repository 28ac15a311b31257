package udp

import "golang.org/x/sys/unix"

// Arrival is when something came that has a stamp.
var Arrival = arrival

// WithoutOffloads has a socket be as on a kernel that has none.
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
