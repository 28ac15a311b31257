package delivery

import (
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
)

const (
	// closedPatience is how long an agent's control stream may be closed: time to open another.
	closedPatience = 500 * time.Millisecond
	// returnPatience is how long agents are waited for whose streams closed at once, and how long the others once the first of them is back.
	returnPatience = 5 * time.Second
	// silentPatience is how long an agent may be silent once a neighbour reports it lost.
	silentPatience = 2500 * time.Millisecond
	// blamedPatience is how long a neighbour may report an agent lost that the manager still hears.
	blamedPatience = 1500 * time.Millisecond
	// fullPatience is how long the disk of an agent's cache may have no room: a moment, as a neighbour may blame it, in which others may make some.
	fullPatience = blamedPatience
	// idlePatience is how long an agent may move nothing that could.
	idlePatience = 15 * time.Second
	// banTime is how long an agent that was lost stays out of a delivery, and how long a neighbour is not believed whose word alone had an
	// agent removed.
	banTime = 30 * time.Second
)

// sight is what the manager sees of an agent.
type sight struct {
	online   bool // registered, with an address
	goodbye  bool
	attached bool
	closed   time.Time // when its control stream closed; zero while it is open or was not yet, in this term
	waits    time.Time // until when it is waited for since then, as its stream closed with those of all others; zero if it is not
	heard    time.Time
	blamed   time.Time // since when a neighbour in the delivery says that it cannot be reached; zero if none
	evicted  bool      // the agent that feeds it gave it up as too slow
	full     time.Time // since when it says that the disk of its cache has no room; zero if it does not
	idle     time.Time // since when it moves nothing in the delivery, though it lives and could; zero if it moves something
	fed      time.Time // when a node that it feeds last got more, in any delivery
}

// Why an agent is taken out of a tree.
const (
	causeOffline = "agent_offline"
	causeClosed  = "agent_closed"
	causeSilent  = "agent_silent"
	causeBlamed  = "agent_unreachable"
	causeSlow    = "agent_slow"
	causeIdle    = "agent_idle"
	causeFull    = "agent_full"
)

// lost returns why an agent counts as lost or, if it does not, when it may.
func (s sight) lost(now time.Time) (cause string, due time.Time) {
	after := func(since time.Time, patience time.Duration) bool {
		if since.IsZero() {
			return false
		}
		if end := since.Add(patience); now.Before(end) {
			due = moment.Soonest(due, end)
			return false
		}
		return true
	}
	switch {
	case !s.online || s.goodbye:
		return causeOffline, time.Time{}
	case s.evicted:
		return causeSlow, time.Time{}
	case !s.attached && !s.closed.IsZero() && after(moment.Latest(s.closed.Add(closedPatience), s.waits), 0):
		return causeClosed, time.Time{}
	case !s.idle.IsZero() && after(moment.Latest(s.idle, s.fed), idlePatience):
		return causeIdle, time.Time{}
	case after(s.full, fullPatience):
		return causeFull, time.Time{}
	case s.blamed.IsZero(), now.Before(s.waits): // it is silent anyway, and cannot deny what is said of it
		return "", due
	case after(s.heard, silentPatience):
		return causeSilent, time.Time{}
	case after(s.blamed, blamedPatience):
		return causeBlamed, time.Time{}
	}
	return "", due
}
