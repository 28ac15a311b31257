package relay

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/datagram"
	"github.com/groupcast/groupcast/internal/udp"
	wiredatagram "github.com/groupcast/groupcast/internal/wire/datagram"
)

// port is where all datagrams of an agent come and go. One goroutine reads them, passes
// them on and sends what that made, many at once.
type port struct {
	socket  *udp.Socket
	metrics *Metrics
	batch   *datagram.Batch // the reading goroutine's

	mu    sync.RWMutex
	links map[wiredatagram.LinkID]taker
}

// taker takes a datagram of one link. It must not wait, nor keep what it is given.
type taker func(whole []byte, from netip.AddrPort, now time.Time)

func newPort(socket *udp.Socket, metrics *Metrics) *port {
	return &port{
		socket: socket, metrics: metrics, batch: datagram.NewBatch(socket), links: make(map[wiredatagram.LinkID]taker),
	}
}

// run takes what comes until ctx is done.
func (p *port) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { p.socket.Close() })()
	// It returns when the socket is closed, and only then.
	_ = p.socket.Receive(p.take, p.batch.Flush)
}

func (p *port) take(whole []byte, from netip.AddrPort) {
	link, ok := wiredatagram.LinkOf(whole)
	p.mu.RLock()
	take, known := p.links[link]
	p.mu.RUnlock()
	if !ok || !known {
		p.metrics.datagramsRefused.Inc()
		return
	}
	take(whole, from, time.Now())
}

// open has a link's datagrams taken until closed is called.
func (p *port) open(link wiredatagram.LinkID, take taker) (closed func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[link] = take
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, link)
	}
}
