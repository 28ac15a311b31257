package fast

import (
	"slices"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// pollMemory is how many polls are remembered: answers to earlier ones tell no round trip.
const pollMemory = 1 << 10

// pollShare is the share of the ceiling that polls have at most which leave because time has passed: they take as
// much of the pace as packets, and a low ceiling would have room for nothing else.
const pollShare = 0.05

// polls is what was asked, and when.
type polls struct {
	last      uint32
	at        time.Time // of the last
	since     int       // packets since then
	every     int       // after how many packets the next is due
	unheard   int       // polls in a row that nobody has answered
	now       bool
	isIdle    bool          // nothing is sent for now, and nobody waits for an answer
	roundTrip time.Duration // to the slowest
	least     time.Duration // between two that nobody waits for
	slowest   ID
	chosen    time.Time // when that was
	burnt     time.Time // when the slowest was silent, and all had waited for it
	spared    uint64    // what the slowest may lack counts from this number on until it answers; zero if from where it answered last
	memory    [pollMemory]struct {
		number uint64
		passed uint32
		at     time.Time
	}
}

// soon has the next poll leave at once.
func (p *polls) soon() { p.now = true }

func (p *polls) isDue(now time.Time) bool {
	return p.now || p.since >= max(p.every, 1) || !now.Before(p.next())
}

// next is when a poll is due in any case.
func (p *polls) next() time.Time { return p.at.Add(p.gap()) }

func (p *polls) gap() time.Duration {
	gap := max(minPollGap, p.least, p.roundTrip*3/2)
	if p.isIdle {
		gap = max(gap, idlePollGap)
	}
	return min(gap<<min(p.unheard, 10), max(p.least, maxPollGap))
}

// answers reports whether a member answers every poll.
func (p *polls) answers(id ID, s *Sender) bool {
	return len(s.members) <= manyMembers || id == p.slowest
}

// of returns when a poll was sent, and the number after it.
func (p *polls) of(poll uint32) (at time.Time, number uint64, ok bool) {
	if poll == 0 || poll > p.last || p.last-poll >= pollMemory {
		return time.Time{}, 0, false
	}
	one := p.memory[poll%pollMemory]
	return one.at, one.number, true
}

// passedAt returns how many blocks had been sent at a time, as far as is remembered.
func (p *polls) passedAt(at time.Time) (passed uint32) {
	for poll := p.last; poll > 0 && p.last-poll < pollMemory; poll-- {
		one := &p.memory[poll%pollMemory]
		if passed = one.passed; one.at.Before(at) {
			break
		}
	}
	return passed
}

// poll asks all members.
func (s *Sender) poll(now time.Time) Decision {
	p := &s.polls
	s.counts.Polls++
	if p.last%256 == 0 {
		s.repair.forget(s.behind(), p.last)
	}
	p.last++
	p.at, p.now, p.unheard = now, false, p.unheard+1
	p.every = min(max(s.window.Packets()/4, 4), 256)
	d := s.sends(Decision{Do: SendPoll, Poll: s.asked()}, now)
	p.since = 0
	one := &p.memory[p.last%pollMemory]
	one.number, one.passed, one.at = s.next, s.passed, now
	return d
}

// Linger decides what is done in place of the End while members may come yet: one that was given up, and is back, says so once it is
// asked.
func (s *Sender) Linger(now, until time.Time) Decision {
	if s.polls.isDue(now) && slices.ContainsFunc(s.members, (*member).mayBeBack) {
		return s.poll(now)
	}
	return Decision{Do: Wait, Until: until}
}

// asked is what a poll says.
func (s *Sender) asked() wire.Polled {
	count, slot := max(s.running(), 1), s.polls.roundTrip/4
	if count > manyMembers {
		// A repair has to come before the next would ask for it.
		slot = max(200*time.Microsecond, s.polls.roundTrip*5/4)
	}
	every, turn := s.turn()
	asked := wire.Polled{
		Poll: s.polls.last, Passed: s.passed, Slot: slot, Hold: 2*s.polls.roundTrip + time.Duration(count)*slot,
		Members: uint16(count), Every: uint16(every), Turn: uint16(turn), Slowest: uint16(s.polls.slowest),
	}
	if s.sealed {
		asked.Root = s.root
	}
	return asked
}

// turns is how many polls it takes until each member was asked. Several members answer one poll where polls are so far apart that a
// member would count as silent, or as starved, before its turn came.
func (s *Sender) turns() int {
	if len(s.members) <= manyMembers {
		return 1
	}
	most := min(s.set.Patience, starvedFor) / 3
	return min(max(int(most/s.polls.gap()), 1), len(s.members))
}

// turn says which members are to answer: those whose number is turn, modulo every. It is the turn of the member that was not asked for
// the longest time, of those that may answer: however many have ended, the others are heard.
func (s *Sender) turn() (every, turn int) {
	next := 0
	for id, m := range s.members {
		if m.mayAnswer() && (!s.members[next].mayAnswer() || m.asked < s.members[next].asked) {
			next = id
		}
	}
	every = s.turns()
	turn = next % every
	for id := turn; id < len(s.members); id += every {
		s.members[id].asked = s.polls.last
		s.members[id].unanswered++
		if m := s.members[id]; m.answered >= m.due {
			m.due = s.polls.last
		}
	}
	return every, turn
}
