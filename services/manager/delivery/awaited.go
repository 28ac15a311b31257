package delivery

import (
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

// The control streams of all agents break at once where something on the way to this manager does: the agents go on, and come back one after the
// other. Whoever of them is back first cannot do the work of all. An agent whose stream closed is waited for as long as no other is there, for
// then nobody could be told of another tree, and for some time from when the first is.

// streams is how many agents are attached: session agents, and members' relays.
type streams struct{ session, relays int }

// beside counts the agents whose streams tell whether one that closed was a fault of its agent. Members' relays come on ways of their own: that
// one is there says nothing of what is on the way of session agents.
func (s streams) beside(relay bool) int {
	if relay {
		return s.session + s.relays
	}
	return s.session
}

func (s *streams) add(relay bool, more int) {
	if relay {
		s.relays += more
	} else {
		s.session += more
	}
}

func isRelay(agent string) bool {
	_, _, is := identity.ID{Role: identity.Agent, Name: agent}.Relay()
	return is
}

// noteOpen notes that the control stream of an agent is open. One that came when all had long found this manager was not cut off with the
// others, but stands in for them: it need not wait. The desk is locked.
func (d *Desk) noteOpen(agent string, a *Attachment, now time.Time) {
	before, relay := d.agents[agent], isRelay(agent)
	if d.found.IsZero() {
		d.found = now
	}
	if before == nil || before.attachment == nil {
		if d.streams.beside(relay) == 0 {
			until := now.Add(returnPatience)
			if before == nil && now.Sub(d.found) >= returnPatience {
				until = now
			}
			d.awaitUntil(until, relay)
		}
		d.streams.add(relay, 1)
	}
	d.agents[agent] = &presence{attachment: a, heard: now}
}

// awaitUntil has the agents that are not there be waited for until a time, now that the first is: only relays if that is one. A first one that
// goes again does not have the others be waited for anew when it is back. The desk is locked.
func (d *Desk) awaitUntil(until time.Time, relay bool) {
	for name, agent := range d.agents {
		if agent.attachment == nil && agent.awaited.IsZero() && (!relay || isRelay(name)) {
			agent.awaited = until
		}
	}
}

// noteClosed notes that the control stream of an agent has closed. Those that closed just before the last did so for the same reason. The desk
// is locked.
func (d *Desk) noteClosed(agent string, now time.Time) {
	own, relay := d.agents[agent], isRelay(agent)
	own.attachment, own.closed = nil, now
	d.streams.add(relay, -1)
	if d.streams.beside(relay) > 0 {
		own.awaited = now
		return
	}
	for name, other := range d.agents {
		if other.attachment == nil && now.Sub(other.closed) < closedPatience && d.streams.beside(isRelay(name)) == 0 {
			other.awaited = time.Time{}
		}
	}
}

// awaited returns until when an agent is waited for that is not attached. The desk is locked.
func (d *Desk) awaited(agent string, now time.Time) time.Time {
	until := d.found
	if !until.IsZero() {
		until = until.Add(returnPatience)
	}
	if known, has := d.agents[agent]; has {
		until = known.awaited
	}
	if until.IsZero() {
		return now.Add(returnPatience)
	}
	return until
}
