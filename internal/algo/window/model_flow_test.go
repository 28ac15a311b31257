package window_test

import (
	"math"
	"time"
)

// flow is one TCP connection of the model: its sender and its receiver.
type flow struct {
	world *world
	first *pipe         // that its packets go into
	path  time.Duration // the round trip without any queue
	cubic bool
	// more is how many segments the sender has been given to send by now.
	more func() uint64

	// The sender.
	window, threshold  float64 // congestion window and slow-start threshold, in segments
	next               uint64  // the first segment never sent
	edge               uint64  // the first byte that may not be sent: the right edge of the window
	transmissions      uint64
	outstanding        []packet // in the order of sending
	lost               []uint64 // segments to send again
	recover            uint64   // losses of transmissions before this one have been answered
	heard              time.Duration
	echo               time.Duration
	smooth             time.Duration // the sender's round trip
	top                float64       // cubic: the window of the last loss
	cut                time.Duration // cubic: when that was
	closed, timerArmed bool

	// The receiver.
	clamp      int // the advertised window; zero is the kernel's own
	wanted     uint64
	early      map[uint64]bool
	outOfOrder uint64
	allowed    uint64
	pending    int
	newest     uint64
	newestSent time.Duration
	lastEcho   time.Duration
	rtt, least time.Duration
	received   uint64 // bytes
	opened     time.Duration
	done       func() // called when all that was given has come
}

const kernelWindow = 4 << 20

func newFlow(w *world, first *pipe, path time.Duration, more func() uint64) *flow {
	f := &flow{
		world: w, first: first, path: path, more: more, window: 10, threshold: math.Inf(1),
		early: map[uint64]bool{}, opened: w.now, echo: -1, lastEcho: -1,
	}
	return f
}

// start begins to send, as soon as the handshake is over.
func (f *flow) start() {
	f.grant()
	f.edge = f.allowed
	f.echo = f.world.now
	f.world.after(f.path, func() { f.heard = f.world.now; f.send() })
}

func (f *flow) send() {
	for !f.closed && float64(len(f.outstanding)) < math.Floor(f.window) {
		segment := f.next
		switch {
		case len(f.lost) > 0:
			segment, f.lost = f.lost[0], f.lost[1:]
		case f.next*payload+payload/2 > f.edge || f.next >= f.more():
			return
		default:
			f.next++
		}
		one := packet{f, f.transmissions, segment, f.echo, f.next >= f.more(), f.world.now}
		f.transmissions++
		f.outstanding = append(f.outstanding, one)
		f.world.after(f.path/2, func() { f.first.take(one) })
		f.arm()
	}
}

// arm has the retransmission timer run while something is outstanding.
func (f *flow) arm() {
	if f.timerArmed || len(f.outstanding) == 0 {
		return
	}
	f.timerArmed = true
	timeout := time.Second // while no round trip is known
	if f.smooth > 0 {
		timeout = max(200*time.Millisecond, f.smooth) + f.smooth
	}
	f.world.after(timeout, func() {
		f.timerArmed = false
		if len(f.outstanding) > 0 && f.world.now-f.heard >= timeout {
			for _, one := range f.outstanding {
				f.lost = append(f.lost, one.segment)
			}
			f.outstanding = f.outstanding[:0]
			f.threshold, f.window, f.recover = max(2, f.window/2), 1, f.transmissions
			f.heard = f.world.now
			f.send()
		}
		f.arm()
	})
}

// acknowledged takes an acknowledgement of the newest transmission that has come: when that was sent, and when it was
// answered.
func (f *flow) acknowledged(newest uint64, came int, edge uint64, sent, answered time.Duration) {
	full := float64(len(f.outstanding)+1) >= math.Floor(f.window)
	if trip := f.world.now - sent; f.smooth == 0 {
		f.smooth = trip
	} else {
		f.smooth += (trip - f.smooth) / 8
	}
	f.heard, f.echo, f.edge = f.world.now, answered, max(f.edge, edge)
	kept := f.outstanding[:0]
	losses := false
	for _, one := range f.outstanding {
		switch {
		case one.transmission > newest:
			kept = append(kept, one)
		case f.arrived(one.segment):
		case one.transmission+3 <= newest:
			f.lost = append(f.lost, one.segment)
			losses = losses || one.transmission >= f.recover
		default:
			kept = append(kept, one)
		}
	}
	f.outstanding = kept
	switch {
	case losses:
		f.decrease()
	case full && newest >= f.recover:
		f.increase(float64(came))
	}
	f.send()
}

func (f *flow) arrived(segment uint64) bool { return segment < f.wanted || f.early[segment] }

func (f *flow) decrease() {
	share := .5
	if f.cubic {
		share, f.top, f.cut = .7, f.window, f.world.now
	}
	f.window = max(2, f.window*share)
	f.threshold, f.recover = f.window, f.transmissions
}

func (f *flow) increase(came float64) {
	if f.window < f.threshold {
		f.window += came
		return
	}
	step := came / f.window
	if f.cubic {
		k := math.Cbrt(f.top * .3 / .4)
		t := (f.world.now - f.cut + f.smooth).Seconds() - k
		step = max(step*.53, min((.4*t*t*t+f.top-f.window)/f.window*came, came/2))
	}
	f.window += step
}

// receive is the receiver's side of a packet that has come through the access link.
func (f *flow) receive(one packet) {
	if one.echo != f.lastEcho && one.echo >= 0 {
		f.lastEcho = one.echo
		f.measure(f.world.now - one.echo)
	}
	if one.transmission >= f.newest {
		f.newest, f.newestSent = one.transmission, one.sent
	}
	inOrder := one.segment == f.wanted
	if !inOrder && !f.arrived(one.segment) {
		f.outOfOrder++
	}
	if one.segment >= f.wanted {
		f.early[one.segment] = true
	}
	for f.early[f.wanted] {
		delete(f.early, f.wanted)
		f.wanted++
		f.received += payload
	}
	f.pending++
	// A sender pushes the last segment that it has, or that a window allows, and is answered at
	// once, except if the window is so small that there is no other segment.
	pushed := one.last || (one.segment+1)*payload+payload/2 > f.allowed && (f.clamp == 0 || f.clamp >= 5*payload/2)
	if !inOrder || f.pending >= 2 || len(f.early) > 0 || pushed {
		f.reply()
	} else {
		waits := f.newest
		f.world.after(40*time.Millisecond, func() {
			if f.pending > 0 && f.newest == waits {
				f.reply()
			}
		})
	}
	if f.done != nil && f.wanted >= f.more() {
		done := f.done
		f.done = nil
		done()
	}
}

// measure does as the kernel does: a lower round trip counts at once, a higher one by an eighth.
func (f *flow) measure(sample time.Duration) {
	if f.rtt == 0 || sample < f.rtt {
		f.rtt = sample
	} else {
		f.rtt += (sample - f.rtt) / 8
	}
	if f.least == 0 || f.rtt < f.least {
		f.least = f.rtt
	}
}

// grant moves the right edge. It never goes back: what was granted once may be sent.
func (f *flow) grant() {
	clamp := f.clamp
	if clamp == 0 {
		clamp = kernelWindow
	}
	f.allowed = max(f.allowed, f.received+uint64(clamp))
}

func (f *flow) reply() {
	f.grant()
	came, newest, sent, edge, now := f.pending, f.newest, f.newestSent, f.allowed, f.world.now
	f.pending = 0
	f.world.after(f.path/2, func() { f.acknowledged(newest, came, edge, sent, now) })
}
