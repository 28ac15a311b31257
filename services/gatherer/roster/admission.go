package roster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
)

// placeFor is how long the place of a client is kept that is cut off.
const placeFor = 15 * time.Second

// hasPlace reports whether a client was let in, and is there, or was just now.
func (c *Client) hasPlace(now time.Time) bool {
	return c != nil && !c.queued && (c.session != nil || now.Sub(c.left) < placeFor)
}

// admit says whether a client's minimum fits beside those of the others that are attached:
// if not, it is refused or has to wait, as the policy says.
func (r *Roster) admit(now policy.Policy, name string, share policy.Share) (queued bool, err error) {
	if now.Admission == "" || now.Admission == policy.Admit || now.Link == 0 {
		return false, nil
	}
	sum := share.Minimum
	for _, other := range r.clients {
		if other.Name != name && other.session != nil && !other.queued {
			sum += other.Share.Minimum
		}
	}
	if sum > now.Link && now.Admission == policy.Refuse {
		return false, fmt.Errorf("%w (%v of %v)", ErrRefused, sum, now.Link)
	}
	return sum > now.Link, nil
}

// isBehind reports whether others wait who come before one that attaches: they would wait for ever if all that fit
// beside them were let in.
func (r *Roster) isBehind(name string, share policy.Share) bool {
	if share.Minimum == 0 {
		return false // it takes nothing that they wait for
	}
	for _, other := range r.clients {
		if other.Name != name && other.session != nil && other.queued && other.Share.Priority >= share.Priority {
			return true
		}
	}
	return false
}

// Review gives every client the share that the policy has for it now, and lets those in that
// waited and fit: the highest priority first, and of one priority who attached first.
func (r *Roster) Review() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, _ := r.Policy.Get()
	attached := r.attached()
	for _, client := range attached {
		groups, _ := r.groupsOf(client.Name, client.session.Peer) // they were known when it attached
		client.Share = now.ShareFor(policy.Client{Name: client.Name, Labels: client.labels, Groups: groups})
		client.repace()
	}
	slices.SortStableFunc(attached, func(a, b *Client) int {
		return cmp.Or(cmp.Compare(b.Share.Priority, a.Share.Priority), a.Since.Compare(b.Since))
	})
	blocked := false // by one that comes first, and does not fit yet
	for _, client := range attached {
		if client.queued && (!blocked || client.Share.Minimum == 0) {
			queued, err := r.admit(now, client.Name, client.Share)
			client.queued = queued || err != nil
			blocked = blocked || queued
		}
		r.settle(client)
	}
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
