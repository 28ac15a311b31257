package roster

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// tracked is one data connection, as the controller sees it.
type tracked struct {
	id     uint64
	conn   *link.Conn
	begun  time.Time
	window int // that was set last
	// segment is how many bytes one has at most here.
	segment int
	last    reading
}

// Serve takes the bytes of an upload from whoever may bring them.
func (r *Roster) Serve(ctx context.Context, asked *link.Asked) {
	r.mu.Lock()
	upload := r.uploads[asked.Delivery]
	r.mu.Unlock()
	switch {
	case upload == nil:
		asked.Refuse(wire.Unknown, ErrUpload.Error())
		return
	case !upload.permitted(asked):
		asked.Refuse(wire.Denied, "the ticket is not this upload's")
		return
	}
	if asked.Join {
		r.join(upload, asked)
		return
	}
	taking, from, err := upload.begin(ctx)
	if err != nil {
		asked.Refuse(wire.Unknown, err.Error())
		return
	}
	defer upload.over()
	r.carry(upload, asked, from, func(conn *link.Conn) error { return taking.Run(conn) })
}

func (r *Roster) join(upload *Upload, asked *link.Asked) {
	taking := upload.link()
	switch {
	case taking == nil || !taking.Admits():
		asked.Refuse(wire.Stale, "there is no link to join")
	case !r.mayJoin(upload):
		asked.Refuse(wire.Stale, "the upload has as many connections as it is to have")
	default:
		r.carry(upload, asked, 0, taking.Join)
	}
}

// mayJoin says whether an upload may have another connection: as many as its client was
// told, and as many again, since those that broke may come back before that is noticed.
func (r *Roster) mayJoin(upload *Upload) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := upload.client.perUpload()
	upload.mu.Lock()
	defer upload.mu.Unlock()
	return len(upload.conns) < 2*told
}

// tooManyTime is how long an upload may have more connections than its client was told:
// one that is told to have fewer ends them when what they carry has come.
const tooManyTime = 10 * time.Second

// prune ends the youngest connections of an upload that has had too many for too long.
// The roster and the upload are locked.
func (u *Upload) prune(now time.Time, told int) {
	if len(u.conns) <= told {
		u.tooMany = time.Time{}
		return
	}
	if u.tooMany.IsZero() {
		u.tooMany = now
	}
	if now.Sub(u.tooMany) < tooManyTime {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(u.conns))[told:] {
		u.conns[id].conn.Close()
	}
}

// carry runs a data connection, and has the controller see it meanwhile.
func (r *Roster) carry(upload *Upload, asked *link.Asked, from uint64, run func(*link.Conn) error) {
	conn, err := asked.Welcome(wire.Welcome{TreeVersion: 1, From: from})
	if err != nil {
		return // it comes again
	}
	leave := r.track(upload, conn)
	defer leave()
	if err := run(conn); err != nil {
		r.Log.Debug("a data connection has ended", "client", upload.client.Name, "path", upload.spec.Path, "error", err)
	}
}

// track shows a connection to the controller until it has left.
func (r *Roster) track(upload *Upload, conn *link.Conn) (leave func()) {
	r.mu.Lock()
	r.lastID++
	one := &tracked{id: r.lastID, conn: conn, begun: time.Now()}
	r.mu.Unlock()
	upload.mu.Lock()
	upload.conns[one.id] = one
	upload.mu.Unlock()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		upload.mu.Lock()
		defer upload.mu.Unlock()
		delete(upload.conns, one.id)
		upload.client.gone += one.last.received
	}
}
