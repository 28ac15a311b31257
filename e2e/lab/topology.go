package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Node is what a link ends at: a *Host or a *LAN.
type Node interface {
	Name() string
	attach(*port)
}

// Host is a machine: a network namespace of its own. A router is a host that
// forwards.
type Host struct {
	lab      *Lab
	name     string
	forwards bool
	ports    []*port
	space    *space
	output   capture
	mounted  *Disk

	multicast *multicastRouter
}

// Name is the name it was declared with.
func (h *Host) Name() string { return h.name }

// Addr is its address on its first link, by which other hosts know it.
func (h *Host) Addr() netip.Addr {
	if len(h.ports) == 0 {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return h.ports[0].address.Addr()
}

// At is "address:port" of this host.
func (h *Host) At(port uint16) string { return netip.AddrPortFrom(h.Addr(), port).String() }

func (h *Host) attach(p *port) { h.ports = append(h.ports, p) }

// LAN is an Ethernet segment: a bridge on which broadcast and multicast reach every port.
type LAN struct {
	name  string
	ports []*port
	space *space
}

// Name is the name it was declared with.
func (l *LAN) Name() string { return l.name }

func (l *LAN) attach(p *port) { l.ports = append(l.ports, p) }

// Link joins two nodes. Its directions are shaped on their own.
type Link struct {
	ends     [2]*port
	initial  [2]link.Shape
	emulated bool
	packets  bool               // on a plain link: packets have its MTU at most
	byKernel bool               // rate and queue are kept by the kernel
	ways     [2]*link.Direction // from ends[0], from ends[1]; nil on a plain link
	tapped   [2]int             // descriptors of the TUN or TAP ends
}

// port is one end of a link.
type port struct {
	owner   Node
	link    *Link
	device  string       // name of the network interface
	address netip.Prefix // only of a host
	segment int
}

// Lab is one network on this machine. Declare it with Host, Router, LAN and
// Link, then Start it. Close removes it.
type Lab struct {
	seed  uint64
	nodes map[string]bool
	hosts []*Host
	lans  []*LAN
	links []*Link
	wrong []error

	running
}

// New declares an empty network. Everything random in it follows from seed.
func New(seed uint64) *Lab { return &Lab{seed: seed, nodes: map[string]bool{}} }

// Seed is what the network was made with.
func (l *Lab) Seed() uint64 { return l.seed }

// Host declares a machine.
func (l *Lab) Host(name string) *Host {
	l.declare(name)
	h := &Host{lab: l, name: name}
	l.hosts = append(l.hosts, h)
	return h
}

// Hosts declares machines called prefix1 to prefixN.
func (l *Lab) Hosts(prefix string, n int) []*Host {
	hosts := make([]*Host, n)
	for i := range hosts {
		hosts[i] = l.Host(fmt.Sprintf("%s%d", prefix, i+1))
	}
	return hosts
}

// Router declares a machine that forwards.
func (l *Lab) Router(name string) *Host {
	h := l.Host(name)
	h.forwards = true
	return h
}

// LAN declares an Ethernet segment.
func (l *Lab) LAN(name string) *LAN {
	l.declare(name)
	lan := &LAN{name: name}
	l.lans = append(l.lans, lan)
	return lan
}

// Link joins a and b by a link that has the shape in both directions. A zero shape, or one that
// gives only the MTU, is a plain virtual cable at the full speed of the kernel, which cannot be
// changed later; see Emulated.
func (l *Lab) Link(a, b Node, shape link.Shape) *Link {
	wire := &Link{initial: [2]link.Shape{shape, shape}, tapped: [2]int{-1, -1}}
	for side, node := range [2]Node{a, b} {
		wire.ends[side] = &port{owner: node, link: wire}
		node.attach(wire.ends[side])
	}
	l.links = append(l.links, wire)
	return wire
}

// Back gives the direction from the second node to the first a shape of its own.
func (w *Link) Back(shape link.Shape) *Link {
	w.initial[1] = shape
	return w
}

// Emulated makes the link an emulated one even if its shape is perfect, so that it can be changed and counted later.
func (w *Link) Emulated() *Link {
	w.emulated = true
	return w
}

// MTUSized makes a plain link carry packets of at most its MTU, each with its checksum, as an
// emulated link always does. Otherwise a plain link passes on what the sender's kernel would let a
// network card cut to size.
func (w *Link) MTUSized() *Link {
	w.packets = true
	return w
}

// Name tells the two ends.
func (w *Link) Name() string { return w.ends[0].owner.Name() + "–" + w.ends[1].owner.Name() }

func (w *Link) isEmulated() bool {
	plain := func(s link.Shape) bool {
		s.MTU = 0
		return s == link.Shape{}
	}
	return !w.byKernel && (w.emulated || !plain(w.initial[0]) || !plain(w.initial[1]))
}

func (w *Link) mtu() int {
	if mtu := max(w.initial[0].MTU, w.initial[1].MTU); mtu > 0 {
		return int(mtu)
	}
	return 1500
}

func (l *Lab) declare(name string) {
	if l.nodes[name] {
		l.wrong = append(l.wrong, fmt.Errorf("two nodes are called %s", name))
	}
	l.nodes[name] = true
}

// check reports everything that is wrong with the declaration at once.
func (l *Lab) check() error {
	wrong := l.wrong
	for _, wire := range l.links {
		for _, shape := range wire.initial {
			if err := shape.Validate(); err != nil {
				wrong = append(wrong, fmt.Errorf("link %s: %w", wire.Name(), err))
			}
		}
		if wire.byKernel {
			if err := wire.checkKernel(); err != nil {
				wrong = append(wrong, fmt.Errorf("link %s: %w", wire.Name(), err))
			}
		}
		if wire.ends[0].owner == wire.ends[1].owner {
			wrong = append(wrong, fmt.Errorf("link %s joins a node to itself", wire.Name()))
		}
	}
	return errors.Join(wrong...)
}
