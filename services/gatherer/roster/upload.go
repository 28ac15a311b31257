package roster

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// How much is asked for beyond what was read back and hashed: as much as comes in creditTime, within bounds. That much can still
// come after a client was paused.
const (
	firstCredit = 256 << 10 // before the client's rate is known: a short upload is less
	leastCredit = 1 << 20
	mostCredit  = 256 << 20
	creditTime  = 2 * time.Second
)

// standing is up to where bytes were asked for, hashed and committed.
type standing struct {
	hashed  uint64 // all before it was read back and hashed
	acked   uint64 // of a stream: all before it is on disk
	granted uint64 // all before it may come
}

// Upload is a file or a stream on its way here. It is the store of its link.
type Upload struct {
	ID     wire.DeliveryID
	spec   sink.Spec
	client *Client // whose upload it is
	roster *Roster
	sink   sink.Sink
	limit  uint64 // the offset at which it ends at the latest
	opened time.Time

	life    context.Context // until it is closed
	stop    context.CancelFunc
	stopped chan struct{} // closed when all that landed is kept
	broken  chan struct{} // closed when what came could not land
	serving chan struct{} // holds the one link

	mu      sync.Mutex // after the roster's
	peer    identity.ID
	ticket  []byte // shown by whoever may bring bytes
	taking  *link.Taking
	conns   map[uint64]*tracked
	coming  int       // connections that are counted and still being welcomed
	left    time.Time // since when it has none
	tooMany excess    // of connections, beyond what the client was told
	begun   uint64    // how much there was when it was opened
	came    uint64    // all before it was written
	brought time.Time // when something came last, or it was begun, or resumed by a client that had not given up its place
	standing
	rate     uint64 // bytes per second, as the controller saw it last
	known    bool   // the controller has seen something come
	held     bool   // nothing more is to be asked for
	promised uint64 // of a file: bytes that there is room for, and that were not asked for yet
	end      *link.End
	finished *finish
	err      error         // why the sink takes nothing more
	changed  chan struct{} // closed when any of these changes
}

// forget removes an upload from those that are known, with the roster locked.
func (r *Roster) forget(u *Upload) {
	delete(r.uploads, u.ID)
	if u.client.uploads[u.spec.Path] == u {
		delete(u.client.uploads, u.spec.Path)
	}
	u.client.brought = moment.Latest(u.client.brought, u.broughtAt())
	u.giveBack()
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
func (u *Upload) run() {
	ctx, stop := context.WithCancel(context.Background())
	u.life, u.stop = ctx, stop
	u.update(u.extend)
	u.roster.running.Go(func() {
		defer close(u.stopped)
		if err := u.land(ctx); err != nil {
			u.fail(err)
			u.update(func() { u.finished = nil }) // it will not be
			close(u.broken)
		}
		<-ctx.Done()
		u.cut()
		u.serving <- struct{}{} // nobody writes any more, and nobody will
		if err := u.sink.Close(); err != nil {
			u.roster.Log.Warn("what has come of an upload was not kept", "client", u.spec.Client, "path", u.spec.Path, "error", err)
		}
	})
}

// fail has the upload take nothing more, as it cannot be kept. Its client is told why when it opens the upload again.
func (u *Upload) fail(err error) {
	if u.failure() != nil {
		return // another connection has said so
	}
	u.roster.Log.Warn("an upload cannot go on", "client", u.spec.Client, "path", u.spec.Path, "error", err)
	if !isScarce(err) {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
	}
	u.update(func() { u.err = err })
	u.cut()
}

// failure returns why the upload takes nothing more; nil while it takes more.
func (u *Upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// askAgain is how soon to look again whether more may come, while nothing may.
const askAgain = 50 * time.Millisecond

// land hashes and commits what comes until ctx is done, and finishes the upload when asked to. It goes on hashing, and asking for more,
// while the disk takes its time.
func (u *Upload) land(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var disk committing
	defer disk.await() // the sink is closed after that
	for {
		u.mu.Lock()
		came, hashed, asked, changed := u.came, u.hashed, u.finished, u.changed
		u.mu.Unlock()
		if asked != nil && came == hashed {
			disk.await()
			u.conclude(asked)
			return nil
		}
		if came > hashed {
			if err := u.sink.Landed(came); err != nil {
				return err
			}
		}
		due := disk.begin(u.sink)
		if u.progress(func() { u.hashed = came }) {
			due = moment.Soonest(due, time.Now().Add(askAgain))
		}
		timer.Stop() // uploads that are silent wake nobody: there may be thousands
		if !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-timer.C:
		case one := <-disk.done:
			disk.done = nil
			if one.err != nil {
				return one.err
			}
			u.progress(func() { u.acked = one.upTo })
		}
	}
}

// progress notes what was hashed or committed, and asks for more. It reports whether the upload has to wait until more may come.
func (u *Upload) progress(note func()) (waits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.standing
	note()
	u.extend()
	if u.standing != before {
		u.announce()
	}
	return !u.held && u.granted <= u.came && u.granted < u.limit
}

// committing is a commit in the background, while more comes.
type committing struct{ done chan committed } // nil while there is none

type committed struct {
	upTo uint64
	err  error
}

// begin begins a commit if one is due and none goes on. It returns when the next is due; zero if nothing waits for its time.
func (c *committing) begin(to sink.Sink) (due time.Time) {
	if c.done != nil {
		return time.Time{}
	}
	if due = to.Due(); due.IsZero() || time.Now().Before(due) {
		return due
	}
	done := make(chan committed, 1)
	c.done = done
	go func() {
		upTo, err := to.Commit()
		done <- committed{upTo, err}
	}()
	return time.Time{}
}

// await waits until no commit goes on. If one fails, the sink says so when it is finished or closed.
func (c *committing) await() {
	if c.done != nil {
		<-c.done
		c.done = nil
	}
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

// extend asks for as much more as may come. It takes back nothing that was asked for.
func (u *Upload) extend() {
	if u.held {
		return
	}
	upTo := u.wantedUpTo()
	u.granted += u.draw(upTo - min(upTo, u.granted))
}

// wantedUpTo returns the offset up to which bytes are wanted now, whether or not there is room for them.
func (u *Upload) wantedUpTo() uint64 {
	ahead := max(leastCredit, u.rate*uint64(creditTime/time.Second))
	if !u.known { // twice as much with every round trip
		ahead = max(firstCredit, u.hashed-u.begun)
	}
	upTo := min(u.hashed+min(ahead, mostCredit), u.limit)
	if u.spec.Stream { // little is to wait for the disk
		upTo = min(upTo, u.acked+mostCredit)
	}
	// A paced client is held to what has come: hashing and committing may take longer than a pause.
	return min(upTo, u.client.paced.most(u.came))
}

// draw takes bytes out of the client's pace, the room on the disk and the client's allowance, and returns how many of
// those that are wanted all three had. A file has its room, and its part of the allowance, since it was opened.
func (u *Upload) draw(want uint64) uint64 {
	if !takesAsItGoes(u.spec) {
		want = u.client.paced.draw(time.Now(), min(want, u.promised))
		u.promised -= want
		return want
	}
	want = u.client.paced.draw(time.Now(), want)
	if u.spec.Stream {
		want = u.client.allowed.has(want) // others may need the room meanwhile
	}
	copies := u.copies()
	given := u.roster.room.draw(want * copies)
	drawn := given / copies
	if u.spec.Stream && drawn > 0 {
		drawn = u.client.allowed.draw(drawn)
	}
	if rest := given - drawn*copies; rest > 0 {
		u.roster.room.giveBack(rest)
	}
	return drawn
}

// copies returns how often the bytes are on the disk for a while: a bundle's files are written beside it once it is whole.
func (u *Upload) copies() uint64 {
	if u.spec.Bundle {
		return 2
	}
	return 1
}

// askForMore asks for what a paced client may bring by now.
func (u *Upload) askForMore() {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.granted
	if u.extend(); u.granted != before {
		u.announce()
	}
}

// grant asks for more if the client may send, and else for nothing more. The roster is locked.
func (u *Upload) grant() {
	held := u.client.order.paused != ""
	u.update(func() {
		u.held = held
		u.extend()
	})
}

// resume has a client that is back go on with the upload, and returns from where. It counts as having brought something when it begins.
func (u *Upload) resume(peer identity.ID, begins time.Time) Opened {
	u.fence()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.peer, u.end, u.left, u.brought = peer, nil, time.Now(), moment.Latest(u.brought, begins)
	return Opened{Upload: u, Ticket: u.ticket, Offset: u.came}
}

// fence makes a new ticket, and cuts the link: nobody can bring bytes by the old one.
func (u *Upload) fence() {
	u.mu.Lock()
	u.ticket = newTicket()
	u.mu.Unlock()
	u.cut()
}

func newTicket() []byte {
	ticket := make([]byte, 32)
	_, _ = rand.Read(ticket) // it never fails
	return ticket
}

func (u *Upload) goesOn() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err == nil && u.finished == nil && u.sink.GoesOn()
}

// isLeft reports whether the upload has had no connection since a time, and nobody waits for its end: its process has ended, or its
// client has given it up.
func (u *Upload) isLeft(since time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.conns)+u.coming == 0 && u.finished == nil && u.left.Before(since)
}

// isFinishing reports whether the client has asked for its end.
func (u *Upload) isFinishing() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.finished != nil
}

func (u *Upload) leftAt() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left
}

func (u *Upload) broughtAt() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.brought
}

// isHeldUp reports whether the client waits for the gatherer: what came waits for the disk, all that was asked for has come, or the upload
// is being finished. A stream of a client that has all that it may have waits for the client to remove something.
func (u *Upload) isHeldUp() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.conns {
		if one.conn.IsStoring() { // more than is known to have come may be in the socket
			return true
		}
	}
	usedUp := u.spec.Stream && u.client.allowed.isShort()
	return u.finished != nil || u.end == nil && u.granted <= u.came && u.granted < u.limit && !usedUp
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

// admits reports whether a peer may bring the upload's bytes by a ticket.
func (u *Upload) admits(peer identity.ID, ticket []byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.admitsLocked(peer, ticket)
}

func (u *Upload) admitsLocked(peer identity.ID, ticket []byte) bool {
	return u.peer == peer && subtle.ConstantTimeCompare(ticket, u.ticket) == 1
}

// linkTime is how long a link waits for the one before it, which can be in a write to a disk that hangs. Its client has given up by then,
// and comes again: were it waited for, connections would pile up until the disk is back.
const linkTime = 5 * time.Second

var errLinked = errors.New("the link before it has not ended, as what it brought waits for the disk")

// begin waits until the last link has ended, and makes a new one that goes on from there. Meanwhile the upload may have been closed,
// have failed, or have a new ticket: whatever cut the last link then could not cut this one.
func (u *Upload) begin(ctx context.Context, asked *link.Asked) (taking *link.Taking, from uint64, err error) {
	u.cut()
	select {
	case u.serving <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	case <-u.stopped:
		return nil, 0, ErrUpload
	case <-time.After(linkTime):
		return nil, 0, errLinked
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.life.Err() != nil || u.err != nil || !u.admitsLocked(asked.Peer.ID, asked.Capability) {
		u.over()
		return nil, 0, ErrUpload
	}
	u.taking = link.NewTaking(ctx, u.came, u, link.Options{Bounds: parallel.Bounds{Least: 1, Most: parallel.Most}})
	return u.taking, u.came, nil
}

// over lets the next link begin.
func (u *Upload) over() { <-u.serving }

func (u *Upload) link() *link.Taking {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.taking
}

// Section implements link.Store.
func (u *Upload) Section(offset uint64) (link.Place, int64, error) {
	place, room, err := u.sink.Place(offset)
	if err != nil {
		return link.Place{}, 0, &link.StorageError{Err: err}
	}
	return place, room, nil
}

// Landed implements link.Store.
func (u *Upload) Landed(upTo uint64) error {
	u.update(func() { u.came, u.brought = upTo, time.Now() })
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
