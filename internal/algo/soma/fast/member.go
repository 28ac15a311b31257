package fast

import (
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// baseSpan is for how long a shortest round trip counts at least, and twice that at most.
const baseSpan = 2 * time.Second

// ID is a member's number, in the order in which they joined.
type ID uint16

// Outcome is how it went for a member, as far as the sender knows.
type Outcome uint8

// The outcomes.
const (
	Running Outcome = iota
	Complete
	Failed
	Unknown // nothing was heard of it for too long
)

func (o Outcome) String() string {
	return [...]string{"RUNNING", "COMPLETE", "FAILED", "UNKNOWN"}[o]
}

// member is what the sender knows of one.
type member struct {
	outcome  Outcome
	reason   wire.Reason
	state    wire.State
	root     [wire.RootSize]byte
	frontier uint32
	received uint64
	seen     uint64
	detached bool
	left     bool

	served   uint64    // the number from which on it was served for the first time, or again
	heard    time.Time // last
	vain     vain
	taken    uint16 // as it told last
	isSilent bool

	first         uint64 // the number that it told of first
	firstReceived uint64 // how many had come then
	passed        uint64 // how many after that it has told of

	asked      uint32 // poll in which it was its turn
	due        uint32 // the first such poll that it has not answered
	unanswered int    // how often it was its turn, since it was heard of
	answered   uint32 // poll
	number     uint64 // when that was sent
	sentAt     time.Time

	roundTrip time.Duration
	base      shortest
	perSend   time.Duration
	lost      float64       // share, of late
	toldOf    uint64        // packets that this share is not of yet, and
	came      uint64        // how many of them came
	wanted    int           // packets asked for since it was judged last
	missed    int           // packets that did not come to it, as it has told since it was judged last
	earlier   int           // and in the span before: what it asks for may have been lost then
	greedy    int           // spans in a row in which it asked for far more than others
	whole     int           // packets of whole blocks that it asked for since it was judged last, and that can wait
	unasked   int           // spans in a row in which it said that much is lost, and asked for little of it
	heads     uint32        // blocks of the head that it had be sent again
	from      uint32        // the block that was to be sent when it joined
	waits     time.Duration // longer than the shortest round trip, at the last answer
	delay     time.Duration // that, smoothed
	held      time.Duration // how long a question waited for it, the last time: its disk holds it up, or its processor
	late      time.Duration // that, smoothed
}

// tell counts what came of what was sent, and returns the share that was lost when that is
// enough to tell.
func (m *member) tell(passed, came uint64) (share float64, told bool) {
	m.toldOf, m.came = m.toldOf+passed, m.came+came
	share = 1 - float64(m.came)/float64(m.toldOf)
	if m.toldOf < crowdedOver && (m.toldOf < floodedOver || share < flooded) {
		return 0, false
	}
	m.lost += (share - m.lost) / 4
	m.toldOf, m.came = 0, 0
	return share, true
}

// total is which part of all that was sent since its first answer did not come, as far as it has told: also of what was sent
// while it was silent, which nobody is slowed down by. Of one that is silent now, or was given up, nothing is taken to come
// until it tells so. What was sent before it could count is in neither.
func (m *member) total(next uint64) float64 {
	passed := m.passed
	if m.answered > 0 && (m.outcome == Running && m.isSilent || m.outcome == Unknown && !m.left) {
		passed = max(passed, next-min(next, m.first))
	}
	if passed == 0 {
		return 0
	}
	came := m.received - min(m.received, m.firstReceived)
	return 1 - float64(min(came, passed))/float64(passed)
}

// shortest is the shortest round trip of late.
type shortest struct {
	now, before time.Duration // of this span, and of the one before; zero if there was none
	turned      time.Time
	fresh       time.Time // when one was as short, last
}

// note takes a round trip, and returns the shortest of late.
func (s *shortest) note(roundTrip time.Duration, now time.Time) time.Duration {
	if now.Sub(s.turned) > baseSpan {
		s.before, s.now, s.turned = s.now, 0, now
	}
	if s.now == 0 || roundTrip < s.now {
		s.now = roundTrip
	}
	least := s.now
	if s.before != 0 {
		least = min(least, s.before)
	}
	if roundTrip <= least+least/8+200*time.Microsecond {
		s.fresh = now
	}
	return least
}

// vain is what was sent that a member may have missed, since something was of use to it.
type vain struct {
	packets uint64
	time    time.Duration // that this took
}

// Nothing gets to a member if none of so many packets was of use to it, for so long. A pause between two counts as vainMost.
const (
	starvedOf  = 4 * wire.PacketsPerBlock
	starvedFor = 10 * time.Second
	vainMost   = time.Second
)

// aim notes to which members packets may be of use. Whole blocks are sent again lowest first: a member has no use for those before the
// first that it misses, and waits for its turn.
func (s *Sender) aim(d Decision, now time.Time) {
	if d.Do == SendPoll {
		return
	}
	took, end := min(now.Sub(s.aimed), vainMost), d.Block+1
	if s.aimed = now; d.Do == SendZero {
		end = d.Block + uint32(d.Count)
	}
	for _, m := range s.members {
		if m.frontier < end {
			m.vain.packets, m.vain.time = m.vain.packets+uint64(d.packets()), m.vain.time+took
		}
	}
}

// isStarved reports whether nothing new gets to a member that answers, although enough is sent: packets are swallowed on its
// way, as where that carries no large ones any more.
func (m *member) isStarved() bool {
	return m.state == wire.Receiving && m.vain.time > starvedFor && m.vain.packets >= starvedOf
}

// counts reports whether a member is paced by.
func (m *member) counts() bool {
	return m.outcome == Running && m.state == wire.Receiving && !m.isSilent && !m.detached
}

// mayAnswer reports whether polls may be answered: also by one that was given up, and may be back.
func (m *member) mayAnswer() bool { return m.outcome == Running || m.outcome == Unknown && !m.left }

// mayBeBack reports whether a member was given up for its silence. A member that answers, and that nothing gets to, has nothing new to say.
func (m *member) mayBeBack() bool {
	return m.outcome == Unknown && !m.left && (m.isSilent || !m.isStarved())
}

// Status is what is known of a member.
type Status struct {
	Outcome  Outcome
	Reason   wire.Reason
	Root     [wire.RootSize]byte
	Blocks   uint32  // that it has without a gap
	Lost     float64 // of all that was sent since its first answer
	Wait     time.Duration
	Detached bool
	Silent   bool
}
