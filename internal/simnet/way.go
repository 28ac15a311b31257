package simnet

import (
	"slices"
	"time"
)

// way carries from one host to another, in order:
//
//	flows, datagrams ─▶ turns at the rate ─▶ line with a latency ─▶ arrive
//
// When it is cut, streams stay where they are, as if they were sent again and again, and everything else is lost.
type way struct {
	net      *Network
	from, to *Host
	shape    Shape
	slow     Rate // a fault's rate, in place of the shape's
	narrow   bool // large packets vanish
	cut      bool

	waiting    []source // sources with something to send, in turn
	sending    bool     // the turn of the first source is under way
	generation int      // changes when a turn is broken off
	queued     int      // bytes of datagrams that wait
	line       []arrival
	last       time.Time // when the last arrival on the line is due

	corrupt []int64 // offsets of the stream bytes in which a bit is to be flipped
	carried int64   // stream bytes so far
	count   Count
}

// smallPacket is the largest packet that passes where large packets vanish.
const smallPacket = 1000

// source is something that sends on a way.
type source interface {
	turn(limit int) int            // how many bytes it would send now
	depart(bytes int) (again bool) // they have left
}

// arrival is something on the line.
type arrival struct {
	due     time.Time
	fragile bool // if it is lost nobody sends it again
	arrive  func()
	lost    func() // may be nil
}

func (w *way) name() string { return w.from.name + ">" + w.to.name }

func (w *way) rate() Rate {
	if w.slow != 0 {
		return w.slow
	}
	return w.shape.Rate
}

// offer queues a source that is not queued.
func (w *way) offer(s source) {
	w.waiting = append(w.waiting, s)
	w.start()
}

// start gives turns as long as none takes time.
func (w *way) start() {
	for !w.sending && !w.cut && len(w.waiting) > 0 {
		rate := w.rate()
		bytes := w.waiting[0].turn(rate.turn())
		if rate == 0 || bytes == 0 {
			w.finish(bytes)
			continue
		}
		w.sending = true
		generation := w.generation
		w.net.after(rate.last(bytes), func() {
			if w.generation == generation {
				w.sending = false
				w.finish(bytes)
				w.start()
			}
		})
	}
}

func (w *way) finish(bytes int) {
	first := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	if first.depart(bytes) {
		w.waiting = append(w.waiting, first)
	}
}

// restart breaks off the present turn, because cut or rate have changed.
func (w *way) restart() {
	w.generation++
	w.sending = false
	w.start()
}

// post puts something on the line.
func (w *way) post(a arrival) {
	if a.fragile && w.cut {
		a.vanish()
		return
	}
	a.due = time.Now().Add(w.shape.Latency)
	if a.due.Before(w.last) {
		a.due = w.last
	}
	w.last = a.due
	w.line = append(w.line, a)
	w.net.at(a.due, w.deliver)
}

func (a arrival) vanish() {
	if a.lost != nil {
		a.lost()
	}
}

func (w *way) deliver() {
	now := time.Now()
	for !w.cut && len(w.line) > 0 && !w.line[0].due.After(now) {
		first := w.line[0]
		w.line[0] = arrival{}
		w.line = w.line[1:]
		first.arrive()
	}
}

func (w *way) setCut() {
	if w.cut {
		return
	}
	w.cut = true
	w.restart()
	w.line = slices.DeleteFunc(w.line, func(a arrival) bool {
		if a.fragile {
			a.vanish()
		}
		return a.fragile
	})
	w.waiting = slices.DeleteFunc(w.waiting, func(s source) bool {
		d, datagram := s.(*datagram)
		if datagram {
			w.queued -= len(d.payload)
			d.vanish()
		}
		return datagram
	})
}

// heal sends again what was on the line.
func (w *way) heal() {
	if !w.cut {
		return
	}
	w.cut = false
	again := time.Now().Add(w.shape.Latency)
	w.last = again
	for i := range w.line {
		w.line[i].due = again
		w.net.at(again, w.deliver)
	}
	w.restart()
}
