package roster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/object"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// finish is the end of an upload, once for all who ask for it.
type finish struct {
	length uint64
	root   object.Root
	done   chan struct{}
	file   string
	err    error
}

func (f *finish) isOf(length uint64, root object.Root) error {
	if f.length != length || f.root != root {
		return fmt.Errorf("%w: it was finished with another length or root", ErrUpload)
	}
	return nil
}

// Finish compares what has come with what was sent, makes it durable, and returns where it is. A client that asks again
// gets the same answer, until many other uploads have finished.
func (r *Roster) Finish(ctx context.Context, session string, peer identity.ID, id wire.DeliveryID, length uint64, root object.Root) (string, error) {
	path, err := r.finishUpload(ctx, session, peer, id, length, root)
	return path, r.told(err)
}

// finishUpload has an upload finished, and waits until it is.
func (r *Roster) finishUpload(ctx context.Context, session string, peer identity.ID, id wire.DeliveryID, length uint64, root object.Root) (string, error) {
	r.mu.Lock()
	client, err := r.clientOf(session, peer)
	u, past := r.uploads[id], r.finished.known[id]
	r.mu.Unlock()
	switch {
	case err != nil:
		return "", err
	case past.finish != nil && past.client == client.Name:
		return past.await(ctx, r, length, root)
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
	case <-u.broken:
		return "", u.failure()
	case <-u.stopped:
	}
	return finished{client.Name, asked}.path(r.Dir, length, root)
}

// await waits until the commands of a finished upload are queued, and returns its path.
func (f finished) await(ctx context.Context, r *Roster, length uint64, root object.Root) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-r.life.Done():
	case <-f.done:
	}
	return f.path(r.Dir, length, root)
}

// finish has the upload finished when all of it has come.
func (u *Upload) finish(length uint64, root object.Root) (*finish, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.finished != nil:
		return u.finished, u.finished.isOf(length, root)
	case u.err != nil:
		return nil, u.err
	case u.came != length:
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrUnfinished, u.came, length)
	}
	u.finished = &finish{length: length, root: root, done: make(chan struct{})}
	u.announce()
	return u.finished, nil
}

// conclude compares what has come with what was sent, makes it durable, has the commands run, and ends the upload,
// whether or not its client still waits.
func (u *Upload) conclude(asked *finish) {
	asked.file, asked.err = u.sink.Finish(asked.length, asked.root)
	r := u.roster
	r.mu.Lock()
	r.forget(u)
	u.client.concluding++
	if asked.err == nil {
		r.finished.begin(u.ID, finished{u.client.Name, asked})
	}
	r.mu.Unlock()
	if asked.err == nil {
		r.Log.Info("upload finished", "client", u.client.Name, "path", u.spec.Path, "bytes", asked.length)
		r.Finished(time.Since(u.opened))
	} else {
		r.Log.Warn("an upload could not be finished", "client", u.client.Name, "path", u.spec.Path, "error", asked.err)
	}
	r.runFor(u.client.Name, u.sink.Placed()) // also of a bundle that has not appeared whole
	r.mu.Lock()
	u.client.concluding--
	if asked.err == nil {
		r.finished.end(u.ID)
	}
	r.mu.Unlock()
	close(asked.done)
	u.stop()
}

// finished is an upload that has ended, kept for clients that ask again.
type finished struct {
	client string
	*finish
}

// path returns where it is below a directory.
func (f finished) path(dir string, length uint64, root object.Root) (string, error) {
	if err := f.isOf(length, root); err != nil {
		return "", err
	}
	select {
	case <-f.done:
	default:
		return "", ErrStopping // it was closed first
	}
	if f.err != nil {
		return "", f.err
	}
	return filepath.Rel(dir, f.file)
}

// rememberMost is how many finished uploads are known beside those that wait for their commands.
const rememberMost = 4096

// remembered are the uploads that were finished last.
type remembered struct {
	known map[wire.DeliveryID]finished
	ring  [rememberMost]wire.DeliveryID
	next  int
}

// begin notes one that is on disk, and whose commands wait for their turn: it is known until end, however many are finished meanwhile.
// Otherwise its client would send it again.
func (m *remembered) begin(id wire.DeliveryID, one finished) { m.known[id] = one }

func (m *remembered) end(id wire.DeliveryID) {
	delete(m.known, m.ring[m.next])
	m.ring[m.next] = id
	m.next = (m.next + 1) % rememberMost
}
