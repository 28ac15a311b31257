package roster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// Opened is how an upload is to be sent; or the root of what is there already, without one.
type Opened struct {
	Upload   *Upload
	Ticket   []byte // that permits to bring its bytes
	Offset   uint64
	Existing *object.Root
}

// place is where an upload goes.
type place struct{ client, path string }

// opening is the opening of an upload. It goes on even if no caller waits: what is there already is read, which may take
// longer than a call lasts.
type opening struct {
	spec    sink.Spec
	replace bool
	done    chan struct{}
	ended   time.Time // when it was done; zero before
	opened  Opened
	err     error
}

// keepOpening is how long the outcome of an opening is kept for a client that asks again. One whose call has ended does so within seconds;
// after that, what was there may have been removed, and what was in the way may be gone.
const keepOpening = 15 * time.Second

// Open begins an upload, or goes on with it. What is there already is replaced only if replace is set. A client that asks
// again while it is being opened waits for the same opening.
func (r *Roster) Open(ctx context.Context, session string, peer identity.ID, spec sink.Spec, replace bool) (Opened, error) {
	opened, err := r.openUpload(ctx, session, peer, spec, replace)
	return opened, r.told(err)
}

// openUpload waits until an upload is opened.
func (r *Roster) openUpload(ctx context.Context, session string, peer identity.ID, spec sink.Spec, replace bool) (Opened, error) {
	for {
		opened, begun, err := r.begin(session, peer, &spec, replace)
		if err != nil || begun == nil {
			return opened, err
		}
		select {
		case <-ctx.Done():
			return Opened{}, ctx.Err()
		case <-begun.done:
		}
		if opened, taken, err := r.take(session, peer, begun, spec, replace); taken || err != nil {
			return opened, err
		}
	}
}

// begin returns an upload that goes on, or one that is being opened.
func (r *Roster) begin(session string, peer identity.ID, spec *sink.Spec, replace bool) (Opened, *opening, error) {
	r.mu.Lock()
	client, err := r.clientOf(session, peer)
	if err != nil {
		r.mu.Unlock()
		return Opened{}, nil, err
	}
	spec.Client = client.Name
	at := place{client.Name, spec.Path}
	if under := r.openings[at]; under != nil {
		r.mu.Unlock()
		return Opened{}, under, nil
	}
	known := client.uploads[spec.Path]
	if known != nil && known.spec == *spec && known.goesOn() {
		begins := client.begins(true)
		r.mu.Unlock()
		return known.resume(peer, begins), nil, nil
	}
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		return Opened{}, nil, ErrStopping
	}
	if known == nil && r.openOf(client) >= maxUploads {
		left := client.longestLeft(time.Now().Add(-leftLong))
		if left == nil {
			return Opened{}, nil, fmt.Errorf("%w: %d uploads of %s", ErrCrowded, maxUploads, client.Name)
		}
		r.forget(left) // it makes way for one alone
		r.closeBeside(left)
	}
	next := &opening{spec: *spec, replace: replace, done: make(chan struct{})}
	r.openings[at] = next
	ending := r.ending[at]
	r.running.Go(func() {
		if ending != nil {
			<-ending.stopped
		}
		r.carryOut(at, next, known, peer)
	})
	return Opened{}, next, nil
}

// openOf returns how many uploads a client has, and is about to have.
func (r *Roster) openOf(client *Client) int {
	count := len(client.uploads)
	for at := range r.openings {
		if at.client == client.Name {
			count++
		}
	}
	return count
}

// leftLong is how long an upload must have been left alone before it makes way for another, where a client has too many.
const leftLong = 5 * time.Second

// longestLeft returns the upload that has been left alone for the longest time, if it has been since before a moment.
func (c *Client) longestLeft(since time.Time) (longest *Upload) {
	for _, upload := range c.uploads {
		if upload.isLeft(since) {
			longest, since = upload, upload.leftAt()
		}
	}
	return longest
}

// carryOut opens an upload, in place of one that is known if it is of another content or cannot go on. If the known one is of the same
// content, the client is told why it failed instead: opened anew, it would fail again and again.
func (r *Roster) carryOut(at place, o *opening, known *Upload, peer identity.ID) {
	if known != nil {
		r.drop(known)
		if known.spec == o.spec {
			o.err = known.failure()
		}
	}
	if o.err == nil {
		o.opened, o.err = r.openInTurn(o, peer)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o.ended = time.Now()
	r.hinder(at, o.err)
	if o.opened.Upload != nil {
		delete(r.openings, at) // it is known as an upload
	}
	close(o.done)
}

// openInTurn opens an upload once few enough others are being opened.
func (r *Roster) openInTurn(o *opening, peer identity.ID) (Opened, error) {
	readers := r.readers
	if o.spec.Stream {
		readers = r.streaming
	}
	done, err := readers.turn(r.life, o.spec.Client)
	if err != nil {
		return Opened{}, ErrStopping
	}
	defer done()
	return r.open(o, peer)
}

// open looks whether the file is there already, and makes the sink if not.
func (r *Roster) open(o *opening, peer identity.ID) (Opened, error) {
	if !o.replace {
		found, err := sink.Existing(r.life, r.Dir, o.spec)
		if err != nil {
			return Opened{}, err
		}
		if found[0] != nil {
			return Opened{Existing: found[0]}, nil
		}
	}
	to, err := r.openSink(r.life, r.Dir, o.spec)
	if err != nil {
		return Opened{}, err
	}
	count := r.count
	if o.spec.Stream { // bytes that were asked for before and have not come no longer count
		count = r.recount
	}
	if err := count(o.spec.Client); err != nil {
		return Opened{}, errors.Join(err, to.Close())
	}
	opened, err := r.enter(peer, o.spec, to)
	if errors.Is(err, ErrStored) || errors.Is(err, ErrUncounted) {
		opened, err = r.enterCounted(peer, o.spec, to)
	}
	if err != nil {
		return Opened{}, errors.Join(err, to.Close())
	}
	return opened, nil
}

// take returns the outcome of an opening, if it is of what is asked for, and forgets it. If the client had been forgotten by the time that
// it was opened, that is no outcome for one that is back: it would wait for another session than the one it has.
func (r *Roster) take(session string, peer identity.ID, o *opening, spec sink.Spec, replace bool) (Opened, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := (place{spec.Client, spec.Path}); r.openings[at] == o {
		delete(r.openings, at)
	}
	if _, err := r.clientOf(session, peer); err != nil {
		return Opened{}, false, err
	}
	if errors.Is(o.err, ErrSession) || o.spec != spec || o.replace != replace || o.opened.Upload != nil && !o.opened.Upload.admits(peer, o.opened.Ticket) {
		return Opened{}, false, nil
	}
	return o.opened, true, o.err
}

// forgetOpenings forgets outcomes that nobody has asked for, with the roster locked.
func (r *Roster) forgetOpenings(now time.Time) {
	for at, o := range r.openings {
		if !o.ended.IsZero() && now.Sub(o.ended) > keepOpening {
			delete(r.openings, at)
		}
	}
}

// enter makes an upload known, and has what comes of it kept.
func (r *Roster) enter(peer identity.ID, spec sink.Spec, to sink.Sink) (Opened, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client := r.clients[spec.Client]
	if client == nil || r.life.Err() != nil {
		return Opened{}, ErrSession
	}
	promised, err := r.promise(client, spec, to.Offset())
	if err != nil {
		return Opened{}, err
	}
	limit, err := client.admitBytes(spec, to.Offset())
	if err != nil {
		r.room.giveBack(promised)
		return Opened{}, err
	}
	u := &Upload{
		spec: spec, client: client, roster: r, sink: to, peer: peer, ticket: newTicket(), limit: limit, opened: time.Now(), brought: client.begins(to.Offset() > 0),
		stopped: make(chan struct{}), broken: make(chan struct{}), serving: make(chan struct{}, 1),
		conns: make(map[uint64]*tracked), begun: to.Offset(), came: to.Offset(), standing: standing{to.Offset(), to.Offset(), to.Offset()},
		held: client.order.paused != "", promised: promised, left: time.Now(), changed: make(chan struct{}),
	}
	_, _ = rand.Read(u.ID[:]) // it never fails
	client.uploads[spec.Path], r.uploads[u.ID] = u, u
	client.repace()
	if client.order.paused == DiskFull { // a file has its room
		r.retell(client)
	}
	if client.session != nil {
		client.session.changed() // how many connections each has
	}
	u.run()
	return Opened{Upload: u, Ticket: u.ticket, Offset: to.Offset()}, nil
}
