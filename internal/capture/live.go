package capture

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Live takes packets from a network interface, without their link's header. The kernel hands
// over only what its filter accepts (004 §V: the Linux Packet Filter).
type Live struct {
	socket *os.File
	raw    interface {
		Read(func(descriptor uintptr) bool) error
	}
	buffer []byte
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
	return &Live{socket: socket, raw: raw, buffer: make([]byte, 1<<16)}, nil
}

func attach(fd, device int, port uint16) error {
	program, err := bpf.Assemble(filter(port))
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
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20) // as much as it gives
	everything := uint16(unix.ETH_P_ALL)
	return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything<<8 | everything>>8, Ifindex: device})
}

// filter accepts datagrams of UDP over IPv4 from or to a port.
func filter(port uint16) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtProto},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: etherIPv4, SkipTrue: 9},
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoUDP, SkipTrue: 7},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 5},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 0, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipTrue: 3},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: snapLength},
	}
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
