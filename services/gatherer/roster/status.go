package roster

import (
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/policy"
)

// Status says how a client stands.
type Status struct {
	Seen
	Name     string
	Attached bool
	Share    policy.Share
	Since    time.Time
	Paused   string
	Received uint64 // bytes, over its data connections
	Uploads  int    // that are open
}

// Clients returns how every client stands, in the order of their names.
func (r *Roster) Clients() (all []Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.clients)) {
		client := r.clients[name]
		status := Status{
			Seen: client.seen, Name: name, Attached: client.session != nil, Share: client.Share, Since: client.Since,
			Paused: client.waitsFor(time.Now()), Received: client.arrived.gone, Uploads: len(client.uploads),
		}
		open := 0
		for _, upload := range client.uploads {
			upload.mu.Lock()
			for _, one := range upload.conns {
				status.Received += one.last.received
			}
			open += len(upload.conns)
			upload.mu.Unlock()
		}
		if !status.Attached && open == 0 { // a client that is gone has no figures: what was seen last is over
			status.Seen = Seen{}
		}
		all = append(all, status)
	}
	return all
}

// Attached returns how many clients are attached.
func (r *Roster) Attached() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}
