package udp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// incoming is the room for what one system call brings.
type incoming struct {
	headers  []header
	messages []message
	filled   int               // how many of them the latest call has changed
	zones    map[uint32]string // names of interfaces, by index
}

// header is the kernel's struct mmsghdr.
type header struct {
	unix.Msghdr
	length uint32
}

// message is one datagram, or several that the kernel has merged.
type message struct {
	buffer  []byte
	control [controlBytes]byte
	from    unix.RawSockaddrInet6 // there is room for one of IPv4, too
	vector  unix.Iovec
}

func newIncoming(count, size int) *incoming {
	in := &incoming{headers: make([]header, count), messages: make([]message, count), filled: count, zones: make(map[uint32]string)}
	for i := range in.messages {
		m, h := &in.messages[i], &in.headers[i]
		m.buffer = make([]byte, size)
		m.vector.Base = &m.buffer[0]
		m.vector.SetLen(size)
		h.Name, h.Iov, h.Control = (*byte)(unsafe.Pointer(&m.from)), &m.vector, &m.control[0]
		h.SetIovlen(1)
	}
	return in
}

// read takes what is there, and waits for nothing. Go's scheduler is not told of the call, as it does not block: otherwise it wakes a thread to
// watch over each that follows a rest. Where datagrams come one at a time, that was a third of what it costs to take them.
func (in *incoming) read(descriptor int) (count int, err error) {
	for i := range in.headers[:in.filled] {
		h := &in.headers[i]
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(controlBytes)
	}
	n, _, failed := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(descriptor), uintptr(unsafe.Pointer(&in.headers[0])), uintptr(len(in.headers)), unix.MSG_DONTWAIT, 0, 0)
	if failed != 0 {
		in.filled = 0
		return 0, failed
	}
	in.filled = int(n)
	return in.filled, nil
}

// sender returns who sent a message.
func (in *incoming) sender(m *message) netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&m.from.Port))[:])
	if m.from.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&m.from)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(m.from.Addr).WithZone(in.zone(m.from.Scope_id)), port)
}

// zone returns the name of the interface that an address is good on, if not on all.
func (in *incoming) zone(index uint32) string {
	if index == 0 {
		return ""
	}
	name, known := in.zones[index]
	if !known {
		name = strconv.Itoa(int(index))
		if found, err := net.InterfaceByIndex(int(index)); err == nil {
			name = found.Name
		}
		in.zones[index] = name
	}
	return name
}
