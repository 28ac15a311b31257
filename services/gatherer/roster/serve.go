package roster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// tracked is one data connection, as the controller sees it.
type tracked struct {
	id     uint64
	conn   *link.Conn
	peer   identity.Peer
	begun  time.Time
	window int // as it was set last
	// segment is how many bytes a segment has.
	segment int
	last    reading
}

// Serve takes the bytes of an upload from whoever may bring them.
func (r *Roster) Serve(ctx context.Context, asked *link.Asked) {
	r.mu.Lock()
	upload := r.uploads[asked.Delivery]
	r.mu.Unlock()
	revoked := r.Revoked(asked.Peer)
	switch {
	case revoked != nil:
		asked.Refuse(wire.Denied, revoked.Error())
		return
	case upload == nil:
		asked.Refuse(wire.Unknown, ErrUpload.Error())
		return
	case !asked.Offer || !upload.admits(asked.Peer.ID, asked.Capability):
		asked.Refuse(wire.Denied, "the ticket is not this upload's")
		return
	}
	if asked.Join {
		r.join(upload, asked)
		return
	}
	taking, from, err := upload.begin(ctx, asked)
	if err != nil {
		asked.Refuse(wire.Unknown, err.Error())
		return
	}
	defer upload.over()
	if !r.comes(upload, asked.Join) {
		asked.Refuse(wire.Stale, tooMany)
		return
	}
	r.carry(upload, asked, from, func(conn *link.Conn) error { return taking.Run(conn) })
}

// tooMany is what a connection is told that is refused because there are enough of them.
const tooMany = "the client has as many connections as it is to have"

func (r *Roster) join(upload *Upload, asked *link.Asked) {
	taking := upload.link()
	switch {
	case taking == nil || !taking.Admits(int(asked.Stripe)):
		asked.Refuse(wire.Stale, "there is no link to join")
	case !r.comes(upload, asked.Join):
		asked.Refuse(wire.Stale, tooMany)
	default:
		r.carry(upload, asked, 0, taking.Join)
	}
}

// comes reports whether an upload may have one more connection, and counts it if so. An upload may have twice as many as
// its client was told: broken ones may be replaced before the gatherer notices. All uploads of a client together have no
// more than its policy permits.
func (r *Roster) comes(upload *Upload, joins bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	client := upload.client
	told, most, all := client.perUpload(), client.Share.MaxConnections, 0
	for _, one := range client.uploads {
		if joins || one != upload { // the connections of a link that this one replaces are closed
			all += one.carried()
		}
	}
	isTooMany := most > 0 && all >= most || joins && upload.carried() >= 2*told
	upload.mu.Lock()
	defer upload.mu.Unlock()
	if upload.left = time.Now(); isTooMany { // even so, the client goes on with it
		return false
	}
	upload.coming++
	return true
}

// carried is how many connections an upload has that may bring something.
func (u *Upload) carried() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.end != nil {
		return 0
	}
	return len(u.conns) + u.coming
}

// tooManyTime is how long there may be more connections than a client was told, or may have, as after a policy that permits fewer: a
// client that is told to have fewer ends them once what they carry has come.
const tooManyTime = 10 * time.Second

// excess is since when there are too many of something; zero while there are not.
type excess struct{ since time.Time }

// lasts notes whether there are too many, and reports whether there have been for too long.
func (e *excess) lasts(now time.Time, tooMany bool) bool {
	switch {
	case !tooMany:
		e.since = time.Time{}
	case e.since.IsZero():
		e.since = now
	}
	return tooMany && now.Sub(e.since) >= tooManyTime
}

// prune ends the youngest connections of an upload that has had too many for too long.
// The roster and the upload are locked.
func (u *Upload) prune(now time.Time, told int) {
	if !u.tooMany.lasts(now, len(u.conns) > told) {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(u.conns))[told:] {
		u.conns[id].conn.Close()
	}
}

// limit ends connections of a client that has had more of them over all its uploads than its share permits, for too long: each upload
// is told to have one at least. Those uploads wait until others have ended, as newcomers do. The roster is locked.
func (c *Client) limit(now time.Time) {
	most := c.Share.MaxConnections
	if most == 0 {
		c.tooMany = excess{}
		return
	}
	carrying := c.carrying()
	if !c.tooMany.lasts(now, len(carrying) > most) {
		return
	}
	for _, one := range carrying[most:] {
		one.conn.Close()
	}
}

// carrying returns the connections that may bring something: the oldest of each upload, then the second of each, and so on, and of
// these the older ones first.
func (c *Client) carrying() (all []*tracked) {
	rank := make(map[uint64]int)
	for _, upload := range c.uploads {
		upload.mu.Lock()
		if upload.end == nil {
			for i, id := range slices.Sorted(maps.Keys(upload.conns)) {
				rank[id] = i
				all = append(all, upload.conns[id])
			}
		}
		upload.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *tracked) int { return cmp.Or(cmp.Compare(rank[a.id], rank[b.id]), cmp.Compare(a.id, b.id)) })
	return all
}

// carry runs a data connection that was counted, and has the controller see it meanwhile.
func (r *Roster) carry(upload *Upload, asked *link.Asked, from uint64, run func(*link.Conn) error) {
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1, From: from})
	if err != nil {
		upload.stays()
		return // the client tries again
	}
	r.Established(time.Since(asked.Began))
	defer r.track(upload, conn, asked.Peer)()
	err = run(conn)
	var storage *link.StorageError
	switch {
	case errors.As(err, &storage):
		upload.fail(err)
	case err != nil:
		r.Log.Debug("a data connection has ended", "client", upload.client.Name, "path", upload.spec.Path, "error", err)
	}
}

// stays notes that a connection that was counted has not come about.
func (u *Upload) stays() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.coming--
	u.left = time.Now()
}

// track shows a connection to the controller until leave is called.
func (r *Roster) track(upload *Upload, conn *link.Conn, peer identity.Peer) (leave func()) {
	r.mu.Lock()
	r.lastID++
	one := &tracked{id: r.lastID, conn: conn, peer: peer, begun: time.Now()}
	r.mu.Unlock()
	upload.mu.Lock()
	upload.coming--
	upload.conns[one.id] = one
	upload.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		upload.mu.Lock()
		defer upload.mu.Unlock()
		delete(upload.conns, one.id)
		upload.left = time.Now()
		upload.client.arrived.leave(one)
	}
}
