package lab

import (
	"fmt"
	"net/netip"
	"strings"
)

const (
	segmentBits    = 24
	hostsInSegment = 254
	segments       = 1 << 16
)

// route sends what is for a segment to the next router.
type route struct {
	to  netip.Prefix
	via netip.Addr
	out *port
}

// plan is addresses and routes, worked out from who is linked to whom. A
// segment is what shares a subnet: a link between two hosts, or LANs that are
// linked to each other.
type plan struct {
	segments [][]*port // the ports of hosts in each segment
	routes   map[*Host][]route
}

func (l *Lab) plan() (*plan, error) {
	p := &plan{routes: map[*Host][]route{}}
	l.nameDevices()
	p.gather(l)
	if err := p.address(); err != nil {
		return nil, err
	}
	for _, h := range l.hosts {
		p.routes[h] = p.routesOf(h)
	}
	return p, nil
}

func (l *Lab) nameDevices() {
	for _, h := range l.hosts {
		for i, end := range h.ports {
			end.device = fmt.Sprintf("eth%d", i)
		}
	}
	for _, lan := range l.lans {
		for i, end := range lan.ports {
			end.device = fmt.Sprintf("port%d", i)
		}
	}
}

// gather sorts the hosts' ports into segments, in the order of declaration.
func (p *plan) gather(l *Lab) {
	seen := map[*LAN]int{}
	for _, wire := range l.links {
		var joined *LAN
		for _, end := range wire.ends {
			if lan, ok := end.owner.(*LAN); ok {
				joined = lan
			}
		}
		number := len(p.segments)
		if joined == nil {
			p.segments = append(p.segments, nil)
		} else if known, ok := seen[joined]; ok {
			number = known
		} else {
			p.segments = append(p.segments, nil)
			flood(joined, number, seen)
		}
		for _, end := range wire.ends {
			end.segment = number
			if _, ok := end.owner.(*Host); ok {
				p.segments[number] = append(p.segments[number], end)
			}
		}
	}
}

// flood marks all LANs that are linked to lan.
func flood(lan *LAN, number int, seen map[*LAN]int) {
	if _, ok := seen[lan]; ok {
		return
	}
	seen[lan] = number
	for _, end := range lan.ports {
		for _, other := range end.link.ends {
			if next, ok := other.owner.(*LAN); ok {
				flood(next, number, seen)
			}
		}
	}
}

func (p *plan) address() error {
	if len(p.segments) > segments {
		return fmt.Errorf("%d segments, and addresses for %d", len(p.segments), segments)
	}
	for number, ends := range p.segments {
		if len(ends) > hostsInSegment {
			return fmt.Errorf("%d hosts on one LAN, and addresses for %d", len(ends), hostsInSegment)
		}
		for i, end := range ends {
			address := netip.AddrFrom4([4]byte{10, byte(number >> 8), byte(number), byte(i + 1)})
			end.address = netip.PrefixFrom(address, segmentBits)
		}
	}
	return nil
}

// routesOf searches outward from h, breadth first: the route with the fewest routers wins, and of
// equal ones the one declared first.
func (p *plan) routesOf(h *Host) []route {
	var routes []route
	reached := map[int]*route{} // how h gets to a segment; nil means directly
	var order []int             // segments whose neighbours are still to be asked
	var met []*port
	for _, end := range h.ports {
		if _, ok := reached[end.segment]; !ok {
			reached[end.segment] = nil
			order = append(order, end.segment)
		}
	}
	for len(order) > 0 {
		from := order[0]
		order = order[1:]
		for _, entry := range p.segments[from] {
			met = append(met, entry)
			for _, segment := range beyond(entry, h) {
				if _, ok := reached[segment]; ok {
					continue
				}
				next := p.firstHop(h, entry, reached[from])
				next.to = p.segments[segment][0].address.Masked()
				routes = append(routes, next)
				reached[segment] = &next
				order = append(order, segment)
			}
		}
	}
	return append(routes, p.backDoors(h, met, reached)...)
}

// backDoors returns routes to the other addresses of hosts that have several links and do not
// forward: such a host can be called by any of its addresses.
func (p *plan) backDoors(h *Host, met []*port, reached map[int]*route) []route {
	var routes []route
	done := map[netip.Addr]bool{}
	for _, entry := range met {
		host, ok := entry.owner.(*Host)
		if !ok || host.forwards || host == h {
			continue
		}
		for _, end := range host.ports {
			if _, ok := reached[end.segment]; ok || done[end.address.Addr()] {
				continue
			}
			next := p.firstHop(h, entry, reached[entry.segment])
			next.to = netip.PrefixFrom(end.address.Addr(), end.address.Addr().BitLen())
			routes = append(routes, next)
			done[end.address.Addr()] = true
		}
	}
	return routes
}

// beyond returns the segments to which the owner of entry forwards.
func beyond(entry *port, self *Host) []int {
	router, ok := entry.owner.(*Host)
	if !ok || !router.forwards || router == self {
		return nil
	}
	var numbers []int
	for _, end := range router.ports {
		numbers = append(numbers, end.segment)
	}
	return numbers
}

// firstHop returns the route to the segment before or, if that is h's own, the route through entry.
func (p *plan) firstHop(h *Host, entry *port, before *route) route {
	if before != nil {
		return *before
	}
	for _, end := range h.ports {
		if end.segment == entry.segment {
			return route{via: entry.address.Addr(), out: end}
		}
	}
	panic("lab: a neighbour shares no segment")
}

// String draws addresses and routes, one host a paragraph.
func (l *Lab) String() string {
	p, err := l.plan()
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, h := range l.hosts {
		fmt.Fprintf(&text, "%s\n", h.name)
		for _, end := range h.ports {
			fmt.Fprintf(&text, "  %s %s\n", end.device, end.address)
		}
		for _, r := range p.routes[h] {
			fmt.Fprintf(&text, "  to %s via %s on %s\n", r.to, r.via, r.out.device)
		}
	}
	return text.String()
}
