package roster

import (
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/policy"
)

// admits returns why a peer may not attach as a client: it was revoked, or nobody knows whether it was. Clients that are in attach again
// all the same, as each session breaks now and then: else all would be out after a while without managers. Only the same process does:
// another one with the certificate may be a copy of it that was revoked. The roster is locked.
func (r *Roster) admits(name string, caller identity.Peer, by Process) error {
	if err := r.Revoked(caller); err != nil { // it may have happened since the call began
		return err
	}
	if r.isIn(name, caller) && r.register.isSame(name, by) {
		return nil
	}
	return r.Admit(caller)
}

// isIn reports whether a peer is attached as a client, or was just now. An earlier certificate than it attached with may be a stolen one.
func (r *Roster) isIn(name string, caller identity.Peer) bool {
	client := r.clients[name]
	if client == nil || client.by.ID != caller.ID || caller.Stamp < client.by.Stamp {
		return false
	}
	return client.session != nil || time.Since(client.left) < max(r.Grace, policy.PlaceFor)
}

// Expel ends the sessions of those that were revoked, and has nobody bring bytes whose certificate
// counts no more, or by a ticket of theirs. What they have uploaded stays.
func (r *Roster) Expel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, client := range r.clients {
		revoked := r.Revoked(client.by) != nil
		client.parted = client.parted || revoked // no place is kept for it
		if client.session != nil && revoked {
			r.Log.Warn("client expelled: its identity was revoked", "client", client.Name, "peer", client.session.Peer.String())
			client.putOut(Revoked)
		}
		for _, upload := range client.uploads {
			if upload.carries(r.Revoked) {
				upload.fence()
			}
		}
	}
}

// putOut ends the session of a client that is to bring nothing more in it. No place is kept for it, and its uploads stay open for a while.
func (c *Client) putOut(reason string) {
	session := c.session
	c.session, c.left, c.parted = nil, time.Now(), true
	session.end(reason)
	for _, upload := range c.uploads {
		upload.fence()
	}
}

// carries reports whether a connection of an upload is of a peer that was revoked.
func (u *Upload) carries(revoked func(identity.Peer) error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.conns {
		if revoked(one.peer) != nil {
			return true
		}
	}
	return false
}
