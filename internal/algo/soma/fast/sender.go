package fast

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// Slow says what happens to a member that is much slower than the others.
type Slow uint8

// What can happen to it.
const (
	Pace   Slow = iota // all go at its pace
	Detach             // it gets what it misses when the others have all
)

// What a sender goes by.
const (
	// manyMembers is from how many on they take turns in answering.
	manyMembers = 8
	// silence is after how long without an answer nobody waits for a member.
	silence = 250 * time.Millisecond
	// maxPollGap is how long a sender waits with the next poll when nobody answers.
	maxPollGap = 250 * time.Millisecond
	minPollGap = 2 * time.Millisecond
	// idlePollGap is how often members are asked that wait for the source to be hashed.
	idlePollGap = 50 * time.Millisecond
	// breakerLoss, breakerSpan and the pauses: RFC 8084. Where most is lost for a while,
	// nothing is sent for a while.
	breakerLoss  = 0.5
	breakerSpan  = 2 * time.Second
	breakerPause = time.Second
	maxPause     = 16 * time.Second
)

// Settings is what a sender is told.
type Settings struct {
	Shape
	// Zeros are blocks that are nothing but zeros, in order and apart.
	Zeros []Extent
	// Ceiling is the most bytes per second, headers included.
	Ceiling float64
	// Window is the most packets that may be on their way.
	Window int
	Slow   Slow
	// Patience is how long a member may be silent before it is given up.
	Patience time.Duration
	// First is the first block that somebody misses.
	First uint32
	// Head is how many blocks, from the first on, a member needs before it has a place for any other.
	Head uint32
	// Hold has nothing be sent before the root is known: somebody may have all already.
	Hold bool
	// Number is the first number that is free.
	Number uint64
}

// Extent is blocks in a row.
type Extent struct{ First, End uint32 }

// Do is what to do next.
type Do uint8

// What there is to do.
const (
	Wait       Do = iota // until a time, or until something comes
	SendData             // the packets Mask of Block
	SendParity           // Count shards of Block, beginning with First
	SendZero             // that Count blocks from Block on are zeros
	SendPoll             // Poll
	SendSeal             // to Member
	SendBye              // to Member
	End                  // nothing is left to do, but what Linger says
)

// Decision is what a sender does next. What it sends has numbers from Number on.
type Decision struct {
	Do     Do
	Block  uint32
	Mask   uint64
	First  int
	Count  int
	Number uint64
	Repair bool
	Poll   wire.Polled
	Member ID
	Until  time.Time
}

// packets is how many numbers it takes.
func (d Decision) packets() int {
	switch d.Do {
	case SendData:
		return bits.OnesCount64(d.Mask)
	case SendParity:
		return d.Count
	case SendZero, SendPoll:
		return 1
	}
	return 0
}

// Counts is what was sent.
type Counts struct {
	Packets, Repairs, Polls, Reports, Wants, Trips uint64
	Timeouts                                       uint64 // members that were not heard of for so long that nobody waits for them
}

// Sender decides what is sent.
type Sender struct {
	set     Settings
	members []*member
	next    uint64
	root    [wire.RootSize]byte
	sealed  bool

	began  uint32 // the first block that was sent
	passed uint32 // blocks before it were sent
	part   uint64 // packets of that block that were sent
	repair repairs
	mail   []Decision // to single members

	window    Window
	pace      pace
	polls     polls
	hold      hold
	drain     drain
	strangers strangers
	breaker   breaker
	counts    Counts
	judged    time.Time
	watched   time.Time // when it was looked who is silent
	sent      uint64    // when it was judged
	aimed     time.Time // when packets were sent last
}

// NewSender returns a sender that has nobody to send to yet.
func NewSender(set Settings, now time.Time) (*Sender, error) {
	if _, err := ShapeOf(set.Length, set.Packet+wire.Overhead); err != nil {
		return nil, err
	}
	if set.Ceiling <= 0 || set.Window < 1 || set.Patience <= 0 {
		return nil, fmt.Errorf("a ceiling of %g bytes per second, a window of %d packets, a patience of %v: all have to be positive", set.Ceiling, set.Window, set.Patience)
	}
	first := min(set.First, set.Blocks())
	s := &Sender{
		set: set, next: set.Number, began: first, passed: first, hold: hold{isOn: set.Hold},
		window: NewWindow(set.Window), repair: repairs{blocks: map[uint32]*repair{}, cursors: cursors{}},
	}
	s.pace = pace{ceiling: set.Ceiling / float64(set.Packet+wire.Overhead+headers), at: now}
	s.polls = polls{roundTrip: time.Millisecond, at: now, least: time.Duration(float64(time.Second) / pollShare / s.pace.ceiling)}
	s.breaker.begun, s.breaker.pause, s.aimed = now, breakerPause, now
	return s, nil
}

// headers is how many bytes IP and UDP add.
const headers = 28

// Join takes a member in. A member that was away and joins again is a new one.
func (s *Sender) Join(now time.Time) ID {
	s.members = append(s.members, &member{served: s.next, heard: now, seen: s.next, number: s.next, from: s.passed})
	s.polls.soon()
	return ID(len(s.members) - 1)
}

// Leave gives a member up: another took its place.
func (s *Sender) Leave(id ID) { s.members[id].outcome, s.members[id].left = Unknown, true }

// Return takes back a member that was given up: what took its place was another. It counts again once it reports.
func (s *Sender) Return(id ID) { s.members[id].left = false }

// Take takes a number for something else that is sent to the group, as one more packet of what the ceiling allows.
func (s *Sender) Take() uint64 {
	s.pace.take(1)
	s.next++
	return s.next - 1
}

// Seal tells the root, once it is known.
func (s *Sender) Seal(root [wire.RootSize]byte) {
	s.root, s.sealed = root, true
	for id, m := range s.members {
		if m.state == wire.Landed {
			s.mail = append(s.mail, Decision{Do: SendSeal, Member: ID(id)})
		}
	}
	s.polls.soon()
}

// Member returns what is known of a member.
func (s *Sender) Member(id ID) Status {
	m := s.members[id]
	return Status{
		Outcome: m.outcome, Reason: m.reason, Root: m.root, Blocks: m.frontier, Lost: m.total(s.next),
		Wait: m.waits, Detached: m.detached, Silent: m.isSilent,
	}
}

// Members is how many have joined.
func (s *Sender) Members() int { return len(s.members) }

// Passed is how many blocks need not be sent for the first time any more.
func (s *Sender) Passed() uint32 { return s.passed }

// Began is the first block that was sent.
func (s *Sender) Began() uint32 { return s.began }

// Holds reports whether nothing is sent before the root is known.
func (s *Sender) Holds() bool { return s.hold.isOn || s.awaitsRoot() }

// awaitsRoot reports whether nobody is left that misses anything, and somebody has all and waits for the root: it came late, and whom the
// blocks were sent to is gone.
func (s *Sender) awaitsRoot() bool {
	hasLanded := func(m *member) bool { return m.outcome == Running && m.state == wire.Landed }
	return !s.sealed && s.listeners() == 0 && slices.ContainsFunc(s.members, hasLanded)
}

// Counts returns what was sent so far.
func (s *Sender) Counts() Counts { return s.counts }

// Window returns how many packets may be on their way.
func (s *Sender) Window() int { return s.window.Packets() }

// Next decides what is done next: at most so many packets; none while what is upcoming cannot be read.
func (s *Sender) Next(now time.Time, most int) Decision {
	s.watch(now)
	if most == 0 {
		s.polls.isIdle = true
	}
	if len(s.mail) > 0 {
		d := s.mail[0]
		s.mail = s.mail[1:]
		return d
	}
	if s.isOver() {
		return Decision{Do: End}
	}
	if s.polls.isDue(now) {
		return s.poll(now)
	}
	room := min(most, s.room(now))
	if room > 0 {
		if d, ok := s.piece(room); ok {
			return s.sends(d, now)
		}
	}
	if s.polls.since > 0 && (room > 0 || s.isClosed() && !s.isAsked()) {
		return s.poll(now) // nothing more can be sent before somebody answers
	}
	if most == 0 {
		return Decision{Do: Wait, Until: moment.Latest(now, s.polls.next())}
	}
	return Decision{Do: Wait, Until: s.until(now, room)}
}

// Upcoming returns the block of which packets or parity are sent next, if any are.
func (s *Sender) Upcoming() (block uint32, is bool) {
	if s.Holds() {
		return 0, false
	}
	block, is = s.repair.upcoming()
	switch {
	case is:
	case s.passed < s.set.Blocks():
		block, is = s.passed, true
	default:
		block, is = s.repair.refill.first()
	}
	return block, is && s.zeros(block) == 0
}

// sends gives a decision its numbers.
func (s *Sender) sends(d Decision, now time.Time) Decision {
	n := d.packets()
	s.aim(d, now)
	d.Number = s.next
	s.next += uint64(n)
	s.counts.Packets += uint64(n)
	if d.Repair {
		s.counts.Repairs += uint64(n)
	}
	s.pace.take(n)
	s.polls.since += n
	return d
}

// piece is what is sent next: what was lost first, then what is new, then what members
// miss that were away.
func (s *Sender) piece(room int) (Decision, bool) {
	if s.hold.isOn {
		return Decision{}, false
	}
	poll := s.polls.last
	if d, ok := s.repair.next(poll, room); ok {
		return s.zeroed(d), true
	}
	if s.passed < s.set.Blocks() {
		return s.first(room), true
	}
	if d, ok := s.repair.again(s.set.Shape, poll, room); ok {
		return s.zeroed(d), true
	}
	return Decision{}, false
}

// first is what is sent for the first time.
func (s *Sender) first(room int) Decision {
	if s.part == 0 {
		if zeros := s.zeros(s.passed); zeros > 0 {
			d := Decision{Do: SendZero, Block: s.passed, Count: int(zeros)}
			s.passed += zeros
			return d
		}
	}
	all := s.set.all(s.passed)
	d := Decision{Do: SendData, Block: s.passed, Mask: lowest(all&^s.part, room)}
	if s.part |= d.Mask; s.part == all {
		s.passed, s.part = s.passed+1, 0
	}
	return d
}

// zeros is how many blocks of zeros begin with one.
func (s *Sender) zeros(block uint32) uint32 {
	at, _ := slices.BinarySearchFunc(s.set.Zeros, block, func(e Extent, block uint32) int { return cmp.Compare(e.End, block+1) })
	if at == len(s.set.Zeros) || s.set.Zeros[at].First > block {
		return 0
	}
	return s.set.Zeros[at].End - block
}

// zeroed has a block of zeros repaired by saying so, and with it all that follow in a row: a member that has not heard of the one has not
// heard of them.
func (s *Sender) zeroed(d Decision) Decision {
	zeros := min(s.zeros(d.Block), s.passed-d.Block)
	if zeros == 0 {
		return d
	}
	s.repair.zeroed(d.Block, d.Block+zeros)
	return Decision{Do: SendZero, Block: d.Block, Count: int(zeros), Repair: true}
}

// outstanding is how many numbers the slowest that counts may not have seen yet, and whether
// there is anybody that counts.
func (s *Sender) outstanding() (count uint64, anybody bool) {
	for id, m := range s.members {
		if !m.counts() || !s.polls.answers(ID(id), s) {
			continue
		}
		lacks := s.next - m.number
		if ID(id) == s.polls.slowest && s.polls.spared > 0 { // its answer may be lost: it is asked once more before all wait for it
			lacks = min(lacks, (s.next-s.polls.spared)/3)
		}
		count, anybody = max(count, lacks), true
	}
	return count, anybody
}

// limit is how many packets may be on their way now.
func (s *Sender) limit() int {
	if s.drain.isOn {
		return leastWindow
	}
	return s.window.Packets()
}

func (s *Sender) isClosed() bool {
	count, anybody := s.outstanding()
	return !anybody || count >= uint64(s.limit())
}

// isAsked reports whether an answer is awaited that may open the window.
func (s *Sender) isAsked() bool {
	for id, m := range s.members {
		if m.counts() && s.polls.answers(ID(id), s) && m.answered < s.polls.last {
			return true
		}
	}
	return false
}

// room is how many packets window, pace and breaker allow.
func (s *Sender) room(now time.Time) int {
	if now.Before(s.breaker.until) {
		return 0
	}
	count, anybody := s.outstanding()
	limit := uint64(s.limit())
	if !anybody || count >= limit {
		s.window.Limit()
		return 0
	}
	s.pace.set(s.window.packets, s.polls.roundTrip)
	return min(s.pace.room(now), int(limit-count))
}

// until is when there may be something to do, if nothing comes.
func (s *Sender) until(now time.Time, room int) time.Time {
	until := s.polls.next()
	if room == 0 && !s.isClosed() && s.hasWork() {
		until = moment.Soonest(until, s.pace.next(now))
	}
	if until.Before(now) {
		return now
	}
	return until
}

func (s *Sender) hasWork() bool {
	return !s.hold.isOn && (s.passed < s.set.Blocks() || len(s.repair.queue) > 0 || len(s.repair.refill) > 0)
}

// behind is the first block that somebody misses.
func (s *Sender) behind() uint32 {
	behind := s.passed
	for _, m := range s.members {
		if m.outcome == Running {
			behind = min(behind, m.frontier)
		}
	}
	return behind
}

// isOver reports whether it is known how it went for everybody.
func (s *Sender) isOver() bool {
	for _, m := range s.members {
		if m.outcome == Running {
			return false
		}
	}
	return len(s.members) > 0
}
