package paper

import (
	"net/netip"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// Random draws a number from 0 to n−1.
type Random interface{ Int64N(n int64) int64 }

// Receiver is a client: one transfer, from whatever packet on it hears.
type Receiver struct {
	options  ReceiverOptions
	random   Random
	server   netip.AddrPort // whose DATA came first; no other's is taken
	expected uint64         // "the expected value" of the sequence number
	end      uint64         // the number of the DATA without payload; 0 before it is known
	missing  gaps           // the error marks
	place    place
	ack      ack
	repair   repair
	finished bool
}

// ack is the ACK that the client competes for.
type ack struct {
	sn  uint32 // 0: none
	due time.Time
}

// NewReceiver returns the receiver of one transfer. Its ARTPs are drawn from random.
func NewReceiver(options ReceiverOptions, random Random) *Receiver {
	return &Receiver{options: options.withDefaults(), random: random, expected: FirstSN}
}

// Step tells the receiver what has happened, and returns what is to be done, in this order.
// It is to be called with a nil event when its Deadline has come.
func (r *Receiver) Step(now time.Time, event Event) (actions []Action) {
	if r.finished {
		return nil
	}
	if p, is := event.(Packet); is {
		actions = r.take(now, p)
	}
	actions = r.acknowledge(now, actions)
	actions = r.correct(now, actions)
	return r.finish(actions)
}

// Deadline is when the receiver has to be told the time; zero is when a packet has come.
func (r *Receiver) Deadline() time.Time {
	if r.finished {
		return time.Time{}
	}
	return moment.Soonest(r.ack.due, r.repair.due)
}

// Competing is the window whose ACK the client competes for, and when its own is due; 0 is
// none.
func (r *Receiver) Competing() (sn uint32, due time.Time) { return r.ack.sn, r.ack.due }

// Missing is how many error marks there are, and Expected the number that comes next.
func (r *Receiver) Missing() uint64 { return r.missing.count() }

// Expected is described at Missing.
func (r *Receiver) Expected() uint64 { return r.expected }

// Server is the sender, once something has come.
func (r *Receiver) Server() netip.AddrPort { return r.server }

func (r *Receiver) take(now time.Time, p Packet) []Action {
	switch p.Type {
	case wire.Data:
		if !r.server.IsValid() {
			r.server = p.From
			r.repair.listen(now, r.options)
		}
		switch {
		case p.From.Addr() == r.server.Addr() && r.isAnew(now, p):
			r.repair.over = BegunAnew
		case p.From == r.server:
			return r.data(now, p.Packet)
		}
	case wire.RepairResponse:
		if p.From == r.server {
			return r.response(now, p.Packet)
		}
	case wire.ACK:
		// "only the clients at the ACK sender side (belonging to the same subnetwork) will
		// disable its own ACK transmission" (§III-D)
		if p.SN == r.ack.sn && r.options.LAN.Contains(p.From.Addr()) {
			r.ack = ack{}
		}
	}
	return nil
}

// data is the rule for DATA, §III-C: "When a packet arrives, each client extracts the
// sequence number and compares it with the expected value".
func (r *Receiver) data(now time.Time, p wire.Packet) (actions []Action) {
	sn := uint64(p.SN)
	if sn < r.expected || !r.fits(sn, len(p.Payload)) {
		return nil // "If the sequence number is smaller, the data packet is discarded."
	}
	if r.end == 0 {
		r.repair.listen(now, r.options)
	}
	if sn > r.expected {
		// "the client detects packet losses and sends a NACK with the sequence number of the
		// received data packet. Simultaneously, […] it stores an error mark for each one."
		nack := wire.Packet{SN: p.SN, Type: wire.NACK, LWSN: p.LWSN}
		actions = append(actions, Unicast{To: r.server, Packet: nack}, r.mark(r.expected, sn-1))
	}
	r.expected = sn + 1
	actions = append(actions, r.store(sn, p.Payload)...)
	if p.SN == p.LWSN {
		r.compete(now, p.SN)
	}
	return actions
}

// isAnew reports whether DATA of the server's machine is of a transfer that was begun after the client's own: "the server never
// retransmits any data packet" (§III-A), so one that sends its first again has been started again, with the same port or
// another. What a network has held back is less than a window old, or comes while the server's other packets do.
func (r *Receiver) isAnew(now time.Time, p Packet) bool {
	isOld := p.SN == FirstSN || uint64(p.SN)+DefaultMaxWindow < r.expected
	return isOld && uint64(p.SN) < r.expected && !now.Before(r.repair.heard.Add(r.options.Silence))
}

func (r *Receiver) mark(first, last uint64) Action {
	r.missing.add(first, last)
	return Mark{First: uint32(first), Last: uint32(last)}
}

// fits refuses what contradicts what is known of the transfer: a packet at or behind its end,
// another end, or a payload that has no place. In a stream payloads have none.
func (r *Receiver) fits(sn uint64, length int) bool {
	switch {
	case r.end != 0 && sn >= r.end, sn == wire.MaxSN && length > 0:
		return false
	case !r.options.ErrorCorrection:
		return true
	case length == 0:
		return r.place.endFits(sn)
	}
	return r.place.fits(sn, length, r.expected, r.end)
}

// store stores a payload, or notes the end.
func (r *Receiver) store(sn uint64, payload []byte) (actions []Action) {
	if len(payload) == 0 {
		r.end = sn
		return nil
	}
	if !r.options.ErrorCorrection {
		return []Action{Store{SN: uint32(sn), Payload: payload}}
	}
	misplaced, offset := r.place.put(sn, len(payload))
	if misplaced != 0 {
		actions = append(actions, r.mark(misplaced, misplaced))
	}
	return append(actions, Store{SN: uint32(sn), Offset: offset, Payload: payload})
}

// compete: "if the SN matches with the LWSN value, the client competes for sending an ACK to
// confirm the entire window" (§III-C), after a time "obtained from a uniform probability
// distribution function ranging between zero and ARTP_max" (§III-D).
func (r *Receiver) compete(now time.Time, sn uint32) {
	wait := time.Duration(r.random.Int64N(int64(r.options.ARTPMax) + 1))
	r.ack = ack{sn: sn, due: now.Add(wait)}
}

// acknowledge: "If the ARTP expires and the ACK has not been received, the client generates
// and multicasts its own ACK." (§III-D)
func (r *Receiver) acknowledge(now time.Time, actions []Action) []Action {
	if r.ack.sn == 0 || now.Before(r.ack.due) {
		return actions
	}
	sn := r.ack.sn
	r.ack = ack{}
	return append(actions, Multicast{wire.Packet{SN: sn, Type: wire.ACK, LWSN: sn}})
}

// finish ends the transfer when nothing is missing and no ACK is owed.
func (r *Receiver) finish(actions []Action) []Action {
	reason := r.repair.over
	isWhole := r.end != 0 && (len(r.missing) == 0 || !r.options.ErrorCorrection)
	if isWhole && r.ack.sn == 0 {
		reason = Done
	}
	if reason == "" {
		return actions
	}
	r.finished = true
	return append(actions, Finished{Reason: reason, Length: r.place.length(r.end)})
}
