package simnet

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"
)

// retry is after how long to ask again for a connection when there was no answer.
const retry = time.Second

// dial is an attempt to connect.
type dial struct {
	host    *Host
	address string
	to      Addr
	end     *end // once it has begun
	over    bool
	err     error
	changed signal
}

// Dial connects to "host:port". Network is "tcp". An unknown host is a
// DNSError, a port without listener ECONNREFUSED, silence ETIMEDOUT.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &dial{host: h, address: address}
	conn, err := d.run(ctx, network)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: Addr{"tcp", d.to.Host, d.to.Port}, Err: err}
	}
	return conn, nil
}

func (d *dial) run(ctx context.Context, network string) (net.Conn, error) {
	if !isTCP(network) {
		return nil, net.UnknownNetworkError(network)
	}
	n := d.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	n.dials = append(n.dials, d)
	d.host.dials[d] = d
	defer delete(d.host.dials, d)
	n.settleSoon()
	defer context.AfterFunc(ctx, func() { d.wake(n) })()
	timeout := time.AfterFunc(ConnectTimeout, func() { d.stop(n, os.NewSyscallError("connect", syscall.ETIMEDOUT)) })
	defer timeout.Stop()
	n.await(&d.changed, func() bool { return ctx.Err() != nil || d.over && !d.host.frozen })
	if !d.over {
		d.finish(ctx.Err())
	}
	if d.err != nil {
		return nil, d.err
	}
	d.host.net.log.say("%s connected to %s", d.end.local, d.to)
	return &Conn{end: d.end, net: n}, nil
}

func (d *dial) check(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.to, err = d.host.parse("tcp", d.address); err != nil {
		return err
	}
	if d.host.net.hosts[d.to.Host] == nil {
		return unknownHost(d.to.Host)
	}
	if d.host.down {
		return os.NewSyscallError("connect", syscall.ENETDOWN)
	}
	return nil
}

func (d *dial) wake(n *Network) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.changed.wake()
}

func (d *dial) stop(n *Network, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.finish(err)
}

// finish ends the attempt. If it failed it leaves no end behind.
func (d *dial) finish(err error) {
	if d.over {
		return
	}
	d.over, d.err = true, err
	if err != nil && d.end != nil {
		d.end.closed = true
		d.end.die(err, true)
	}
	d.changed.wake()
}

// begin gives the connection its port and number, and asks for it.
func (d *dial) begin() {
	if d.over {
		return
	}
	if d.host.down {
		d.finish(net.ErrClosed)
		return
	}
	n := d.host.net
	local := Addr{"tcp", d.host.name, d.host.freePort(func(port int) bool { return d.host.listeners[port] != nil })}
	var accepter *end
	d.end, accepter = n.connect(d.host, local, n.hosts[d.to.Host], d.to)
	accepter.gone, accepter.closed = true, true // until it is asked for
	d.ask()
}

// ask sends what TCP calls a SYN.
func (d *dial) ask() {
	if d.over {
		return
	}
	if d.end.gone { // killed or reset meanwhile
		d.finish(d.end.err)
		return
	}
	d.end.out.way.post(arrival{arrive: d.asked})
}

// asked handles the question at the other host.
func (d *dial) asked() {
	there := d.end.peer.host
	l := there.listeners[d.to.Port]
	switch {
	case there.off || l != nil && len(l.waiting) >= backlog:
		d.host.net.after(retry, d.ask)
	case l == nil || there.refuse:
		d.answer(fragileRefusal, func() { d.finish(os.NewSyscallError("connect", syscall.ECONNREFUSED)) })
	default:
		accepter := d.end.peer
		accepter.gone, accepter.closed = false, false
		l.waiting = append(l.waiting, accepter)
		l.changed.wake()
		d.answer(!fragileRefusal, d.accepted)
	}
}

// A refusal that is lost is not repeated; the question is.
const fragileRefusal = true

func (d *dial) answer(refusal bool, arrive func()) {
	back := d.end.peer.out.way
	a := arrival{fragile: refusal, arrive: arrive}
	if refusal {
		a.lost = func() { d.host.net.after(retry, d.ask) }
	}
	back.post(a)
}

func (d *dial) accepted() {
	if !d.end.gone {
		d.host.net.log.add(d.end.in.way, d.end.out.number, "connected", 0)
		d.finish(nil)
		return
	}
	d.finish(d.end.err)
	if !d.host.off {
		d.end.reset()
	}
}
