package roster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
)

// hasPlace reports whether a client was let in and is still here.
func (c *Client) hasPlace(now time.Time) bool {
	return c.isHere(now) && !c.queued && !c.yielded
}

// isHere reports whether a client is attached, or was cut off just now: it keeps its place, or its turn in the queue, for a moment.
func (c *Client) isHere(now time.Time) bool {
	return c != nil && (c.session != nil || !c.parted && now.Sub(c.left) < policy.PlaceFor)
}

// comeIn decides whether a client that attaches has to wait, or is refused. One that gave up its place and is back has no place and waits
// for none: it may have nothing to send. One that has its place keeps it, even if the link is said to carry less than all that have one
// were promised, unless it wants more than before.
func (r *Roster) comeIn(rules policy.Policy, name string, share policy.Share, now time.Time) (queued bool, err error) {
	client := r.clients[name]
	switch {
	case client.isHere(now) && client.yielded, client.hasPlace(now) && share.Minimum <= client.Share.Minimum:
		return false, nil
	case rules.Admission == policy.Queue && !client.hasPlace(now) && r.isBehind(name, share, now):
		return true, nil
	}
	return r.admit(rules, name, share, now)
}

// admit decides whether a client's minimum fits beside those of the others that have places. If not, the client is refused or has to
// wait, as the policy says. Clients that give up their places for it are treated as before until they go on.
func (r *Roster) admit(rules policy.Policy, name string, share policy.Share, now time.Time) (queued bool, err error) {
	places := r.places(name, now)
	room := rules.RoomFor(share, places)
	if !room.Fits && rules.Admission == policy.Refuse {
		return false, r.refusal(rules, share, places)
	}
	for _, other := range room.Given {
		r.clients[other].yielded = true
		r.Log.Info("a client that brings nothing gives up its place to one that waits", "client", other, "to", name)
	}
	return !room.Fits, nil
}

// refusal says why there is no place for a client. If those that are attached leave room for it, that is only for a moment.
func (r *Roster) refusal(rules policy.Policy, share policy.Share, places []policy.Place) error {
	there := slices.DeleteFunc(places, func(one policy.Place) bool { return r.clients[one.Client].session == nil })
	room := rules.RoomFor(share, there)
	if room.Fits {
		return ErrKept
	}
	return fmt.Errorf("%w (%v of %v)", ErrRefused, room.Taken, rules.Link)
}

// places returns the places of all clients but one.
func (r *Roster) places(but string, now time.Time) (places []policy.Place) {
	for name, other := range r.clients {
		if name != but && other.hasPlace(now) {
			places = append(places, policy.Place{Client: name, Share: other.Share, Silent: other.silent(now)})
		}
	}
	return places
}

// silent returns for how long a client has neither brought nor begun anything.
func (c *Client) silent(now time.Time) time.Duration {
	last := c.brought
	for _, upload := range c.uploads {
		last = moment.Latest(last, upload.broughtAt())
	}
	return now.Sub(last)
}

// begins returns when an upload that is opened counts as having brought something: now, unless a client that gave up its place opens
// again what goes on, as after its session broke. It may have nothing to send.
func (c *Client) begins(goesOn bool) time.Time {
	if goesOn && c.yielded {
		return time.Time{}
	}
	return time.Now()
}

// isHeldUp reports whether it is because of the gatherer that a client brings nothing; reads is whether it reads what it has of the client's
// already.
func (c *Client) isHeldUp(now time.Time, reads bool) bool {
	if c.order.paused == TooMuch {
		return false // it is for the client to remove something
	}
	for _, upload := range c.uploads {
		if upload.isHeldUp() {
			return true
		}
	}
	return reads || c.concluding > 0 || c.waitsFor(now) == DiskFull
}

// isBehind reports whether a client that attaches has to wait because others do that come before it. If whoever fits were let in past
// them, they might wait for ever.
func (r *Roster) isBehind(name string, share policy.Share, now time.Time) bool {
	if share.Minimum == 0 {
		return false // it takes no room that others wait for
	}
	for _, other := range r.clients {
		if other.Name != name && other.isHere(now) && other.queued && other.Share.Priority >= share.Priority {
			return true
		}
	}
	return false
}

// Review gives every client the share that the policy has for it now, ends connections that are more than it permits, and lets in those
// that wait and fit: the highest priority first, and within a priority whichever came first. A client that gave up its place and goes on
// is one of those that wait: it came when it went on. One that is cut off for a moment keeps its turn: who comes after it waits, as it
// might wait for ever if each such moment were used. Where places are refused by now, whoever waits and does not fit is sent away.
func (r *Roster) Review() {
	r.mu.Lock()
	defer r.mu.Unlock()
	rules, revision := r.Policy.Get()
	now, attached, reading, recount := time.Now(), r.attached(), r.reading(), false
	for _, client := range attached {
		groups, _ := r.groupsOf(client.Name, client.session.Peer) // they were known when it attached
		client.share(rules, revision, groups)
		recount = recount || client.hasNewBound()
		client.repace()
		client.limit(now)
		client.look(now, reading[client.Name])
	}
	if recount {
		r.haveCounted()
	}
	inTurn := slices.Concat(attached, r.missed(now))
	slices.SortStableFunc(inTurn, func(a, b *Client) int {
		return cmp.Or(cmp.Compare(b.Share.Priority, a.Share.Priority), a.waits.Compare(b.waits))
	})
	blocked := false // by a client that comes first and does not fit yet
	for _, client := range inTurn {
		if client.session == nil {
			blocked = blocked || rules.Admission == policy.Queue // else nobody has a turn any more
			continue
		}
		if client.queued && (!blocked || client.Share.Minimum == 0) {
			queued, err := r.admit(rules, client.Name, client.Share, now)
			if err != nil {
				r.Log.Info("a client that waits is sent away: places are refused now", "client", client.Name, "error", err)
				client.putOut(Refused)
				client.queued, client.order.paused = false, ""
				continue
			}
			client.queued, client.brought = queued, now
			blocked = blocked || queued
			if !client.queued {
				client.promiseAll()
			}
		}
		r.retell(client)
	}
}

// rated is what a client's share was found by: while that is the same, thousands of rules need not be looked through for thousands of
// clients.
type rated struct {
	known    bool
	revision uint64 // of the policy
	groups   []string
}

// labelling is the labels that a client attached with.
type labelling struct {
	labels     map[string]string
	byOperator bool // an operator said them, and not the client itself
}

// mostLabels is how many bytes the labels of a client may take in memory, where all are whether they count or not. Each takes
// labelBytes beside its name and value.
const (
	mostLabels = 64 << 10
	labelBytes = 64
)

// label returns the labels that a peer says a client has.
func label(labels map[string]string, peer identity.ID) (labelling, error) {
	bytes := 0
	for name, value := range labels {
		bytes += len(name) + len(value) + labelBytes
	}
	if bytes > mostLabels {
		return labelling{}, fmt.Errorf("%w: its %d labels take %d bytes, with %d for each: want at most %d", ErrLabels, len(labels), bytes, labelBytes, mostLabels)
	}
	return labelling{maps.Clone(labels), peer.Role == identity.Operator}, nil
}

// counted returns the labels if a policy lets them count.
func (l labelling) counted(rules policy.Policy) map[string]string {
	if l.byOperator || rules.TrustLabels {
		return l.labels
	}
	return nil
}

// share gives a client the share that a policy has for it.
func (c *Client) share(rules policy.Policy, revision uint64, groups []string) {
	if c.rated.known && c.rated.revision == revision && slices.Equal(c.rated.groups, groups) {
		return
	}
	c.Share = rules.ShareFor(policy.Client{Name: c.Name, Labels: c.labels.counted(rules), Groups: groups})
	c.rated = rated{true, revision, slices.Clone(groups)}
}

// look notes whether a client that gave up its place goes on, and does not count the time in which the gatherer holds it up.
func (c *Client) look(now time.Time, reads bool) {
	switch {
	case c.yielded && c.silent(now) < policy.PlaceFor:
		c.yielded, c.queued, c.waits = false, true, now // if it kept its first turn, it would come before those that waited meanwhile
	case !c.yielded && c.isHeldUp(now, reads):
		c.brought = now
	}
}

// missed returns the clients that wait and were cut off just now.
func (r *Roster) missed(now time.Time) (missed []*Client) {
	for _, client := range r.clients {
		if client.session == nil && client.isHere(now) && client.queued {
			missed = append(missed, client)
		}
	}
	return missed
}

// attached returns the clients that have a session, in the order of their names.
func (r *Roster) attached() (attached []*Client) {
	for _, name := range slices.Sorted(maps.Keys(r.clients)) {
		if client := r.clients[name]; client.session != nil {
			attached = append(attached, client)
		}
	}
	return attached
}
