package udp

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"
)

// cutMessage is the control message that tells the kernel the size of the datagrams in a run.
type cutMessage struct {
	header  unix.Cmsghdr
	segment uint16
	_       [6]byte // as the kernel aligns it
}

func (m *cutMessage) set(segment int) {
	m.header.Level, m.header.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	m.header.SetLen(unix.CmsgLen(2))
	m.segment = uint16(segment)
}

// told is what the kernel says about what came.
type told struct {
	segment int       // the size of the datagrams that came as one; zero if there is only one
	at      time.Time // when it came; zero if the kernel does not say
}

func parse(control []byte) (t told) {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return t
		}
		switch {
		case header.Level == unix.IPPROTO_UDP && header.Type == unix.UDP_GRO && len(data) >= 2:
			t.segment = int(binary.NativeEndian.Uint16(data))
		case header.Level == unix.SOL_SOCKET && header.Type == unix.SO_TIMESTAMPNS && len(data) >= 16:
			t.at = time.Unix(int64(binary.NativeEndian.Uint64(data)), int64(binary.NativeEndian.Uint64(data[8:])))
		}
		control = rest
	}
	return t
}
