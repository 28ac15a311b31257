package roster

import "time"

// sweep ends the uploads of clients that are gone, and those that were left alone, and forgets clients that are gone. What is being finished
// comes to its end first: a client that is back then is told what came of it.
func (r *Roster) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetOpenings(now)
	left := now.Add(-max(r.Grace, leftLeast))
	for name, client := range r.clients {
		isGone := client.session == nil && now.Sub(client.left) >= r.Grace
		for _, upload := range client.uploads {
			if isGone && !upload.isFinishing() || upload.isLeft(left) {
				r.forget(upload)
				r.closeBeside(upload)
			}
		}
		if isGone && !client.isHere(now) && len(client.uploads) == 0 {
			delete(r.clients, name)
		}
	}
}

// leftLeast is how long an upload of a client that is here stays without a connection, however short the grace: over a long path the first
// one takes a while.
const leftLeast = 15 * time.Second

// closeBeside closes a forgotten upload in the background. Whoever opens its path again waits until it is closed. The roster is locked.
func (r *Roster) closeBeside(u *Upload) {
	at := place{u.spec.Client, u.spec.Path}
	r.ending[at] = u
	r.running.Go(func() {
		u.close()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.ending[at] == u {
			delete(r.ending, at)
		}
	})
}
