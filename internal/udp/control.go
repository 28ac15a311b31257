package udp

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cut returns the control message that tells the kernel the size of the datagrams in a run.
func cut(segment int) []byte {
	control := make([]byte, unix.CmsgSpace(2))
	header := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(control)))
	header.Level, header.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(control[unix.CmsgLen(0):], uint16(segment))
	return control
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
