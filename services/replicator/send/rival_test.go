package send

import (
	"testing"
	"testing/synctest"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// standing is a sender that has a salt, and has begun, or waits, for so long.
type standing struct {
	salt     byte
	hasBegun bool
	age      time.Duration
}

// longAgo each sender has started that has begun since.
const longAgo = time.Hour

func (s standing) session() *session {
	one := &session{salt: wire.Salt{s.salt}, started: time.Now().Add(-s.age)}
	if s.hasBegun {
		one.started, one.rules, one.began = time.Now().Add(-longAgo), new(algo.Sender), time.Now().Add(-s.age)
	}
	return one
}

// tells is what it tells another, which hears it later.
func (s standing) tells(later time.Duration) wire.Fencing {
	f := wire.Fencing{Salt: wire.Salt{s.salt}, Age: s.age - later}
	switch {
	case s.hasBegun && s.age >= later:
		f.Datagram = 1472
	case s.hasBegun:
		f.Age = longAgo // by now it has begun
	}
	return f
}

// goesFirst reports whether a sender goes before another beyond doubt.
func (s standing) goesFirst(other standing) bool {
	if s.hasBegun != other.hasBegun {
		return s.hasBegun
	}
	return s.age-other.age > 2*atOnce
}

// C61: of two senders the one goes on that has begun, of two alike the elder, and else the one with the lower salt; never do
// both end, however late they hear each other.
func TestOneOfTwoYields(t *testing.T) { synctest.Test(t, oneOfTwoYields) }

func oneOfTwoYields(t *testing.T) {
	var all []standing
	for _, hasBegun := range []bool{false, true} {
		for _, age := range []time.Duration{0, 60 * time.Millisecond, 95 * time.Millisecond, 130 * time.Millisecond, time.Minute} {
			all = append(all, standing{1, hasBegun, age}, standing{2, hasBegun, age})
		}
	}
	lates := [][2]time.Duration{{}, {0, 50 * time.Millisecond}, {50 * time.Millisecond, 0}, {20 * time.Millisecond, 30 * time.Millisecond}}
	for _, a := range all {
		for _, b := range all {
			for _, late := range lates {
				if a.salt == b.salt || !a.hasBegun && a.age < late[1] || !b.hasBegun && b.age < late[0] {
					continue // as nobody is, or tells
				}
				aEnds, bEnds := a.session().yieldsTo(b.tells(late[0])), b.session().yieldsTo(a.tells(late[1]))
				isAtOnce := late == [2]time.Duration{}
				if aEnds && bEnds || isAtOnce && !aEnds && !bEnds || aEnds && a.goesFirst(b) || isAtOnce && !bEnds && a.goesFirst(b) {
					t.Errorf("of %+v and %+v, which hear each other %v late, the first ends: %v, the second: %v", a, b, late, aEnds, bEnds)
				}
			}
		}
	}
}

// What is repeated is answered once, and of no more sessions than there may ever be of one key is anything noted.
func TestRepeatedAnnouncementsAreAnsweredOnce(t *testing.T) {
	var r rivals
	for range 2 {
		for number := range uint64(10) {
			if answered := r.isNew(7, number); answered != (r.number == 0) {
				t.Errorf("number %d is answered: %v", number, answered)
			}
		}
		r.number++
	}
	for session := range uint32(1000) {
		r.isNew(session, 0)
	}
	if len(r.heard) != mostRivals {
		t.Errorf("%d sessions are noted", len(r.heard))
	}
}
