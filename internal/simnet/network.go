package simnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Default buffer sizes of a connection; Network.Buffers changes them.
const (
	DefaultSend   = 64 << 10 // bytes that Write takes before they are sent
	DefaultWindow = 64 << 10 // bytes that a peer takes before its program reads
)

// ConnectTimeout is how long Dial tries without an answer: as long as Linux.
const ConnectTimeout = 127 * time.Second

// Network is a set of hosts with a link between any two. Its methods, and those of everything that
// it hands out, may be called from any goroutine of one bubble.
type Network struct {
	mu     sync.Mutex // held for short work only, never while waiting; by exported functions, and so in all others
	random *rand.Rand
	agenda agenda
	log    record

	hosts map[string]*Host
	ways  map[pair]*way
	usual Shape // of links that have none of their own

	sendBuffer, window int

	dials []*dial         // made since the last settling
	dirty []*flow         // read, written or closed since the last settling
	open  map[*flow]*flow // all flows that either end remembers
	conns int             // connections ever made: the next one's number
}

type pair struct{ from, to string }

// New returns a network without hosts, whose links take no time. The seed decides what is left to chance.
func New(seed uint64) *Network {
	n := &Network{
		random: rand.New(rand.NewPCG(seed, 0x73696d6e6574)),
		hosts:  make(map[string]*Host), ways: make(map[pair]*way), open: make(map[*flow]*flow),
		sendBuffer: DefaultSend, window: DefaultWindow,
	}
	n.agenda.timer = time.AfterFunc(time.Hour, n.proceed)
	n.agenda.timer.Stop()
	n.log.start = time.Now()
	return n
}

// Host returns the host of that name, and creates it if there is none. A name must not contain a colon.
func (n *Network) Host(name string) *Host {
	if name == "" || strings.Contains(name, ":") {
		panic(fmt.Sprintf("simnet: %q is no host name", name))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.host(name)
}

func (n *Network) host(name string) *Host {
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, listeners: make(map[int]*listener), sockets: make(map[int]*PacketConn), dials: make(map[*dial]*dial), nextPort: 49152}
		n.hosts[name] = h
	}
	return h
}

// Buffers sets the sizes, in bytes, for connections made from now on.
func (n *Network) Buffers(send, window int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sendBuffer, n.window = max(1, send), max(1, window)
}

// way returns the way from one host to another.
func (n *Network) way(from, to *Host) *way {
	key := pair{from.name, to.name}
	w := n.ways[key]
	if w == nil {
		w = &way{net: n, from: from, to: to}
		if from != to {
			w.shape = n.usual
		}
		n.ways[key] = w
	}
	return w
}

// sortedWays returns all ways in an order that does not depend on chance.
func (n *Network) sortedWays() []*way {
	all := make([]*way, 0, len(n.ways))
	for _, w := range n.ways {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *way) int { return strings.Compare(a.name(), b.name()) })
	return all
}

func (n *Network) sortedHosts() []*Host {
	all := make([]*Host, 0, len(n.hosts))
	for _, h := range n.hosts {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *Host) int { return strings.Compare(a.name, b.name) })
	return all
}

// ends returns the concerned ends of connections, the oldest first.
func (n *Network) ends(concerned func(*end) bool) []*end {
	var found []*end
	for f := range n.open {
		if concerned(f.sender) {
			found = append(found, f.sender)
		}
	}
	slices.SortFunc(found, func(a, b *end) int { return a.out.number - b.out.number })
	return found
}
