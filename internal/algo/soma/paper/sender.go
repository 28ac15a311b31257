package paper

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// FirstSN is the number of a transfer's first packet.
const FirstSN = 1

// MostPackets is how many packets with payload a transfer can have: numbers do not wrap, and
// one is for the end.
const MostPackets = wire.MaxSN - 1

// farewells is how often a stream's end is sent again, the least timeout apart. "the server never retransmits any data packet" (§III-A),
// since whoever lacks it asks for it; in a stream nobody does, and an ACK tells of one client of a LAN.
const farewells = 3

// phase is what the sender is doing.
type phase int

const (
	idle       phase = iota // nothing is ready to be sent
	sending                 // a window is on its way out
	waiting                 // for the window's ACKs or the timeout
	correcting              // the unicast phase
	finished
)

// Sender is the server: one transfer to all clients of all LANs.
type Sender struct {
	options SenderOptions
	phase   phase
	begun   bool

	ready   uint32 // the last packet that can be sent
	last    uint32 // the end's number once it is known; 0 before
	sent    uint32 // the last packet that was sent
	repeats int    // of a stream's end
	flow    flow
	timer   time.Time // when the wait ends
	lans    lans
	refused refusals // NACKs that were counted
	asked   time.Time
}

// NewSender returns the sender of one transfer.
func NewSender(options SenderOptions) *Sender {
	options = options.withDefaults()
	return &Sender{options: options, flow: newFlow(options.Flow), lans: newLANs(options)}
}

// Step tells the sender what has happened, and returns what is to be done, in this order.
// It is to be called with a nil event when its Deadline has come.
func (s *Sender) Step(now time.Time, event Event) (actions []Action) {
	if s.phase == finished {
		return nil
	}
	if !s.begun {
		s.begun = true
		s.lans.begin(now)
	}
	if s.phase == waiting && !now.Before(s.timer) {
		actions = s.proceed(now, nil) // what comes now comes too late
	}
	switch event := event.(type) {
	case Ready:
		s.note(event)
	case Sent:
		s.wait(now)
	case Packet:
		actions = append(actions, s.take(now, event)...)
	}
	return s.proceed(now, actions)
}

// Deadline is when the sender has to be told the time; zero is when something has happened.
func (s *Sender) Deadline() time.Time {
	switch s.phase {
	case waiting:
		if s.repeats > 0 {
			return s.timer
		}
		return moment.Soonest(s.timer, s.lans.silent())
	case correcting:
		return s.asked.Add(s.options.Linger)
	default:
		return time.Time{}
	}
}

// Window is how many packets the next window has, and Timeout how long its ACKs will be
// waited for, as things stand.
func (s *Sender) Window() int { return s.flow.window }

// Timeout is described at Window.
func (s *Sender) Timeout() time.Duration { return s.flow.timeout }

// note takes what can be sent by now.
func (s *Sender) note(ready Ready) {
	if s.last != 0 {
		return
	}
	s.ready = max(s.ready, min(ready.Packets, MostPackets))
	if ready.Ended || s.ready == MostPackets {
		s.last = s.ready + 1
		s.ready = s.last
	}
}

// wait begins the wait for the window's ACKs: "After a data packet is sent by the server, it
// starts a timer called timeout and immediately it waits until an ACK packet for each
// participating LAN […] or until the timer expires" (§III-C).
func (s *Sender) wait(now time.Time) {
	if s.phase != sending {
		return
	}
	s.phase, s.timer = waiting, now.Add(s.flow.timeout)
	if s.repeats > 0 {
		s.timer = now.Add(s.options.Flow.Timeout)
	}
}

// take is what a packet changes.
func (s *Sender) take(now time.Time, p Packet) (actions []Action) {
	if p.Type == wire.Data && s.yields(p) {
		return s.finish(nil, GroupTaken)
	}
	if p.Type == wire.Data || p.Type == wire.RepairResponse {
		return nil // a server's, no client's
	}
	lan, isNew, known := s.lans.of(p.From.Addr(), now)
	if !known {
		return nil
	}
	if isNew {
		actions = append(actions, Joined{LAN: lan})
	}
	switch p.Type {
	case wire.ACK:
		// It may be there before the caller has said that all is sent.
		if p.SN == s.sent && (s.phase == waiting || s.phase == sending) {
			s.lans.confirm(lan)
		}
	case wire.NACK:
		// "only the first NACK indicating a particular packet loss is considered"
		if p.SN <= s.sent && s.refused.first(p.SN, s.sent) {
			s.flow.nack()
		}
	case wire.RepairRequest:
		actions = append(actions, s.answer(now, p)...)
	}
	return actions
}

// yields reports whether another server, which sends to the same group, is the one that goes
// on: the one that is a window ahead, else the one with the lower address. The paper has one server.
func (s *Sender) yields(p Packet) bool {
	if own := s.options.Address; !own.IsValid() || p.From == own {
		return false
	}
	ahead := int64(p.SN) - int64(s.sent)
	if ahead > DefaultMaxWindow || ahead < -DefaultMaxWindow {
		return ahead > 0
	}
	return s.options.Address.Compare(p.From) > 0
}

// answer answers a request once "the entire file has been transmitted" (§III-A).
func (s *Sender) answer(now time.Time, p Packet) []Action {
	if !s.options.ErrorCorrection || s.last == 0 || s.sent != s.last || p.SN > s.last || s.phase == finished {
		return nil
	}
	s.asked = now
	return []Action{Answer{To: p.From, SN: p.SN, LWSN: s.last}}
}

// proceed does what time and facts allow.
func (s *Sender) proceed(now time.Time, actions []Action) []Action {
	if s.phase == waiting && s.repeats > 0 {
		if !now.Before(s.timer) { // who has the end is gone: ACKs tell nothing
			s.phase = idle
		}
	} else if s.phase == waiting {
		for _, lan := range s.lans.drop(now) {
			actions = append(actions, Dropped{LAN: lan})
		}
		if s.lans.none() {
			return s.finish(actions, NobodyListens)
		}
		s.judge(now)
	}
	if s.phase == finished {
		return actions
	}
	if s.phase == correcting && !now.Before(s.asked.Add(s.options.Linger)) {
		return s.finish(actions, Done)
	}
	if s.phase == idle {
		return s.next(now, actions)
	}
	return actions
}

// judge ends the wait if the window is confirmed or the timer has expired: "A window is only
// confirmed when the server receives one ACK for each participating LAN" (§III-C).
func (s *Sender) judge(now time.Time) {
	switch {
	case s.lans.confirmed():
		s.flow.confirmed()
	case !now.Before(s.timer):
		s.flow.expired()
	default:
		return
	}
	s.phase = idle
}

// next sends the next window, or ends the multicast phase.
func (s *Sender) next(now time.Time, actions []Action) []Action {
	if s.last != 0 && s.sent == s.last {
		if !s.options.ErrorCorrection {
			return s.leave(actions)
		}
		s.phase, s.asked = correcting, now
		return actions
	}
	if s.sent == s.ready {
		return actions
	}
	s.flow.resize()
	first := s.sent + 1
	s.sent += min(uint32(s.flow.window), s.ready-s.sent)
	s.lans.expect(now)
	s.phase = sending
	return append(actions, Transmit{First: first, Last: s.sent, IsEnd: s.sent == s.last, Window: s.flow.window, Timeout: s.flow.timeout})
}

// leave sends the end of a stream again, or ends it.
func (s *Sender) leave(actions []Action) []Action {
	if s.repeats == farewells {
		return s.finish(actions, s.outcome())
	}
	s.repeats++
	s.phase = sending
	return append(actions, Transmit{First: s.last, Last: s.last, IsEnd: true, Window: 1, Timeout: s.options.Flow.Timeout})
}

func (s *Sender) finish(actions []Action, reason Reason) []Action {
	if reason == Done {
		reason = s.outcome()
	}
	s.phase = finished
	return append(actions, Finished{Reason: reason})
}

// outcome tells a stream that was cut because no numbers are left from one that ended.
func (s *Sender) outcome() Reason {
	if s.last == wire.MaxSN && !s.options.ErrorCorrection {
		return NumbersSpent
	}
	return Done
}
