package fast

import (
	"cmp"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	// judgeSpan is how long members are watched until it is judged which is slow, and judgeLeast how many packets
	// have to be sent meanwhile.
	judgeSpan  = 200 * time.Millisecond
	judgeLeast = 16
	// greedy is what share of what was sent a member may ask for again while no other asks
	// for modest: more is a broken link, or a lie.
	greedy = 0.25
	modest = 0.05
	// lossySpans is for how many spans in a row a member may ask for so much if it says that as much is
	// lost: the window may be too large yet for a short queue, and packets are lost in bursts.
	lossySpans = 5
	// askedTwice is how often a member may ask for what it has told that it did not get: repairs are lost, too.
	askedTwice = 2
	// slower is how much longer packets wait on the way to a slow member than to any other, or questions at it for their answer. There they
	// have to wait for leastLate at least: a busy machine is no slow one. No more than mostLate counts.
	slower    = 4
	leastLate = 50 * time.Millisecond
	mostLate  = time.Second
	// standstill is for how long nobody may have looked for the sender itself to have stood still, as when its process was stopped: nobody
	// was asked meanwhile, and none of that is anybody's silence.
	standstill = time.Second
	// burntFor is for how long nobody is waited for who does not answer in its turn, after the slowest was silent: many may be gone at once.
	burntFor = 3 * time.Second
)

// watch looks which members are silent, which are slow, and whether the network carries anything.
func (s *Sender) watch(now time.Time) {
	s.excuse(now)
	most, isEnough := s.mostFor(), s.strangers.watch(s, now)
	for id, m := range s.members {
		switch {
		case m.outcome != Running:
			continue
		case isEnough, now.Sub(m.heard) > s.set.Patience, !m.isSilent && m.isStarved():
			m.outcome = Unknown
		case m.counts() && s.next-m.served > most:
			m.outcome = Unknown // it asks for ever
		case !m.isSilent && s.isUnheard(ID(id), now):
			m.isSilent = true
			s.counts.Timeouts++
			if ID(id) == s.polls.slowest {
				s.polls.burnt = now
			}
		}
		switch {
		case ID(id) == s.polls.slowest && !m.counts():
			s.another(now)
		case now.Sub(s.polls.burnt) > burntFor && s.isOverdue(m) && !s.isOverdue(s.members[s.polls.slowest]):
			s.polls.slowest, s.polls.chosen = ID(id), now
			s.polls.spared, _ = s.unanswered(m)
		}
	}
	s.judge(now)
	s.attach(now)
	s.hold.watch(s, now)
	s.polls.isIdle = s.Holds() && !s.sealed
	s.drain.watch(s, now)
	if s.breaker.isTripped(now) {
		s.counts.Trips++
		s.window.Again()
	}
}

// excuse gives everybody back the time for which the sender stood still. Who was heard of since is owed less.
func (s *Sender) excuse(now time.Time) {
	stood := now.Sub(s.watched)
	if !s.watched.IsZero() && stood > standstill {
		for _, m := range s.members {
			m.heard = moment.Soonest(m.heard.Add(stood), now)
		}
		s.polls.chosen = moment.Soonest(s.polls.chosen.Add(stood), now)
		if !s.strangers.since.IsZero() {
			s.strangers.since = s.strangers.since.Add(stood)
		}
	}
	s.watched = now
}

// strangers is since when no members are left but such as have joined and never answered; zero while there are others, or none. They
// are waited for together, for one patience: whoever has the key could have one join after the other, without end.
type strangers struct{ since time.Time }

// watch reports whether they were waited for long enough.
func (w *strangers) watch(s *Sender, now time.Time) bool {
	isLeft := false
	for _, m := range s.members {
		if m.outcome == Running && m.answered > 0 {
			w.since = time.Time{}
			return false
		}
		isLeft = isLeft || m.outcome == Running
	}
	switch {
	case !isLeft:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = now
	}
	return isLeft && now.Sub(w.since) > s.set.Patience
}

// mostSent is how many times as many packets as the object has are sent at most while a member is served: as many
// as need be where much is lost, and others come late.
const mostSent = 16

func (s *Sender) mostFor() uint64 {
	return mostSent * wire.PacketsPerBlock * (uint64(s.set.Blocks()) + wire.PacketsPerBlock)
}

// heard is when a member was heard of, or was chosen as the slowest, which every poll asks.
func (s *Sender) heard(id ID) time.Time {
	if id == s.polls.slowest {
		return moment.Latest(s.members[id].heard, s.polls.chosen)
	}
	return s.members[id].heard
}

// isUnheard reports whether nobody waits for a member any more. It was not heard of for a while, and if it answers in its turn, for as long since it was
// asked, and was asked three times.
func (s *Sender) isUnheard(id ID, now time.Time) bool {
	wait, m := max(silence, 8*s.polls.roundTrip, 2*s.polls.least), s.members[id]
	if now.Sub(s.heard(id)) <= wait || s.polls.unheard == 0 {
		return false
	}
	at, _, known := s.polls.of(m.due)
	return s.polls.answers(id, s) || m.unanswered >= 3 && (!known || now.Sub(at) > wait)
}

// isOverdue reports whether a member of many was asked in its turn, and two windows were sent since then without an answer. It is asked by every
// poll until it answers: the question may be lost, and else it is the slowest.
func (s *Sender) isOverdue(m *member) bool {
	since, is := s.unanswered(m)
	return is && s.next-since > 2*uint64(s.window.Packets())
}

// unanswered returns which number was next when a member of many was asked in its turn, if it has not answered since. Who comes late may never
// answer, and nobody waits for that.
func (s *Sender) unanswered(m *member) (since uint64, is bool) {
	if len(s.members) <= manyMembers || !m.counts() || m.answered >= m.due || m.answered == 0 && m.from != s.began {
		return 0, false
	}
	_, since, is = s.polls.of(m.due)
	return since, is
}

// owes is 1 of a member of many that has not answered in its turn yet, and may be gone: one that has answered comes before it.
func (s *Sender) owes(m *member) int {
	if _, owes := s.unanswered(m); owes {
		return 1
	}
	return 0
}

// another chooses the slowest of the members that are left.
func (s *Sender) another(now time.Time) {
	found := false
	for id, m := range s.members {
		if !m.counts() {
			continue
		}
		if best := s.members[s.polls.slowest]; !found || cmp.Or(cmp.Compare(s.owes(best), s.owes(m)), cmp.Compare(s.takes(m), s.takes(best))) > 0 {
			s.polls.slowest, s.polls.chosen, s.polls.spared, found = ID(id), now, 0, true
		}
	}
	if found {
		s.polls.roundTrip = max(s.members[s.polls.slowest].roundTrip, 100*time.Microsecond)
	}
}

// judge detaches a member that asks for far more than all others, one that says for long that much is lost and asks for next to nothing of
// that, and, if that is wanted, one that is far slower. It gets what it misses when the others have everything.
func (s *Sender) judge(now time.Time) {
	sent := s.counts.Packets - s.sent
	if now.Sub(s.judged) < judgeSpan || sent < judgeLeast {
		return
	}
	var all []*member
	for _, m := range s.members {
		if m.counts() && m.answered > 0 {
			all = append(all, m)
		}
	}
	for _, m := range all {
		if m.greedy++; !isGreedy(m, all, sent) {
			m.greedy = 0
		}
		if m.unasked++; m.lost <= flooded || askedTwice*askedTwice*(m.wanted+m.whole) >= m.missed+m.earlier {
			m.unasked = 0
		}
		isHonest := m.lost > crowded || m.wanted <= askedTwice*(m.missed+m.earlier)
		isLossy := isHonest && m.greedy < lossySpans
		isLate := s.set.Slow == Pace && m.late > leastLate/10 && m.greedy < 5*lossySpans // it has lost much before all were paced by it
		if len(all) > 1 && (m.greedy > 0 && !isLossy && !isLate || m.unasked >= lossySpans || s.set.Slow == Detach && isSlow(m, all)) {
			m.detached = true
			s.window.Again()
			break
		}
	}
	for _, m := range s.members {
		m.missed, m.earlier, m.whole = 0, m.missed, 0
		if m.wanted -= int(modest * float64(sent)); !m.detached || m.wanted < 0 {
			m.wanted = 0
		}
	}
	s.judged, s.sent = now, s.counts.Packets
}

// isGreedy reports whether a member asks for far more than all others, where there are any.
func isGreedy(m *member, all []*member, sent uint64) bool {
	asksToo := func(other *member) bool { return other != m && float64(other.wanted) > modest*float64(sent) }
	return len(all) > 1 && float64(m.wanted) > greedy*float64(sent) && !slices.ContainsFunc(all, asksToo)
}

// indulges reports whether a detached member that has asked for so much in this report has what it asks for next be repaired at once: little,
// and most gets to it. What it came too late for would else leave it no room for what comes now.
func (s *Sender) indulges(m *member, asked int) bool {
	return m.lost <= greedy && float64(m.wanted+asked) <= modest*float64(s.counts.Packets-s.sent)
}

func isSlow(m *member, all []*member) bool {
	isFarMore := func(least time.Duration, of func(*member) time.Duration) bool {
		return of(m) > least && !slices.ContainsFunc(all, func(other *member) bool { return other != m && slower*of(other) > of(m) })
	}
	return isFarMore(leastDelay, func(m *member) time.Duration { return m.delay }) || isFarMore(leastLate, func(m *member) time.Duration { return m.late })
}

// attach has the detached be paced by when all others have everything, or are gone.
func (s *Sender) attach(now time.Time) {
	var detached []*member
	for _, m := range s.members {
		switch {
		case m.counts():
			return
		case m.detached && m.outcome == Running && m.state == wire.Receiving && !m.isSilent:
			detached = append(detached, m)
		}
	}
	if len(detached) == 0 {
		return
	}
	for _, m := range detached {
		m.detached, m.number, m.served, m.wanted = false, s.next, s.next, 0
	}
	s.another(now)
	s.window.Again()
}

// drain empties the way now and then, so that the shortest round trip becomes known to all senders that
// share it: without that, one that comes later takes the queue of the others for a part of the way.
type drain struct {
	isOn  bool
	until time.Time
	ends  uint64 // and when this number is answered
	began time.Time
}

const (
	drainFor  = 8 * time.Millisecond
	drainMost = 100 * time.Millisecond
)

func (d *drain) watch(s *Sender, now time.Time) {
	m := &member{}
	if int(s.polls.slowest) < len(s.members) {
		m = s.members[s.polls.slowest]
	}
	switch {
	case d.isOn && (now.After(d.until) && d.ends == 0 || now.Sub(d.began) > drainMost):
		d.isOn = false
	case !d.isOn && m.counts() && m.answered > 0 && now.Sub(m.base.fresh) > baseSpan && now.Sub(d.began) > baseSpan:
		*d = drain{isOn: true, began: now, until: now.Add(drainFor), ends: s.next}
	}
}

func (d *drain) answered(number uint64) {
	if number > d.ends {
		d.ends = 0
	}
}

// breaker stops a sender whose packets do not arrive, whatever the window says.
type breaker struct {
	begun      time.Time
	sent, came uint64
	pause      time.Duration
	until      time.Time
}

func (b *breaker) note(sent, came uint64) { b.sent, b.came = b.sent+sent, b.came+came }

// isTripped reports whether the breaker trips now.
func (b *breaker) isTripped(now time.Time) bool {
	if now.Sub(b.begun) < breakerSpan || now.Before(b.until) {
		return false
	}
	trips := b.sent > 100 && float64(b.came) < (1-breakerLoss)*float64(b.sent)
	b.begun, b.sent, b.came = now, 0, 0
	if !trips {
		b.pause = breakerPause
		return false
	}
	b.until = now.Add(b.pause)
	b.begun, b.pause = b.until, min(2*b.pause, maxPause)
	return true
}
