package fast

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// ErrLie says that a member reports what cannot be.
var ErrLie = errors.New("report that cannot be true")

// Report takes what a member says, and when that came to this machine. The report was opened with
// the member's own key.
func (s *Sender) Report(id ID, r wire.Reported, now time.Time) error {
	m := s.members[id]
	if r.Seen > s.next || r.Poll > s.polls.last || r.Frontier > s.set.Blocks() || r.Received > s.next || s.claimsTooMuch(r) {
		return fmt.Errorf("%w: poll %d of %d, %d of %d seen, block %d of %d", ErrLie, r.Poll, s.polls.last, r.Seen, s.next, r.Frontier, s.set.Blocks())
	}
	s.counts.Reports++
	m.heard, m.unanswered = now, 0
	if m.isSilent {
		m.isSilent = false
		m.missed += int(s.next - m.number)
		m.number = s.next // what it missed meanwhile is not on its way
		m.vain = vain{}
	}
	s.polls.unheard = 0
	if s.gains(m, r) || !s.listens(r, now) {
		m.vain = vain{}
	}
	m.taken = r.Taken
	m.frontier = max(m.frontier, r.Frontier)
	s.measure(id, r, now)
	s.follow(id, r)
	if m.outcome == Running && r.State == wire.Receiving {
		s.wants(m, r, now)
	}
	return nil
}

// gains reports whether a member has more than before, or misses nothing that was sent. That polls get to it says nothing:
// they are small, and get through where packets do not.
func (s *Sender) gains(m *member, r wire.Reported) bool {
	if r.Taken == 0 && r.Received > m.received {
		return true
	}
	return r.Frontier > m.frontier || r.Frontier >= s.passed || r.State != m.state || r.Taken != m.taken
}

// listens reports whether a member has heard a poll of late. One that has not, and reports, has a disk that holds it up, and takes
// nothing from the network meanwhile: nobody knows whether anything gets to it.
func (s *Sender) listens(r wire.Reported, now time.Time) bool {
	at, _, known := s.polls.of(r.Poll)
	return known && now.Sub(at) <= 2*(max(maxPollGap, s.polls.least)+s.polls.roundTrip)
}

// claimsTooMuch reports whether somebody has landed what was not sent.
func (s *Sender) claimsTooMuch(r wire.Reported) bool {
	return r.State != wire.Receiving && r.State != wire.Failed && r.Frontier != s.set.Blocks()
}

// measure learns of the way to a member from its answer.
func (s *Sender) measure(id ID, r wire.Reported, now time.Time) {
	m := s.members[id]
	at, number, ok := s.polls.of(r.Poll)
	if !ok || r.Poll <= m.answered {
		return
	}
	roundTrip := max(now.Sub(at)-r.Held, time.Microsecond)
	if m.roundTrip == 0 {
		m.roundTrip = roundTrip
	}
	m.roundTrip += (roundTrip - m.roundTrip) / 4
	m.waits = roundTrip - m.base.note(roundTrip, now)
	m.delay += (m.waits - m.delay) / 4
	if s.polls.answers(id, s) || m.answered < m.asked && r.Poll >= m.asked { // it was to answer at once
		m.held = min(r.Held, mostLate)
		m.late += (m.held - m.late) / 8
	}
	answer := Answer{Waited: m.waits}
	if m.answered > 0 && number > m.number {
		passed := number - m.number
		// No more can have come than was sent: else one that tells less and more by turns would outweigh all others.
		came := min(r.Received-min(r.Received, m.received), passed)
		answer.Lost, answer.Told = m.tell(passed, came)
		m.missed += int(passed - came)
		m.perSend += (at.Sub(m.sentAt)/time.Duration(passed) - m.perSend) / 4
		answer.PerSend = m.perSend
		if m.counts() {
			s.breaker.note(passed, came)
		}
	}
	if m.answered == 0 {
		m.first, m.firstReceived = number, r.Received
	}
	m.passed = number - min(number, m.first)
	m.answered, m.number, m.sentAt, m.received, m.seen = r.Poll, max(m.number, number), at, max(m.received, r.Received), r.Seen
	if id == s.polls.slowest && s.polls.spared > 0 {
		s.another(now) // it may only have missed a question
	}
	if !m.counts() {
		return
	}
	s.slowest(id)
	s.drain.answered(number)
	if !s.drain.isOn {
		answer.Number = s.answered()
		s.window.Answer(answer, s.next)
	}
}

// answered is the number up to which all members have answered that answer every poll: a round is over when the
// slowest has judged it, too.
func (s *Sender) answered() uint64 {
	least := s.next
	for id, m := range s.members {
		if m.counts() && s.polls.answers(ID(id), s) {
			least = min(least, m.number)
		}
	}
	return least
}

// slowest finds out which member is the slowest: its round trip is what polls and pace go by.
func (s *Sender) slowest(id ID) {
	p := &s.polls
	m, before := s.members[id], s.members[p.slowest]
	least := s.takes(before)
	if id == p.slowest || !before.counts() || !s.isOverdue(before) && s.takes(m) > least+least/4+500*time.Microsecond {
		p.slowest, p.roundTrip, p.spared = id, m.roundTrip, 0 // it was heard of just now
	}
}

// takes is how long it takes until a member answers. Of many, only the slowest answers every poll: it may be one whose disk holds it up.
func (s *Sender) takes(m *member) time.Duration {
	if len(s.members) <= manyMembers {
		return m.roundTrip
	}
	return m.roundTrip + m.held
}

// follow notes how far a member is, and answers what it waits for.
func (s *Sender) follow(id ID, r wire.Reported) {
	m := s.members[id]
	if m.outcome == Unknown && !m.left && !m.isStarved() && r.State < wire.Complete {
		m.outcome = Running // it is back
	}
	m.state = max(m.state, r.State)
	switch r.State {
	case wire.Landed:
		if s.sealed {
			s.mail = append(s.mail, Decision{Do: SendSeal, Member: id})
		}
	case wire.Complete, wire.Failed:
		if m.outcome == Running || m.outcome == Unknown && !m.left {
			m.conclude(r, s.root, s.sealed)
		}
		s.mail = append(s.mail, Decision{Do: SendBye, Member: id})
	}
}

// conclude takes the member's receipt: only one that quotes the root counts.
func (m *member) conclude(r wire.Reported, root [wire.RootSize]byte, sealed bool) {
	m.root, m.reason = r.Root, r.Reason
	m.outcome = Complete
	switch {
	case r.State == wire.Failed:
		m.outcome = Failed
	case !sealed || r.Root != root:
		m.outcome, m.reason = Failed, wire.Damaged
	}
}

// wants takes what a member asks for. What was not sent yet nobody can miss.
func (s *Sender) wants(m *member, r wire.Reported, now time.Time) {
	several, near := s.listeners() > 1, max(s.near(now), m.from)
	asked, runs := 0, uint32(runMost)
	for _, w := range r.Wants {
		switch {
		case w.Block >= s.passed:
		case m.detached && (w.Run > 0 || !s.indulges(m, asked)):
			if w.Run == 0 && s.passed < s.set.Blocks() { // it asks again
				continue
			}
			count := min(max(uint32(w.Run), 1), s.passed-w.Block, runs)
			for block := w.Block; block < w.Block+count; block++ {
				s.repair.run(r.Poll, block)
			}
			runs -= count
		case w.Run > 0:
			count := min(uint32(w.Run), s.passed-w.Block, runs)
			asked += s.runs(m, r.Poll, w.Block, count, near)
			runs -= count
		default:
			asked += int(w.Need)
			s.counts.Wants += uint64(w.Need)
			s.repair.want(s.set.Shape, r.Poll, w, several)
		}
	}
	m.wanted += asked
}

// Whole blocks that were sent within the last nearFor are sent again at once, at least nearLeast and at most nearMost of them: before that,
// somebody was away, and waits until the others have everything.
const (
	nearFor   = 100 * time.Millisecond
	nearLeast = 8
	nearMost  = 128
)

// near is the first block of those.
func (s *Sender) near(now time.Time) uint32 {
	return s.passed - min(s.passed, min(max(s.passed-s.polls.passedAt(now.Add(-nearFor)), nearLeast), nearMost))
}

// runMost is of how many whole blocks is taken note that one report asks for: the others are asked for again.
const runMost = maxAsked

// runs takes a want for whole blocks, and returns how many packets are sent again at once for it, as all that are near. So is the head, a
// few times, and is not counted: a member that comes late drops all else before it has that, and all of that would be sent again, too.
func (s *Sender) runs(m *member, poll, first, count, near uint32) (asked int) {
	for block := first; block < first+count; block++ {
		all := s.set.all(block)
		if zeros := s.zeros(block); zeros > 0 { // one word repairs all of them
			s.repair.want(s.set.Shape, poll, wire.Want{Block: block, Need: uint8(bits.OnesCount64(all)), Missing: all}, false)
			block += min(zeros, first+count-block) - 1
			asked++
			continue
		}
		switch isHead := block < s.set.Head && m.heads < askedTwice*s.set.Head; {
		case block >= near:
			asked += bits.OnesCount64(all)
		case isHead && s.repair.begins(poll, block):
			m.heads++
		case !isHead:
			m.whole += bits.OnesCount64(all)
			s.repair.run(poll, block)
			continue
		}
		s.repair.want(s.set.Shape, poll, wire.Want{Block: block, Need: uint8(bits.OnesCount64(all)), Missing: all}, false)
	}
	return asked
}

// running is how many have not ended, as far as is known.
func (s *Sender) running() (count int) {
	for _, m := range s.members {
		if m.outcome == Running {
			count++
		}
	}
	return count
}

// listeners is how many want something.
func (s *Sender) listeners() (count int) {
	for _, m := range s.members {
		if m.outcome == Running && m.state == wire.Receiving && !m.isSilent {
			count++
		}
	}
	return count
}
