package link

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// openingMost and openingEach are how many links are opened at once, in all and from one address: a peer
	// that opens a link has not proved anything yet.
	openingMost = 256
	openingEach = 64
	// networkBits is how much of an IPv6 address tells one network from another. Whoever has one machine there mostly has all its addresses.
	networkBits = 64
	// openingGrace is for how long nobody has to go for one who comes later: an opening takes a round trip of the longest paths.
	openingGrace = 2 * time.Second
)

// lobby holds the guests of a door: connections over which a link is being opened. For one guest too many,
// one has to go, from where most of them are: the oldest, unless that may still be opening. Then it is the newest, which comes again
// soon. If older ones went, of hundreds that come at once from one address none would be done in time.
type lobby struct {
	mu       sync.Mutex
	guests   []*guest
	hosts    origins
	networks origins // of IPv6; else each host is one
}

type guest struct {
	raw           net.Conn
	at            time.Time // when it came
	host, network *origin   // nil before it is received
	sentAway      bool
}

// origin is where guests come from.
type origin struct {
	name   string
	guests int
}

type origins map[string]*origin

// add counts one more guest from an origin.
func (o *origins) add(name string) *origin {
	if *o == nil {
		*o = make(origins)
	}
	from := (*o)[name]
	if from == nil {
		from = &origin{name: name}
		(*o)[name] = from
	}
	from.guests++
	return from
}

func (o origins) drop(from *origin) {
	if from.guests--; from.guests == 0 {
		delete(o, from.name)
	}
}

func networkOf(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	network, _ := ip.WithZone("").Prefix(networkBits)
	return network.String()
}

// receive takes in one more guest. If there are too many, one of them is closed.
func (l *lobby) receive(came *guest) {
	if out := l.makeRoom(came); out != nil {
		out.raw.Close()
	}
}

func (l *lobby) makeRoom(came *guest) (out *guest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	host, _, _ := net.SplitHostPort(came.raw.RemoteAddr().String())
	came.host, came.network = l.hosts.add(host), l.networks.add(networkOf(host))
	l.guests = append(l.guests, came)
	var from []*guest
	switch {
	case came.host.guests > openingEach:
		from = slices.DeleteFunc(slices.Clone(l.guests), func(g *guest) bool { return g.host != came.host })
	case len(l.guests) > openingMost:
		// A network may take what others do not need: in a flat data centre all hosts are in one.
		from = busiest(busiest(l.guests, func(g *guest) *origin { return g.network }), func(g *guest) *origin { return g.host })
	default:
		return nil
	}
	if out = from[0]; came.at.Sub(out.at) < openingGrace {
		out = from[len(from)-1]
	}
	out.sentAway = true
	l.remove(out)
	return out
}

// busiest returns the guests that come from where most do.
func busiest(guests []*guest, origin func(*guest) *origin) (from []*guest) {
	most := 0
	for _, g := range guests {
		most = max(most, origin(g).guests)
	}
	for _, g := range guests {
		if origin(g).guests == most {
			from = append(from, g)
		}
	}
	return from
}

// letGo says that a guest needs its place no longer, and reports whether it still had it. It is not sent away any more.
func (l *lobby) letGo(went *guest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !went.sentAway {
		l.remove(went)
	}
	return !went.sentAway
}

func (l *lobby) remove(went *guest) {
	i := slices.Index(l.guests, went)
	l.guests = slices.Delete(l.guests, i, i+1)
	l.hosts.drop(went.host)
	l.networks.drop(went.network)
}
