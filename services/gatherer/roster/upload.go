package roster

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/policy"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// How much is asked for beyond what was read back and hashed: as much as comes in
// creditTime, within bounds. So much can still come when a client has been paused.
const (
	leastCredit = 1 << 20
	mostCredit  = 256 << 20
	creditTime  = 2 * time.Second
)

// Upload is a file or a stream on its way here. It is the store of its link.
type Upload struct {
	ID     wire.DeliveryID
	Ticket []byte
	spec   sink.Spec
	client *Client // that has it
	roster *Roster
	sink   sink.Sink
	limit  uint64 // the offset up to which there may be any bytes

	stop    context.CancelFunc
	stopped chan struct{} // closed when all that landed is kept
	serving chan struct{} // holds the one link

	mu       sync.Mutex
	peer     identity.ID
	taking   *link.Taking
	conns    map[uint64]*tracked
	came     uint64 // all before it was written,
	hashed   uint64 // read back and hashed,
	acked    uint64 // and, of a stream, is on disk
	granted  uint64
	rate     uint64 // bytes per second, as the controller saw it last
	held     bool   // nothing more is to be asked for
	end      *link.End
	finished *finish
	err      error         // why the sink takes nothing more
	changed  chan struct{} // closed when any of these changes
}

// finish is the end of an upload, once for all who ask for it.
type finish struct {
	length uint64
	root   object.Root
	done   chan struct{}
	file   string
	err    error
}

// Opened is how an upload is to be sent; or the root of what is there already, without one.
type Opened struct {
	Upload   *Upload
	Offset   uint64
	Existing *object.Root
}

// Open begins an upload, or goes on with it. What is there already is replaced if that
// is said.
func (r *Roster) Open(ctx context.Context, session string, peer identity.ID, spec sink.Spec, replace bool) (Opened, error) {
	client, share, known, err := r.find(session, peer, &spec)
	if err != nil {
		return Opened{}, err
	}
	if known != nil {
		if known.spec == spec && known.goesOn() {
			return Opened{Upload: known, Offset: known.resume(peer)}, nil
		}
		r.drop(known) // it was of something else, or cannot go on
	}
	if !replace {
		root, found, err := sink.Existing(ctx, r.Dir, spec)
		if err != nil || found {
			return Opened{Existing: &root}, err
		}
	}
	room, err := r.room(share, spec)
	if err != nil {
		return Opened{}, err
	}
	to, err := sink.Open(ctx, r.Dir, spec)
	if err != nil {
		return Opened{}, err
	}
	upload, err := r.enter(session, peer, spec, to)
	if err != nil {
		return Opened{}, errors.Join(err, to.Close())
	}
	upload.limit = to.Offset() + room
	upload.run(client.Name)
	return Opened{Upload: upload, Offset: to.Offset()}, nil
}

// find returns the session's client, and its upload under the path.
func (r *Roster) find(session string, peer identity.ID, spec *sink.Spec) (*Client, policy.Share, *Upload, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client, err := r.clientOf(session, peer)
	if err != nil {
		return nil, policy.Share{}, nil, err
	}
	spec.Client = client.Name
	known := client.uploads[spec.Path]
	if known == nil && len(client.uploads) >= maxUploads {
		return nil, policy.Share{}, nil, fmt.Errorf("%w: %d uploads of %s", ErrCrowded, len(client.uploads), client.Name)
	}
	return client, client.Share, known, nil
}

// enter makes the upload known. Another of the path, opened meanwhile, has the sink's lock: there is none.
func (r *Roster) enter(session string, peer identity.ID, spec sink.Spec, to sink.Sink) (*Upload, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client, err := r.clientOf(session, peer)
	if err != nil {
		return nil, err
	}
	u := &Upload{
		Ticket: make([]byte, 32), spec: spec, client: client, roster: r, sink: to, peer: peer, stopped: make(chan struct{}), serving: make(chan struct{}, 1),
		conns: make(map[uint64]*tracked), came: to.Offset(), hashed: to.Offset(), acked: to.Offset(), granted: to.Offset(),
		held: client.order.paused != "", changed: make(chan struct{}),
	}
	_, _ = rand.Read(u.ID[:]) // it never fails
	_, _ = rand.Read(u.Ticket)
	client.uploads[spec.Path], r.uploads[u.ID] = u, u
	if client.session != nil {
		client.session.changed() // how many connections each has
	}
	return u, nil
}

// forget removes an upload from those that are known, with the roster locked.
func (r *Roster) forget(u *Upload) {
	delete(r.uploads, u.ID)
	if u.client.uploads[u.spec.Path] == u {
		delete(u.client.uploads, u.spec.Path)
	}
	if u.client.session != nil {
		u.client.session.changed()
	}
}

// drop ends an upload.
func (r *Roster) drop(u *Upload) {
	r.mu.Lock()
	r.forget(u)
	r.mu.Unlock()
	u.close()
}

// run has what comes hashed and committed until the upload is closed.
func (u *Upload) run(client string) {
	ctx, stop := context.WithCancel(context.Background())
	u.stop = stop
	u.update(u.extend)
	u.roster.running.Go(func() {
		defer close(u.stopped)
		if err := u.land(ctx); err != nil {
			u.roster.Log.Warn("an upload cannot go on", "client", client, "path", u.spec.Path, "error", err)
			u.update(func() { u.err = err })
			u.cut()
		}
		<-ctx.Done()
		u.cut()
		u.serving <- struct{}{} // nobody writes any more, and nobody will
		if err := u.sink.Close(); err != nil {
			u.roster.Log.Warn("what has come of an upload was not kept", "client", client, "path", u.spec.Path, "error", err)
		}
	})
}

// commitCheck is how often it is looked whether a commit is due.
const commitCheck = 50 * time.Millisecond

// land hashes and commits what comes until ctx is done, and finishes the upload when that is asked for.
func (u *Upload) land(ctx context.Context) error {
	ticker := time.NewTicker(commitCheck)
	defer ticker.Stop()
	for {
		u.mu.Lock()
		came, hashed, asked, changed := u.came, u.hashed, u.finished, u.changed
		u.mu.Unlock()
		if asked != nil && came == hashed {
			return u.conclude(asked)
		}
		if came > hashed {
			if err := u.sink.Landed(came); err != nil {
				return err
			}
		}
		committed, err := u.sink.Commit()
		if err != nil {
			return err
		}
		u.progress(came, committed)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-ticker.C:
		}
	}
}

// progress notes what was hashed and committed, and asks for more.
func (u *Upload) progress(hashed, committed uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hashed != hashed || u.acked != committed {
		u.hashed, u.acked = hashed, committed
		u.extend()
		u.announce()
	}
}

// conclude compares what has come with what was sent, and makes it durable.
func (u *Upload) conclude(asked *finish) error {
	asked.file, asked.err = u.sink.Finish(asked.length, asked.root)
	close(asked.done)
	return nil
}

func (u *Upload) update(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
	u.announce()
}

func (u *Upload) announce() {
	close(u.changed)
	u.changed = make(chan struct{})
}

// extend asks for as much more as may come: never less than was asked for before.
func (u *Upload) extend() {
	if u.held {
		return
	}
	ahead := min(max(leastCredit, u.rate*uint64(creditTime/time.Second)), mostCredit)
	u.granted = max(u.granted, min(u.hashed+ahead, u.limit))
}

// grant asks for more, or for nothing more, as the client may send or not. The roster is locked.
func (u *Upload) grant() {
	held := u.client.order.paused != ""
	u.update(func() {
		u.held = held
		u.extend()
	})
}

// resume returns from where on bytes are wanted, of a client that has come back.
func (u *Upload) resume(peer identity.ID) uint64 {
	u.cut()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.peer, u.end = peer, nil
	return u.came
}

func (u *Upload) goesOn() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err == nil && u.finished == nil && !u.spec.Stream
}

// isWhole reports whether all of it has come.
func (u *Upload) isWhole() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.end != nil
}

// cut ends the upload's link.
func (u *Upload) cut() {
	u.mu.Lock()
	taking := u.taking
	u.mu.Unlock()
	if taking != nil {
		taking.Close()
	}
}

// close ends the upload, and returns when all that landed is kept.
func (u *Upload) close() {
	u.stop()
	<-u.stopped
}

// Finish compares what has come with what was sent, makes it durable, and returns where it
// is. Who asks again gets the same answer, until the client has gone or asked for another upload.
func (r *Roster) Finish(ctx context.Context, session string, peer identity.ID, id wire.DeliveryID, length uint64, root object.Root) (string, error) {
	r.mu.Lock()
	client, err := r.clientOf(session, peer)
	u := r.uploads[id]
	r.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case u == nil || u.client != client:
		return "", ErrUpload
	}
	asked, err := u.finish(length, root)
	if err != nil {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-asked.done:
	}
	r.conclude(u, asked)
	if asked.err != nil {
		return "", asked.err
	}
	return filepath.Rel(r.Dir, asked.file)
}

// finish has the upload finished when all of it has come.
func (u *Upload) finish(length uint64, root object.Root) (*finish, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.finished != nil && (u.finished.length != length || u.finished.root != root):
		return nil, fmt.Errorf("%w: it was finished with another length or root", ErrUpload)
	case u.finished != nil:
		return u.finished, nil
	case u.err != nil:
		return nil, u.err
	case u.came != length:
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrUnfinished, u.came, length)
	}
	u.finished = &finish{length: length, root: root, done: make(chan struct{})}
	u.announce()
	return u.finished, nil
}

// conclude closes an upload that is finished, and has done once what is due then.
func (r *Roster) conclude(u *Upload, asked *finish) {
	r.mu.Lock()
	first := u.client.uploads[u.spec.Path] == u
	if first {
		delete(u.client.uploads, u.spec.Path)
		if u.client.session != nil {
			u.client.session.changed()
		}
		if asked.err != nil {
			delete(r.uploads, u.ID)
		} else {
			r.remember(u)
		}
	}
	r.mu.Unlock()
	if !first {
		return
	}
	u.close()
	if asked.err == nil {
		r.Log.Info("upload finished", "client", u.client.Name, "path", u.spec.Path, "bytes", asked.length)
		r.runFor(u, asked.file)
	}
}

// permitted says whether a link may bring an upload's bytes.
func (u *Upload) permitted(asked *link.Asked) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return asked.Offer && asked.Peer.ID == u.peer && subtle.ConstantTimeCompare(asked.Capability, u.Ticket) == 1
}

// begin makes a new link that takes from where the last one ended, when that one has.
func (u *Upload) begin(ctx context.Context) (taking *link.Taking, from uint64, err error) {
	u.cut()
	select {
	case u.serving <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	case <-u.stopped:
		return nil, 0, ErrUpload
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taking = link.NewTaking(ctx, u.came, u, link.Options{Bounds: parallel.Bounds{Least: 1, Most: parallel.Most}})
	return u.taking, u.came, nil
}

// over says that the link has ended.
func (u *Upload) over() { <-u.serving }

func (u *Upload) link() *link.Taking {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taking
}

// Section implements link.Store.
func (u *Upload) Section(offset uint64) (link.Place, int64, error) { return u.sink.Place(offset) }

// Landed implements link.Store.
func (u *Upload) Landed(upTo uint64) error {
	u.update(func() { u.came = upTo })
	return nil
}

// End implements link.Store.
func (u *Upload) End(end link.End) error {
	u.update(func() { u.end = &end })
	return nil
}

// Answer implements link.Store.
func (u *Upload) Answer() link.Answer {
	u.mu.Lock()
	defer u.mu.Unlock()
	level, acked := wire.Received, u.hashed
	if u.spec.Stream {
		level, acked = wire.Durable, u.acked
	}
	return link.Answer{Ack: acked, Level: level, Credit: u.granted, Done: u.end != nil, Changed: u.changed}
}
