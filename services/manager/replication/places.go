package replication

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Places is where replications can meet: multicast groups and ports.
type Places struct {
	Groups          netip.Prefix
	FirstPort, Last uint16
}

// ParsePlaces reads groups as a network of multicast addresses, and ports as FIRST-LAST or one.
func ParsePlaces(groups, ports string) (Places, error) {
	network, err := netip.ParsePrefix(groups)
	if err != nil || !network.Addr().Is4() || !network.Addr().IsMulticast() || network.Bits() < 4 {
		return Places{}, fmt.Errorf("groups is %q: want a network of IPv4 multicast addresses, as in 239.195.0.0/16", groups)
	}
	p := Places{Groups: network.Masked()}
	first, last, isRange := strings.Cut(ports, "-")
	if !isRange {
		last = first
	}
	p.FirstPort, p.Last = portOf(first), portOf(last)
	if p.FirstPort == 0 || p.Last < p.FirstPort {
		return Places{}, fmt.Errorf("ports is %q: want one or a range, as in 7431 or 7431-7440", ports)
	}
	return p, nil
}

// portOf reads a port; 0 if the text is none.
func portOf(text string) uint16 {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(port)
}

// draws is how often a place is drawn that may be taken.
const draws = 100

// draw returns a place that nobody has yet.
func (p Places) draw(taken map[string]bool) (string, error) {
	first := p.Groups.Addr().As4()
	hosts := uint64(1) << (32 - p.Groups.Bits())
	for range draws {
		address := binary.BigEndian.Uint32(first[:]) + uint32(random()%hosts)
		port := p.FirstPort + uint16(random()%(uint64(p.Last-p.FirstPort)+1))
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, address))), port).String()
		if !taken[at] {
			taken[at] = true
			return at, nil
		}
	}
	return "", fmt.Errorf("multicast groups: %w (configure more of them)", ErrTooMany)
}

func random() uint64 {
	var bits [8]byte
	_, _ = rand.Read(bits[:]) // it never fails
	return binary.BigEndian.Uint64(bits[:])
}
