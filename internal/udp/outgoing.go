package udp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outgoing is the room for what one system call sends.
type outgoing struct {
	headers  []header
	messages []envelope
	zone     zone // the last one that was looked up
}

// zone is the interface on which an address is good.
type zone struct {
	name  string
	index uint32
	at    time.Time
}

// zoneAge is for how long an interface is believed to have its number.
const zoneAge = time.Minute

// envelope is what the kernel is told about one message.
type envelope struct {
	to      unix.RawSockaddrInet6 // there is room for one of IPv4, too
	vector  unix.Iovec
	control cutMessage
}

// reset forgets what was added, and makes room for so many messages: the headers point to what must not move.
func (out *outgoing) reset(count int) {
	out.headers, out.messages = out.headers[:0], out.messages[:0]
	if count = max(count, 1); cap(out.messages) < count {
		out.headers, out.messages = make([]header, 0, count), make([]envelope, 0, count)
	}
}

// patience is what is done when the socket is full.
type patience int

const (
	gives patience = iota // up
	waits                 // for room
)

// addApart adds a message for each datagram of a run.
func (out *outgoing) addApart(run Run, isIPv4 bool) error {
	for rest := run.Bytes; len(rest) > 0; {
		n := min(run.Segment, len(rest))
		if err := out.add(Run{Bytes: rest[:n], Segment: n, To: run.To}, isIPv4); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// add adds a run as one message, which the kernel cuts if there are several datagrams in it.
func (out *outgoing) add(run Run, isIPv4 bool) error {
	scope, err := out.scope(run.To.Addr().Zone())
	if err != nil {
		return err
	}
	to := envelope{}
	length, err := to.address(run.To, isIPv4, scope)
	if err != nil {
		return err
	}
	out.messages, out.headers = append(out.messages, to), append(out.headers, header{})
	m, h := &out.messages[len(out.messages)-1], &out.headers[len(out.headers)-1]
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(&m.to)), length
	m.vector.Base = unsafe.SliceData(run.Bytes)
	m.vector.SetLen(len(run.Bytes))
	h.Iov = &m.vector
	h.SetIovlen(1)
	if run.Count() > 1 {
		m.control.set(run.Segment)
		h.Control = (*byte)(unsafe.Pointer(&m.control))
		h.SetControllen(unix.CmsgSpace(2))
	}
	return nil
}

// address notes where a message goes, as a socket of IPv4 or one of IPv6 wants it.
func (m *envelope) address(to netip.AddrPort, isIPv4 bool, scope uint32) (length uint32, err error) {
	if isIPv4 {
		if to.Addr().Unmap().Is6() {
			return 0, &net.AddrError{Err: "not an IPv4 address", Addr: to.String()}
		}
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(&m.to))
		four.Family, four.Addr = unix.AF_INET, to.Addr().Unmap().As4()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&four.Port))[:], to.Port())
		return unix.SizeofSockaddrInet4, nil
	}
	m.to.Family, m.to.Addr = unix.AF_INET6, to.Addr().As16()
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&m.to.Port))[:], to.Port())
	m.to.Scope_id = scope
	return unix.SizeofSockaddrInet6, nil
}

// scope returns the number of the interface on which an address is good, or zero for all.
func (out *outgoing) scope(name string) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	if number, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(number), nil
	}
	if now := time.Now(); out.zone.name != name || now.Sub(out.zone.at) > zoneAge {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return 0, err
		}
		out.zone = zone{name, uint32(device.Index), now}
	}
	return out.zone.index, nil
}

// send sends the first of the messages, from one on, and returns how many. Unless it waits for room, it does not block, and Go's
// scheduler is not told of it: see incoming.
func (out *outgoing) send(descriptor, from int, waits bool) (sent int, err error) {
	count, n, failed := uintptr(len(out.headers)-from), uintptr(0), unix.EINTR
	for failed == unix.EINTR {
		if waits {
			n, _, failed = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(descriptor), uintptr(unsafe.Pointer(&out.headers[from])), count, 0, 0, 0)
		} else {
			n, _, failed = unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(descriptor), uintptr(unsafe.Pointer(&out.headers[from])), count, unix.MSG_DONTWAIT, 0, 0)
		}
	}
	if failed != 0 {
		return 0, failed
	}
	return int(n), nil
}
