package roster

import (
	"time"

	"github.com/groupcast/groupcast/internal/identity"
)

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
