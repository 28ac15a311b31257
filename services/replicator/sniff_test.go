package replicator_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
)

// packet is a UDP datagram that was seen on a host's interface.
type packet struct {
	from, to netip.AddrPort
	payload  []byte
}

// sniff collects what comes to and leaves a host over its interface, until it is asked for it.
func (b *bench) sniff(host *lab.Host) (seen func() []packet) {
	b.t.Helper()
	device, err := host.Interface()
	if err != nil {
		b.t.Fatal(err)
	}
	var socket int
	err = host.Do(func() (err error) {
		const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, everything); err != nil {
			return err
		}
		return errors.Join(unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: device.Index}),
			unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	})
	if err != nil {
		b.t.Fatal(err)
	}
	file, done := os.NewFile(uintptr(socket), "packets"), make(chan []packet, 1)
	go func() {
		var all []packet
		for buffer := make([]byte, 1<<17); ; {
			n, err := file.Read(buffer)
			if err != nil {
				done <- all
				return
			}
			if one, ok := parsePacket(buffer[:n]); ok {
				all = append(all, one)
			}
		}
	}()
	return func() []packet {
		if err := file.SetReadDeadline(time.Now()); err != nil {
			b.t.Error(err)
		}
		all := <-done
		if err := file.Close(); err != nil {
			b.t.Error(err)
		}
		return all
	}
}

// parsePacket reads an IPv4 packet with UDP in it.
func parsePacket(whole []byte) (packet, bool) {
	const udp, udpHead = 17, 8
	if len(whole) < 20 || whole[0]>>4 != 4 || whole[9] != udp {
		return packet{}, false
	}
	from, to := netip.AddrFrom4([4]byte(whole[12:])), netip.AddrFrom4([4]byte(whole[16:]))
	rest := whole[int(whole[0]&15)*4:]
	if len(rest) < udpHead {
		return packet{}, false
	}
	return packet{
		from: netip.AddrPortFrom(from, binary.BigEndian.Uint16(rest)), to: netip.AddrPortFrom(to, binary.BigEndian.Uint16(rest[2:])),
		payload: append([]byte(nil), rest[udpHead:]...),
	}, true
}

// spoofer sends datagrams from a host in the name of any other.
type spoofer struct{ socket int }

func (b *bench) spoofer(host *lab.Host) *spoofer {
	b.t.Helper()
	s := &spoofer{}
	err := host.Do(func() (err error) {
		s.socket, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = unix.Close(s.socket) })
	return s
}

// send sends a datagram as if it came from another. UDP needs no checksum over IPv4, and the kernel
// makes that of IP.
func (s *spoofer) send(from, to netip.AddrPort, payload []byte) error {
	whole := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
	source, target := from.Addr().As4(), to.Addr().As4()
	whole = append(append(whole, source[:]...), target[:]...)
	whole = binary.BigEndian.AppendUint16(whole, from.Port())
	whole = binary.BigEndian.AppendUint16(whole, to.Port())
	whole = binary.BigEndian.AppendUint16(whole, uint16(8+len(payload)))
	whole = append(append(whole, 0, 0), payload...)
	binary.BigEndian.PutUint16(whole[2:], uint16(len(whole)))
	return unix.Sendto(s.socket, whole, 0, &unix.SockaddrInet4{Addr: target})
}
