package fast

import "time"

const (
	firstWindow = 32.0
	leastWindow = 4.0
	// targetDelay is how long packets may wait on the way to the slowest: enough for a
	// receiver on a busy machine to be given its turn, and little for others on the link.
	targetDelay = 10 * time.Millisecond
	leastDelay  = 2 * time.Millisecond
	// targetPackets is how many packets may wait in any case, where each takes long.
	targetPackets = 8
	lessened      = 0.8
	// crowded is the share of packets that a full queue loses; fewer are lost by chance. It
	// is looked at over so many packets.
	crowded     = 0.1
	crowdedOver = 200
	// flooded is a share that is lost by chance nowhere, even of few packets and although none
	// waits: those that a short queue had room for tell nothing of the others.
	flooded     = 0.3
	floodedOver = 32
)

// Window is how many packets may be on their way: it grows until packets wait for longer than they
// may on their way to the slowest, and is lessened then by a share, so that two senders
// over one link come to have as much each (Chiu and Jain, 1989).
type Window struct {
	packets  float64
	most     float64
	short    time.Duration // how long packets can wait in a queue that was found full then; zero is not known
	full     bool          // it was when it was looked at last
	starting bool
	limited  bool          // more would have been sent
	worst    time.Duration // of waiting, in this round
	lost     float64       // the greatest share, in this round
	ends     uint64        // the round, when this number is answered
}

// NewWindow returns a window that never grows beyond so many packets.
func NewWindow(most int) Window {
	return Window{packets: min(firstWindow, float64(most)), most: float64(most), starting: true}
}

// Packets is how many may be on their way.
func (w *Window) Packets() int { return int(w.packets) }

// Limit notes that more would have been sent.
func (w *Window) Limit() { w.limited = true }

// Answer is what the answer of a member tells of the way to it.
type Answer struct {
	Number  uint64        // up to which all have answered
	Waited  time.Duration // longer than the shortest round trip
	Lost    float64       // share of what was sent,
	Told    bool          // if that was enough to tell; else zero
	PerSend time.Duration // from one packet that arrives to the next
}

// Answer notes an answer, when next is the number to be sent next.
func (w *Window) Answer(a Answer, next uint64) {
	w.worst, w.lost = max(w.worst, a.Waited), max(w.lost, a.Lost)
	if a.Told {
		w.full = a.Lost > flooded || a.Lost > crowded && a.Waited > leastDelay
	}
	if a.Number < w.ends {
		return
	}
	w.turn(max(targetDelay, targetPackets*a.PerSend))
	w.ends, w.worst, w.lost, w.limited = next, 0, 0, false
}

// turn judges a round. most is how long packets may wait where the queue is not known to be
// shorter.
func (w *Window) turn(most time.Duration) {
	target := most
	if w.short > 0 {
		target = min(most, w.short)
	}
	switch {
	case w.lost > flooded, w.lost > crowded && w.worst > target/4:
		w.short = max(leastDelay, min(target, w.worst*4/5))
		w.packets, w.starting = w.packets*min(lessened, 1-w.lost), false
	case w.worst > target:
		w.packets, w.starting = w.packets*lessened, false
	case !w.limited, w.full:
	case w.starting && w.worst < target/2:
		w.packets *= 2
	case w.worst < target/4:
		w.packets, w.starting = w.packets*1.25, false
	default:
		w.packets, w.starting = w.packets+4+w.packets/64, false
	}
	w.packets = min(max(w.packets, leastWindow), w.most)
	if w.short += w.short / 256; w.short > most {
		w.short = 0
	}
}

// Again begins as at first: another member is the slowest.
func (w *Window) Again() { *w = NewWindow(int(w.most)) }
