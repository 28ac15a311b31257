package roster

import (
	"context"
	"encoding/binary"
	"os"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// Sweep, LookAtDisk and RecountAll are what Run and Retain do now and then.
func (r *Roster) Sweep(now time.Time) { r.sweep(now) }

// LookAtDisk looks how full the disk is.
func (r *Roster) LookAtDisk() { r.lookAtDisk() }

// FreeOf returns what is free of a disk.
var FreeOf = freeOf

// Segment returns how many bytes a connection's segments have.
var Segment = segment

// RecountAll looks at clients again that have too much on the disk.
func (r *Roster) RecountAll() { r.recountAll() }

// WhileCounting has something happen the next time that a client's bytes were counted, before that is known.
func (r *Roster) WhileCounting(happens func()) {
	r.stored = func(dir string) (bytes, unfinished uint64, err error) {
		r.stored = sink.Stored
		bytes, unfinished, err = sink.Stored(dir)
		happens()
		return bytes, unfinished, err
	}
}

// BeforeCounts has something happen each time before a client's bytes are counted.
func (r *Roster) BeforeCounts(happens func()) {
	r.stored = func(dir string) (bytes, unfinished uint64, err error) {
		happens()
		return sink.Stored(dir)
	}
}

// ExecuteAfter has commands for finished files fail before they can start.
func (r *Roster) ExecuteAfter(failures ...error) {
	execute := r.execute
	r.execute = func(client, path, file string) ([]byte, error) {
		if len(failures) > 0 {
			err := failures[0]
			failures = failures[1:]
			return nil, err
		}
		return execute(client, path, file)
	}
}

// CommitWith has uploads that are opened from now on be committed by something else.
func (r *Roster) CommitWith(commit func(sink.Sink) (uint64, error)) {
	r.landIn(func(to sink.Sink) sink.Sink { return committer{to, commit} })
}

// landIn has uploads that are opened from now on land in something around their sinks.
func (r *Roster) landIn(around func(sink.Sink) sink.Sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.openSink = func(ctx context.Context, dir string, spec sink.Spec) (sink.Sink, error) {
		to, err := sink.Open(ctx, dir, spec)
		return around(to), err
	}
}

type committer struct {
	sink.Sink
	commit func(sink.Sink) (uint64, error)
}

func (c committer) Commit() (uint64, error) { return c.commit(c.Sink) }

// LandWith has what comes to uploads that are opened from now on be hashed by something else.
func (r *Roster) LandWith(land func(sink.Sink, uint64) error) {
	r.landIn(func(to sink.Sink) sink.Sink { return lander{to, land} })
}

type lander struct {
	sink.Sink
	land func(sink.Sink, uint64) error
}

func (l lander) Landed(upTo uint64) error { return l.land(l.Sink, upTo) }

// PlaceWith has what comes to uploads that are opened from now on go where something else says.
func (r *Roster) PlaceWith(place func(to sink.Sink, offset uint64) (link.Place, int64, error)) {
	r.landIn(func(to sink.Sink) sink.Sink { return placer{to, place} })
}

type placer struct {
	sink.Sink
	place func(sink.Sink, uint64) (link.Place, int64, error)
}

func (p placer) Place(offset uint64) (link.Place, int64, error) { return p.place(p.Sink, offset) }

// IsAsked reports whether the upload was asked to finish.
func (u *Upload) IsAsked() bool { return u.isFinishing() }

// Arrive has bytes of a client have come over connections that have ended.
func (r *Roster) Arrive(client string, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[client].arrived.unseen += bytes
}

// SyncRegister has the register's file be synced by something else.
func (r *Roster) SyncRegister(sync func(*os.File) error) { r.register.sync = sync }

// WriteWith has something happen before each of a policy's files is written.
func (a *Agreed) WriteWith(happens func()) {
	write := a.write
	a.write = func(name string, content []byte, mode os.FileMode) error {
		happens()
		return write(name, content, mode)
	}
}

// Came says that bytes of an upload were written.
func (u *Upload) Came(content []byte) error {
	for len(content) > 0 {
		u.mu.Lock()
		at := u.came
		u.mu.Unlock()
		place, most, err := u.Section(at)
		if err != nil {
			return err
		}
		part := content[:min(int64(len(content)), most)]
		if _, err := place.File.WriteAt(part, place.At); err != nil {
			return err
		}
		if err := u.Landed(at + uint64(len(part))); err != nil {
			return err
		}
		content = content[len(part):]
	}
	return nil
}

// Offset is up to where bytes have come.
func (u *Upload) Offset() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.came
}

// Serve begins a link, and ends it.
func (u *Upload) Serve(ctx context.Context, asked *link.Asked) error {
	taking, _, err := u.begin(ctx, asked)
	if err == nil {
		taking.Close()
		u.over()
	}
	return err
}

// Close closes the upload, Fail has it take nothing more, Failure says why it does not, and Fence makes its ticket worthless.
func (u *Upload) Close()         { u.close() }
func (u *Upload) Fail(err error) { u.fail(err) }
func (u *Upload) Failure() error { return u.failure() }
func (u *Upload) Fence()         { u.fence() }

// Draw asks for more.
func (u *Upload) Draw() { u.askForMore() }

// Hold has the upload be served and closed by nobody until release is called, as if its disk were slow.
func (u *Upload) Hold() (release func()) {
	u.serving <- struct{}{}
	return u.over
}

// Leave has the upload have been left alone since a time.
func (u *Upload) Leave(since time.Time) { u.update(func() { u.left = since }) }

// BringNothing makes it so that a client has brought nothing for a while.
func (r *Roster) BringNothing(name string, silent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client, since := r.clients[name], time.Now().Add(-silent)
	client.brought = since
	for _, upload := range client.uploads {
		upload.update(func() { upload.brought = since })
	}
}

// Settled returns what the other end is told once all that came has been hashed.
func (u *Upload) Settled() link.Answer {
	for range 500 {
		u.mu.Lock()
		done := u.hashed == u.came
		u.mu.Unlock()
		if done {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return u.Answer()
}

// Permits reports whether what was answered still permits to bring bytes.
func (o Opened) Permits(peer identity.ID) bool { return o.Upload.admits(peer, o.Ticket) }

// Known returns how many uploads, openings and finished ones are known.
func (r *Roster) Known() (uploads, openings, finished int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.uploads), len(r.openings), len(r.finished.known)
}

// Calendar tells how old something is.
type Calendar struct{ calendar }

// Look takes what both clocks say.
func (c *Calendar) Look(date time.Time, passed time.Duration) (by time.Duration) {
	return c.look(date, passed)
}

// DateFor returns by which date something is older than an age.
func (c *Calendar) DateFor(age time.Duration) time.Time { return c.dateFor(age) }

// Keeper looks at the store now and then.
type Keeper struct{ keeper }

// RetainAt removes what need not stay, by what both clocks say.
func (r *Roster) RetainAt(store *Keeper, date time.Time, passed time.Duration) {
	r.retain(&store.keeper, date, passed)
}

// Pace returns what a capped client's uploads ask for: how many bytes at a time, of those wanted.
func Pace(rate uint64, among int) (draw func(now time.Time, want uint64) uint64) {
	p := &pace{}
	p.set(rate, 0, among)
	return p.draw
}

// Reading takes all turns that a client may have to read at once, until done is called.
func (r *Roster) Reading(ctx context.Context, client string) (done func(), err error) {
	var all []func()
	done = func() {
		for _, one := range all {
			one()
		}
	}
	for range readOwn {
		one, err := r.readers.turn(ctx, client)
		if err != nil {
			return done, err
		}
		all = append(all, one)
	}
	return done, nil
}

// CommandsWait has as many commands wait as may, until done is called.
func (r *Roster) CommandsWait() (done func()) {
	for range cap(r.commands.known) {
		r.commands.known <- struct{}{}
	}
	return func() {
		for range cap(r.commands.known) {
			<-r.commands.known
		}
	}
}

// Readers returns how many clients have something read.
func (r *Roster) Readers() int {
	r.readers.mu.Lock()
	defer r.readers.mu.Unlock()
	return len(r.readers.own)
}

// IsAttached reports whether a client has a session.
func (r *Roster) IsAttached(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[name] != nil && r.clients[name].session != nil
}

// Remember has an upload's commands wait while others are finished, and returns whether it is known then, and how many are once it has
// been followed by as many again.
func Remember(others int) (isKnown bool, known int) {
	id := func(number int) (id wire.DeliveryID) {
		binary.BigEndian.PutUint64(id[:], uint64(number))
		return id
	}
	m := remembered{known: make(map[wire.DeliveryID]finished)}
	finishAll := func(first int) {
		for number := range others {
			m.begin(id(first+number), finished{})
			m.end(id(first + number))
		}
	}
	m.begin(id(1), finished{})
	finishAll(2)
	_, isKnown = m.known[id(1)]
	m.end(id(1))
	finishAll(2 + others)
	return isKnown, len(m.known)
}
