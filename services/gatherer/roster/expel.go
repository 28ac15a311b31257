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
		session := client.session
		revoked := r.Revoked(client.by) != nil
		client.parted = client.parted || revoked // no place is kept for it
		expelled := session != nil && revoked
		if expelled {
			r.Log.Warn("client expelled: its identity was revoked", "client", client.Name, "peer", session.Peer.String())
			client.session, client.left = nil, time.Now()
			session.end(Revoked)
		}
		for _, upload := range client.uploads {
			if expelled || upload.carries(r.Revoked) {
				upload.fence()
			}
		}
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
