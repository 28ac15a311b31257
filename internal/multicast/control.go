package multicast

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// appendSegment fills a control message that says how large the datagrams of a run are.
func appendSegment(control []byte, segment int) {
	header := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(control)))
	header.Level, header.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(control[unix.CmsgLen(0):], uint16(segment))
}

// segmentOf returns how large the datagrams are that came as one; without a word of the
// kernel's, there is one.
func segmentOf(control []byte, whole int) int {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return whole
		}
		if header.Level == unix.IPPROTO_UDP && header.Type == unix.UDP_GRO && len(data) >= 2 {
			if size := int(binary.NativeEndian.Uint16(data)); size > 0 {
				return size
			}
		}
		control = rest
	}
	return whole
}
