package simnet

import (
	"net"
	"syscall"
)

// ShapeAll sets the shape of every link, including links to come.
func (n *Network) ShapeAll(s Shape) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usual = s
	for _, w := range n.sortedWays() {
		if w.from != w.to {
			w.reshape(s)
		}
	}
}

// Shape sets the shape of one direction from now on.
func (n *Network) Shape(from, to string, s Shape) {
	n.fault("shape", from, to, func(w *way) { w.reshape(s) })
}

func (w *way) reshape(s Shape) {
	w.shape = s
	w.restart()
}

// Cut lets nothing pass between two hosts. Connections stall, and neither end
// is told.
func (n *Network) Cut(a, b string) {
	n.CutOneWay(a, b)
	n.CutOneWay(b, a)
}

// CutOneWay lets nothing pass in one direction.
func (n *Network) CutOneWay(from, to string) { n.fault("cut", from, to, (*way).setCut) }

// Narrow makes large packets vanish in one direction, without any notice, as on a path that carries less than it claims.
func (n *Network) Narrow(from, to string) {
	n.fault("narrow", from, to, func(w *way) { w.narrow = true })
}

// Heal ends cuts, slowness and narrowness between two hosts.
func (n *Network) Heal(a, b string) {
	mend := func(w *way) { w.mend() }
	n.fault("heal", a, b, mend)
	n.fault("heal", b, a, mend)
}

func (w *way) mend() {
	if w.slow != 0 {
		w.slow = 0
		w.restart()
	}
	w.widen()
	w.heal()
}

// widen lets flows go on that have waited with a large packet.
func (w *way) widen() {
	if !w.narrow {
		return
	}
	w.narrow = false
	for _, e := range w.net.ends(func(e *end) bool { return e.out.way == w }) {
		e.out.push()
	}
}

// Slow limits one direction below its shape until Heal; 1 is a drip.
func (n *Network) Slow(from, to string, rate Rate) {
	n.fault("slow", from, to, func(w *way) {
		w.slow = rate
		w.restart()
	})
}

// Corrupt flips a bit of the stream byte that passes after skip other bytes.
func (n *Network) Corrupt(from, to string, skip int64) {
	n.fault("corrupt", from, to, func(w *way) { w.corrupt = append(w.corrupt, w.carried+skip) })
}

func (n *Network) fault(what, from, to string, do func(*way)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.say("%s %s>%s", what, from, to)
	do(n.way(n.host(from), n.host(to)))
}

// damage flips the bits that are due among the bytes that f sends now.
func (w *way) damage(f *flow, bytes int) {
	kept := w.corrupt[:0]
	for _, at := range w.corrupt {
		if at < w.carried+int64(bytes) {
			f.ring.bytes[f.ring.index(f.sent+at-w.carried)] ^= 1 << w.net.random.IntN(8)
			f.damaged = true
		} else {
			kept = append(kept, at)
		}
	}
	w.corrupt = kept
	w.carried += int64(bytes)
}

// Reset ends all connections between two hosts with ECONNRESET at both ends.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.say("reset %s %s", a, b)
	for _, e := range n.ends(func(e *end) bool {
		return pair{e.host.name, e.peer.host.name} == pair{a, b} || pair{e.host.name, e.peer.host.name} == pair{b, a}
	}) {
		e.die(syscall.ECONNRESET, false)
	}
}

// Kill ends the host's process: its calls fail, its listeners are gone, its
// connections are reset, and whoever dials it is refused.
func (h *Host) Kill() { h.end("kill", false) }

// PowerOff takes the machine away: its peers hear nothing at all.
func (h *Host) PowerOff() { h.end("power off", true) }

func (h *Host) end(what string, off bool) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.say("%s %s", what, h.name)
	h.down, h.off = true, off
	h.frozen, h.thawed = false, nil
	for _, e := range n.ends(func(e *end) bool { return e.host == h && !e.gone }) {
		e.die(net.ErrClosed, true)
		if !off {
			e.reset()
		}
	}
	for d := range h.dials {
		d.finish(net.ErrClosed)
		d.changed.wake()
	}
	for _, l := range h.listeners {
		l.waiting = nil
		l.close()
	}
	for _, s := range h.sockets {
		s.close()
	}
}

// Restart lets the host be used again. If the machine had no power, peers that wait for it to acknowledge something are reset.
func (h *Host) Restart() {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.say("restart %s", h.name)
	wasOff := h.off
	h.down, h.off = false, false
	if !wasOff {
		return
	}
	for _, e := range n.ends(func(e *end) bool { return e.peer.host == h && e.peer.gone && !e.gone }) {
		if e.out.written > e.out.credited || e.out.finSent {
			e.peer.reset()
		}
	}
}

// Freeze stops the host's process: its reads, writes, accepts and dials, and what its Close sends,
// wait for Thaw. Its kernel goes on accepting and sending what fits into buffers.
func (h *Host) Freeze() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.net.log.say("freeze %s", h.name)
	h.frozen = true
}

// Thaw lets the process go on.
func (h *Host) Thaw() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.net.log.say("thaw %s", h.name)
	h.melt()
}

func (h *Host) melt() {
	h.frozen = false
	for _, do := range h.thawed {
		do()
	}
	h.thawed = nil
	for _, e := range h.net.ends(func(e *end) bool { return e.host == h }) {
		e.wake()
	}
	for _, l := range h.listeners {
		l.changed.wake()
	}
	for _, s := range h.sockets {
		s.changed.wake()
	}
	for d := range h.dials {
		d.changed.wake()
	}
}

// Refuse makes the host refuse every new connection.
func (h *Host) Refuse(on bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.refuse = on
}

// HealAll ends every fault but kills: cuts, slowness, narrowness, frozen hosts.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log.say("heal all")
	for _, w := range n.sortedWays() {
		w.mend()
	}
	for _, h := range n.sortedHosts() {
		h.refuse = false
		h.melt()
	}
}
