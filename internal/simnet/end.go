package simnet

import "syscall"

// end is one end of a connection, as the kernel of its host keeps it.
type end struct {
	host          *Host
	local, remote Addr
	out, in       *flow
	peer          *end

	closed bool  // by its program
	gone   bool  // the kernel has forgotten it: reset, killed or closed with data unread
	err    error // what ended it

	readable, writable signal
	reads, writes      deadline
}

// connect makes the two ends of a connection and the flows between them.
func (n *Network) connect(from *Host, local Addr, to *Host, remote Addr) (dialer, accepter *end) {
	dialer = &end{host: from, local: local, remote: remote}
	accepter = &end{host: to, local: remote, remote: local, peer: dialer}
	dialer.peer = accepter
	n.conns++
	dialer.out = n.flow(2*n.conns, dialer, accepter)
	accepter.out = n.flow(2*n.conns+1, accepter, dialer)
	dialer.in, accepter.in = accepter.out, dialer.out
	return dialer, accepter
}

func (n *Network) flow(number int, sender, receiver *end) *flow {
	f := &flow{
		number: number, sender: sender, receiver: receiver, way: n.way(sender.host, receiver.host),
		buffer: int64(n.sendBuffer), window: int64(n.window),
	}
	n.open[f] = f
	return f
}

// deaf reports whether what arrives will never be read.
func (e *end) deaf() bool { return e.closed || e.gone }

func (e *end) wake() {
	e.readable.wake()
	e.writable.wake()
}

// die ends the connection on this side. What has arrived can still be read, unless the program is gone, too.
func (e *end) die(err error, programGone bool) {
	if e.gone {
		return
	}
	e.gone, e.err = true, err
	e.out.truncate()
	if programGone || e.closed {
		e.in.drop()
	}
	e.reads.stop()
	e.writes.stop()
	e.wake()
	e.out.forget()
	e.in.forget()
}

// reset tells the peer that this end no longer exists. If that is lost it is not repeated.
func (e *end) reset() {
	peer, way := e.peer, e.out.way
	way.post(arrival{fragile: true, arrive: func() {
		way.net.log.add(way, e.out.number, "rst", e.out.sent)
		if !peer.host.off {
			peer.die(syscall.ECONNRESET, false)
		}
	}})
}

// answerReset is what a kernel does with data for a connection that it does not know. A machine without power does nothing.
func (e *end) answerReset() {
	if !e.host.off {
		if !e.gone {
			e.die(syscall.ECONNRESET, true)
		}
		e.in.forget()
		e.reset()
	}
}

// close is called by the program; it takes effect when the host is not frozen.
func (e *end) close() {
	if e.host.frozen {
		e.host.thawed = append(e.host.thawed, e.release)
		return
	}
	e.release()
}

// release closes in order, or resets if data was left unread.
func (e *end) release() {
	if e.gone {
		e.in.drop()
		e.in.forget()
		e.out.forget()
		return
	}
	if e.in.unread() > 0 {
		e.die(syscall.ECONNRESET, true)
		e.reset()
		return
	}
	e.out.closing = true
	e.out.touch()
	e.in.touch()
}
