package capture

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Live takes packets from a network interface, without their link's header. The kernel hands
// over only what its filter accepts (004 §V: the Linux Packet Filter).
type Live struct {
	socket *os.File
	raw    syscall.RawConn
	buffer []byte
	ports  []uint16
}

// Listen begins to take the datagrams that come from or go to a UDP port, on one interface. It
// needs the capability NET_RAW.
func Listen(device string, port uint16) (*Live, error) {
	named, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", device, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("listen on %s: %w: packets of an interface need root or the capability NET_RAW", device, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", device, err)
	}
	// Nothing comes before the socket is bound, and then it has its filter.
	socket := os.NewFile(uintptr(fd), device)
	if err := attach(fd, named.Index, port); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", device, err), socket.Close())
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return &Live{socket: socket, raw: raw, buffer: make([]byte, 1<<16), ports: []uint16{port}}, nil
}

// MostPorts is from how many ports datagrams are taken, at most.
const MostPorts = 64

// Admit has it take the datagrams of another port as well, unless it has MostPorts.
func (l *Live) Admit(port uint16) error {
	if slices.Contains(l.ports, port) || len(l.ports) == MostPorts {
		return nil
	}
	l.ports = append(l.ports, port)
	var failed error
	err := l.raw.Control(func(descriptor uintptr) { failed = accept(int(descriptor), l.ports) })
	return errors.Join(err, failed)
}

// accept has a socket take the datagrams of some ports alone.
func accept(fd int, ports []uint16) error {
	program, err := bpf.Assemble(filter(ports))
	if err != nil {
		return err
	}
	instructions := make([]unix.SockFilter, len(program))
	for i, one := range program {
		instructions[i] = unix.SockFilter{Code: one.Op, Jt: one.Jt, Jf: one.Jf, K: one.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(instructions)), Filter: &instructions[0]}); err != nil {
		return fmt.Errorf("attach a filter: %w", err)
	}
	return nil
}

func attach(fd, device int, port uint16) error {
	if err := accept(fd, []uint16{port}); err != nil {
		return err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20) // as much as it gives
	everything := uint16(unix.ETH_P_ALL)
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything<<8 | everything>>8, Ifindex: device})
}

// filter accepts datagrams of UDP over IPv4 from or to one of some ports.
func filter(ports []uint16) (program []bpf.Instruction) {
	refuse := 7 + 2*(1+len(ports)) // where it ends so; the next accepts
	add := func(one bpf.Instruction) { program = append(program, one) }
	jump := func(on bpf.JumpTest, value uint32, to int) {
		add(bpf.JumpIf{Cond: on, Val: value, SkipTrue: uint8(to - len(program) - 1)})
	}
	add(bpf.LoadExtension{Num: bpf.ExtProto})
	jump(bpf.JumpNotEqual, etherIPv4, refuse)
	add(bpf.LoadAbsolute{Off: 9, Size: 1})
	jump(bpf.JumpNotEqual, protoUDP, refuse)
	add(bpf.LoadAbsolute{Off: 6, Size: 2})
	jump(bpf.JumpBitsSet, 0x1fff, refuse)
	add(bpf.LoadMemShift{Off: 0})
	for _, side := range []uint32{0, 2} { // the port that it comes from, and the one that it goes to
		add(bpf.LoadIndirect{Off: side, Size: 2})
		for _, port := range ports {
			jump(bpf.JumpEqual, uint32(port), refuse+1)
		}
	}
	add(bpf.RetConstant{Val: 0})
	add(bpf.RetConstant{Val: snapLength})
	return program
}

// Next waits for the next packet. After Close it returns os.ErrClosed.
func (l *Live) Next() (Packet, error) {
	var n int
	var failed error
	err := l.raw.Read(func(descriptor uintptr) bool {
		n, _, failed = unix.Recvfrom(int(descriptor), l.buffer, 0)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err != nil {
		return Packet{}, os.ErrClosed // the only way in which a socket without deadlines ends
	}
	if failed != nil {
		return Packet{}, fmt.Errorf("take a packet from %s: %w", l.socket.Name(), failed)
	}
	return Packet{At: time.Now(), Link: Raw, Bytes: append([]byte(nil), l.buffer[:n]...)}, nil
}

// Close ends it, and a Next that waits.
func (l *Live) Close() error { return l.socket.Close() }
