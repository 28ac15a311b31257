package capture

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// LinkType says what a packet begins with, in tcpdump's numbers.
type LinkType uint32

// The link types that are understood.
const (
	Null     LinkType = 0   // a loopback of BSD
	Ethernet LinkType = 1   // with tags of VLANs or without
	Raw      LinkType = 101 // IP
	Cooked   LinkType = 113 // Linux, of any interface
	Cooked2  LinkType = 276
)

// Packet is one packet as it was captured.
type Packet struct {
	At    time.Time
	Link  LinkType
	Bytes []byte
}

// Datagram is one of UDP over IPv4.
type Datagram struct {
	At       time.Time
	From, To netip.AddrPort
	Payload  []byte
	IsCut    bool // the payload goes on: the capture has only the beginning of each packet
}

const (
	etherIPv4  = 0x0800
	etherVLAN  = 0x8100
	etherQinQ  = 0x88a8
	protoUDP   = 17
	familyINET = 2
)

// Datagram returns the datagram that the packet contains, if it contains one.
func (p Packet) Datagram() (d Datagram, is bool) {
	ip, is := network(p.Link, p.Bytes)
	if !is || len(ip) < 20 || ip[0]>>4 != 4 || ip[9] != protoUDP {
		return d, false
	}
	header, total := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
	isFragment := binary.BigEndian.Uint16(ip[6:])&0x3fff != 0
	if header < 20 || isFragment || len(ip) < header+8 || total < header+8 {
		return d, false
	}
	udp := ip[header:]
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if length < 8 || length > total-header {
		return d, false
	}
	return Datagram{
		At:      p.At,
		From:    netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[12:16])), binary.BigEndian.Uint16(udp[0:])),
		To:      netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:20])), binary.BigEndian.Uint16(udp[2:])),
		Payload: udp[8:min(length, len(udp))],
		IsCut:   length > len(udp),
	}, true
}

// network returns what follows the link's header, if that is IPv4.
func network(link LinkType, b []byte) (ip []byte, is bool) {
	switch link {
	case Raw:
		return b, true
	case Ethernet:
		return behindEthernet(b)
	case Cooked:
		return behind(b, 14, 16)
	case Cooked2:
		return behind(b, 0, 20)
	case Null:
		// The family's byte order is that of the machine that captured it.
		if len(b) < 4 || b[0] != familyINET && b[3] != familyINET {
			return nil, false
		}
		return b[4:], true
	}
	return nil, false
}

func behindEthernet(b []byte) ([]byte, bool) {
	at := 12
	for len(b) >= at+2 {
		switch binary.BigEndian.Uint16(b[at:]) {
		case etherVLAN, etherQinQ:
			at += 4
		default:
			return behind(b, at, at+2)
		}
	}
	return nil, false
}

// behind returns what follows a header with an EtherType, if that is IPv4.
func behind(b []byte, etherType, header int) ([]byte, bool) {
	if len(b) < header || binary.BigEndian.Uint16(b[etherType:]) != etherIPv4 {
		return nil, false
	}
	return b[header:], true
}
