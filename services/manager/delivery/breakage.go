package delivery

import (
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// breakage is when the control streams of all session agents closed at once, as they do where something on the way to this manager is started
// anew. The agents go on, and come back one after the other: whoever is first cannot do the work of all. So they are waited for, but not for long,
// whoever comes and goes meanwhile: they may be gone for good.
type breakage struct {
	began    time.Time // who closed since then did so for the same reason
	until    time.Time // until then it is no fault of theirs
	returned bool      // one of them was back
}

// waits returns until when an agent is waited for that closed at a time; zero if it is not.
func (b breakage) waits(closed time.Time) time.Time {
	if closed.Before(b.began) {
		return time.Time{}
	}
	return b.until
}

// isRelay reports whether an agent is a member that relays. Such come on ways of their own.
func isRelay(agent string) bool {
	_, _, is := identity.ID{Role: identity.Agent, Name: agent}.Relay()
	return is
}

// noteOpen notes that the control stream of an agent is open. The desk is locked.
func (d *Desk) noteOpen(agent string, a *Attachment, now time.Time) {
	if before := d.agents[agent]; !isRelay(agent) && (before == nil || before.attachment == nil) {
		if d.streams++; now.Before(d.broken.until) && !d.broken.returned {
			d.broken.until, d.broken.returned = now.Add(returnPatience), true
		}
	}
	d.agents[agent] = &presence{attachment: a, heard: now}
}

// noteClosed notes that the control stream of an agent has closed. If another of its streams is open and lately heard, that one takes its place:
// the agent may have opened it later, and this manager may have learnt of the two the other way round. The desk is locked.
func (d *Desk) noteClosed(agent string, now time.Time) {
	if other := d.lastHeard(agent); other != nil && now.Sub(other.heard) < silentPatience {
		d.agents[agent].attachment = other
		return
	}
	d.agents[agent].attachment, d.agents[agent].closed = nil, now
	if isRelay(agent) {
		return
	}
	d.streams--
	if d.streams > 0 || now.Before(d.broken.until) {
		return
	}
	for name, other := range d.agents {
		if name != agent && !isRelay(name) && now.Sub(other.closed) < closedPatience {
			d.broken = breakage{began: now.Add(-closedPatience), until: now.Add(returnPatience)}
		}
	}
}

// lastHeard returns that of an agent's open control streams by which it last said anything; nil if none is open. One that is silent may be dead:
// if it is not, it takes the place when it is heard. The desk is locked.
func (d *Desk) lastHeard(agent string) (last *Attachment) {
	for a := range d.attached[seat{id: placement.AgentID(agent)}] {
		if last == nil || a.heard.After(last.heard) {
			last = a
		}
	}
	return last
}
