package window_test

import (
	"container/heap"
	"time"
)

// The model is of packets: senders with the congestion control of TCP, an access link with a
// drop-tail queue, a receiver that advertises windows. It has a clock of its own, and no
// randomness: it always does the same.

// world is the model's clock and what will happen.
type world struct {
	now    time.Duration
	events events
	count  int
}

type event struct {
	at time.Duration
	no int
	do func()
}

type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].no < e[j].no
}

func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.events, event{w.now + max(d, 0), w.count, do})
}

// until runs the world to a time.
func (w *world) until(end time.Duration) {
	for len(w.events) > 0 && w.events[0].at <= end {
		next := heap.Pop(&w.events).(event)
		w.now = next.at
		next.do()
	}
	w.now = end
}

// wire is how many bytes a packet of the model has on a link, and payload how many of them
// are payload.
const (
	payload = 1448
	wire    = 1500
)

type packet struct {
	flow         *flow
	transmission uint64 // numbers the packets that the flow sends
	segment      uint64
	echo         time.Duration // when the latest acknowledgement that the sender had was sent
	last         bool          // the sender had no more at that moment
	sent         time.Duration // when it was sent
}

// pipe is a link with a drop-tail queue.
type pipe struct {
	world   *world
	rate    float64 // bytes per second
	limit   int     // bytes that may wait
	arrive  func(packet)
	queue   []packet
	busy    bool
	changed time.Duration
	// area is the integral of the queue in bytes·seconds, dropped how many packets were, and
	// carried how many bytes came through.
	area    float64
	dropped int
	carried int
}

func (p *pipe) waiting() int { return wire * len(p.queue) }

func (p *pipe) account() {
	p.area += float64(p.waiting()) * (p.world.now - p.changed).Seconds()
	p.changed = p.world.now
}

func (p *pipe) take(one packet) {
	p.account()
	switch {
	case p.waiting()+wire > p.limit:
		p.dropped++
	default:
		p.queue = append(p.queue, one)
		p.serve()
	}
}

func (p *pipe) serve() {
	if p.busy || len(p.queue) == 0 {
		return
	}
	p.busy = true
	p.world.after(time.Duration(wire/p.rate*float64(time.Second)), func() {
		p.account()
		one := p.queue[0]
		p.queue = p.queue[1:]
		p.busy = false
		p.carried += wire
		p.arrive(one)
		p.serve()
	})
}

// stream sends packets that nobody acknowledges, at a rate, until a time: UDP.
func (p *pipe) stream(rate float64, until time.Duration) {
	if p.world.now >= until {
		return
	}
	p.take(packet{})
	p.world.after(time.Duration(wire/rate*float64(time.Second)), func() { p.stream(rate, until) })
}
