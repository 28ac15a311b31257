package gather

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/sdk"
)

// Progress is how an upload stands.
type Progress struct {
	Path string
	// Files is how many files a tree has, and FilesDone how many of them are finished; both are zero for anything else.
	Files, FilesDone int
	// Sent is up to where bytes were sent, Length how many there are; for a stream, how many so far.
	Sent, Length uint64
	// Stored is up to where a stream is on the gatherer's disk, as far as is known; zero for a file.
	Stored uint64
	// Attached is whether the gatherer has let the client in. If it has not, Detached is why: the last error, for the
	// user; empty before there was one, and while a session that has ended is renewed. DetachedReason is the reason that
	// the gatherer gave, for programs, as PLACE_KEPT; empty if it has not answered.
	Attached                 bool
	Detached, DetachedReason string
	// Connections is how many data connections the gatherer asks for.
	Connections int
	// Paused is why nothing is sent now, as queued or disk_full; empty if something is. PausedBy is what the gatherer says of it to the
	// user, if it says anything.
	Paused, PausedBy string
	// Stuck is why nothing has got through for a while, although the gatherer has let the client in and does not pause it, as when its
	// data port cannot be reached: the last error, for the user. The client goes on trying.
	Stuck string
	// Ended says that the upload is over, and this its last progress. If it is finished, all counts as sent.
	Ended bool
}

// Uploaded is a finished upload: it is on the gatherer's disk, and the same as here. The API has no message for it; its JSON form is
// as if it had.
type Uploaded struct {
	// Path is where it is on the gatherer.
	Path string `json:"path"`
	// Bytes is how many it has; of a stream that went on, how many were added to it.
	Bytes uint64 `json:"bytes,string"`
	// There says that it was there already, and nothing was sent.
	There bool `json:"there,omitempty"`
}

// supplier is what is uploaded.
type supplier interface {
	link.Supply
	Hold(held bool)
	SentUpTo() uint64
}

// upload is one upload, over any number of sessions and links.
type upload struct {
	client   *Client
	spec     *gatherv1.UploadSpec
	from     supplier
	progress func(Progress)
	length   func() uint64
	// stored, if it is set, returns up to where the gatherer has it on its disk.
	stored func() uint64
	// same reports whether what is at the gatherer already, by its root, is the same as what is uploaded.
	same func(ctx context.Context, root []byte) (bool, error)
	// usable, if it is set, returns an error if the source has changed.
	usable func() error
	// opened is called with the offset at which the gatherer wants bytes.
	opened func(offset uint64) error
	// end returns length and root of all, once all was sent.
	end func(ctx context.Context) (link.End, error)
	// differs says that what is at the gatherer already was found to be another: it is not compared again until it can be replaced.
	differs bool
	// asked is how the gatherer was asked to finish it, as long as it is not known what came of that.
	asked *gatherv1.FinishUploadRequest
	// hindered is why it cannot be opened now, and hinderedBy what the gatherer says of that. The client's lock guards both.
	hindered, hinderedBy string
	// stuck is why nothing gets through, stuckSince since when. The client's lock guards both.
	stuck      string
	stuckSince time.Time
}

// errThere says that the gatherer has it already: there is nothing to send.
var errThere = errors.New("it is there already")

// run uploads until the upload is finished, or cannot be.
func (u *upload) run(ctx context.Context) (path string, err error) {
	if !u.claim() {
		return "", &sdk.Error{Code: sdk.Conflict, Reason: "UPLOADING", Message: u.spec.GetPath() + " is uploaded by this client already: what has one path goes there one after the other"}
	}
	defer u.release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(u.client.life, func() { stop(errClosed) })()
	var showing sync.WaitGroup
	showing.Go(func() { u.show(ctx) })
	if err = u.client.awaitTurn(ctx); err == nil {
		defer u.client.leaveTurn()
		path, err = u.carryOn(ctx)
	}
	if err != nil && !errors.Is(err, errThere) && ctx.Err() != nil {
		err = u.whyEnded(ctx)
	}
	stop(nil)
	showing.Wait()
	u.showLast(err)
	return path, err
}

// whyEnded returns why something has ended with its context: the cause, if whoever ended the context gave one, or else why there is no
// session.
func (c *Client) whyEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	now, _ := c.standing() // if the client was closed, that is the context's cause
	if !errors.Is(cause, ctx.Err()) || now.session != "" || now.detached == "" {
		return cause
	}
	return sdk.Because(sdk.CodeOf(cause), fmt.Errorf("not connected to the gatherer: %s: %w", now.detached, cause))
}

// whyEnded returns why the upload has ended with its context, and what had kept it from going on.
func (u *upload) whyEnded(ctx context.Context) error {
	err := u.client.whyEnded(ctx)
	if p, _ := u.stands(); p.Stuck != "" && errors.Is(err, ctx.Err()) {
		return sdk.Because(sdk.CodeOf(err), fmt.Errorf("nothing gets through to the gatherer: %s: %w", p.Stuck, err))
	}
	return err
}

// carryOn uploads in one session after another.
func (u *upload) carryOn(ctx context.Context) (path string, err error) {
	wait, ended, damaged := firstPause, "", 0
	for {
		session, err := u.client.awaitSession(ctx, ended)
		if err != nil {
			return "", err
		}
		begun := time.Now()
		path, moved, err := u.once(ctx, session)
		if err != nil && u.usable != nil { // a link that breaks does not say whether the file was cut
			err = cmp.Or(u.usable(), err)
		}
		u.hinder(err)
		u.stick(begun, moved, err)
		switch reason := reasonOf(err); {
		case err == nil, errors.Is(err, errThere), ctx.Err() != nil, reason == hopeless:
			return path, err
		case reason == spoilt && (damaged == damagedMost || u.spec.GetStream()):
			return "", err
		case reason == spoilt:
			damaged++
		case reason == sessionEnded:
			ended = session
			continue
		case moved:
			wait = firstPause
		}
		u.client.options.Log.Debug("the upload was interrupted; going on", "path", u.spec.GetPath(), "error", err)
		if !pause.For(ctx, wait) {
			return "", ctx.Err()
		}
		wait = min(2*wait, longPause)
	}
}

// uploadsMost is how many uploads of a client run at once: as many as a gatherer lets one client have open.
const uploadsMost = 64

// awaitTurn waits until few enough other uploads run.
func (c *Client) awaitTurn(ctx context.Context) error {
	select {
	case c.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) leaveTurn() { <-c.turns }

// claim takes the path for this upload, unless another upload has it: the gatherer could not tell the two apart.
func (u *upload) claim() bool {
	u.client.mu.Lock()
	defer u.client.mu.Unlock()
	if u.client.running[u.spec.GetPath()] {
		return false
	}
	u.client.running[u.spec.GetPath()] = true
	return true
}

func (u *upload) release() {
	u.client.mu.Lock()
	defer u.client.mu.Unlock()
	delete(u.client.running, u.spec.GetPath())
}

// hinder notes why the upload cannot be opened now, for the progress.
func (u *upload) hinder(err error) {
	var known *sdk.Error
	u.client.mu.Lock()
	defer u.client.mu.Unlock()
	u.hindered, u.hinderedBy = "", ""
	if errors.As(err, &known) && known.Reason == "DISK_FULL" {
		u.hindered, u.hinderedBy = "disk_full", known.Message
	}
}

// stuckAfter is how long nothing may get through before the progress says why: most failures are over sooner.
const stuckAfter = 2 * time.Second

// stick notes why nothing has got through since an attempt began; or, if that has moved something, that something does.
func (u *upload) stick(begun time.Time, moved bool, err error) {
	u.client.mu.Lock()
	defer u.client.mu.Unlock()
	switch {
	case moved || err == nil || reasonOf(err) != passing:
		u.stuck, u.stuckSince = "", time.Time{}
		return
	case u.stuckSince.IsZero():
		u.stuckSince = begun
	}
	u.stuck = sdk.Reported(err).Error()
}

type outlook int

const (
	passing      outlook = iota // going on may help
	sessionEnded                // going on helps with another session
	spoilt                      // beginning anew helps, unless what is read changes
	hopeless
)

// damagedMost is how often a file that came damaged is sent anew: the part that an earlier upload has left may have been damaged on the
// gatherer's disk.
const damagedMost = 1

// reasonOf says what an error means for the upload.
func reasonOf(err error) outlook {
	var known *sdk.Error
	var unreadable *sourceError
	switch {
	case errors.Is(err, object.ErrChanged), errors.As(err, &unreadable):
		return hopeless
	case !errors.As(err, &known), tooMany(err):
		return passing
	}
	switch known.Reason {
	case "SESSION_ENDED":
		return sessionEnded
	case "UPLOAD_UNKNOWN", "UNFINISHED", "BUSY", "DISK_FULL":
		return passing
	case "DAMAGED":
		return spoilt
	}
	switch known.Code {
	case sdk.Unavailable, sdk.TimedOut, sdk.Interrupted:
		return passing
	}
	return hopeless
}

// once opens the upload, feeds it, and finishes it when the gatherer has all. If it was asked to finish it in an earlier session, it is
// asked for the answer first: opened anew, what is finished by now would be sent again, and commands for a bundle's files run again.
func (u *upload) once(ctx context.Context, session string) (path string, moved bool, err error) {
	if u.asked != nil {
		if path, err = u.finish(ctx, session); err == nil || u.asked != nil || reasonOf(err) != passing {
			return path, false, err
		}
	}
	if u.spec.GetBundle() {
		if err := u.client.takesBundles(ctx, session); err != nil {
			return "", false, err
		}
	}
	answer, err := u.open(ctx, session)
	if err != nil {
		return "", false, err
	}
	u.client.knows(answer.GetGatherer())
	if err := u.opened(answer.GetOffset()); err != nil {
		return "", false, err
	}
	u.hinder(nil)
	before := u.from.SentUpTo()
	if err := u.feed(ctx, answer); err != nil {
		return "", u.from.SentUpTo() > before, err
	}
	end, err := u.end(ctx)
	if err != nil {
		return "", true, err
	}
	u.asked = &gatherv1.FinishUploadRequest{Upload: answer.GetUpload(), Length: end.Length, Root: end.Root[:]}
	path, err = u.finish(ctx, session)
	return path, true, err
}

// open opens the upload, unless it is there already.
func (u *upload) open(ctx context.Context, session string) (*gatherv1.OpenUploadResponse, error) {
	request := &gatherv1.OpenUploadRequest{Session: session, Spec: u.spec, Replace: u.differs}
	answer, err := u.client.rpc.OpenUpload(ctx, request)
	if root := answer.GetExistingRoot(); err == nil && len(root) > 0 {
		switch same, err := u.same(ctx, root); {
		case err != nil:
			return nil, err
		case same:
			return nil, errThere
		}
		request.Replace = true
		answer, err = u.client.rpc.OpenUpload(ctx, request)
	}
	u.differs = request.Replace && err != nil
	return answer, sdk.Reported(err)
}

// finish has the gatherer make the upload durable. That may take longer than one call lasts.
func (u *upload) finish(ctx context.Context, session string) (string, error) {
	for {
		u.asked.Session = session
		answer, err := u.client.rpc.FinishUpload(ctx, u.asked)
		if err == nil {
			u.asked = nil
			return answer.GetPath(), nil
		}
		if err = sdk.Reported(err); sdk.CodeOf(err) != sdk.TimedOut || ctx.Err() != nil {
			if isAnswered(err) {
				u.asked = nil
			}
			return "", err
		}
	}
}

// isAnswered reports whether an error says what came of an upload that was to be finished: it has to be opened again.
func isAnswered(err error) bool {
	var known *sdk.Error
	if !errors.As(err, &known) {
		return false
	}
	switch known.Reason {
	case "UPLOAD_UNKNOWN", "UNFINISHED", "BUSY", "DISK_FULL", "DAMAGED":
		return true
	}
	return false
}

// feed sends over as many connections as the gatherer asks for, until the gatherer has all.
func (u *upload) feed(ctx context.Context, answer *gatherv1.OpenUploadResponse) error {
	id, err := hex.DecodeString(answer.GetUpload())
	if err != nil || len(id) != len(relay.DeliveryID{}) {
		return fmt.Errorf("the gatherer answers with upload %q: want 32 hexadecimal digits", answer.GetUpload())
	}
	open := func(ctx context.Context, stripe int, join bool) (*link.Conn, relay.Welcome, error) {
		return u.dial(ctx, answer, relay.Hello{
			Offer: true, Join: join, Stripe: uint8(stripe), Stripes: parallel.Most, Delivery: relay.DeliveryID(id), TreeVersion: 1,
			Plaintext: answer.GetPlaintext(), Capability: answer.GetTicket(),
		})
	}
	first, welcome, err := open(ctx, 0, false)
	if err != nil {
		return err
	}
	u.stick(time.Time{}, true, nil)
	feeding := link.NewFeeding(ctx, welcome.From, u.from, link.Options{
		Bounds: parallel.Bounds{Least: 1, Most: parallel.Most}, Steered: true,
		Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
			conn, _, err := open(ctx, stripe, true)
			return conn, err
		},
	})
	steering, stop := context.WithCancel(ctx)
	var steered sync.WaitGroup
	steered.Go(func() { u.steer(steering, feeding) })
	defer steered.Wait()
	defer stop()
	return feeding.Run(first)
}

// steer does what the gatherer says while the upload is fed.
func (u *upload) steer(ctx context.Context, feeding *link.Feeding) {
	for {
		now, err := u.client.standing()
		if err != nil { // the session is gone for good
			feeding.Close()
			return
		}
		if now.session != "" {
			feeding.Steer(now.connections)
			u.from.Hold(now.paused != "")
		}
		select {
		case <-ctx.Done():
			return
		case <-now.changed:
		}
	}
}

// showInterval is how often progress is told.
const showInterval = 200 * time.Millisecond

// show tells how the upload stands, here and to the gatherer, until ctx is done.
func (u *upload) show(ctx context.Context) {
	ticker := time.NewTicker(showInterval)
	defer ticker.Stop()
	for {
		p, err := u.stands()
		u.client.mu.Lock()
		u.client.waiting[u] = p.Length - min(p.Sent, p.Length)
		u.client.mu.Unlock()
		if err == nil && u.progress != nil {
			u.progress(p)
		}
		select {
		case <-ctx.Done():
			u.client.mu.Lock()
			delete(u.client.waiting, u)
			u.client.mu.Unlock()
			return
		case <-ticker.C:
		}
	}
}

// showLast tells how the upload stands at its end, with an error or without.
func (u *upload) showLast(failed error) {
	if u.progress == nil {
		return
	}
	p, _ := u.stands() // its error is the one that failed
	p.Ended = true
	if failed == nil || errors.Is(failed, errThere) {
		p.Sent = p.Length
		if u.stored != nil {
			p.Stored = p.Length
		}
	}
	u.progress(p)
}

// stands returns how the upload stands, or why it cannot go on.
func (u *upload) stands() (Progress, error) {
	p, err := u.client.progress()
	p.Path, p.Sent, p.Length = u.spec.GetPath(), u.from.SentUpTo(), u.length()
	if u.stored != nil {
		p.Stored = u.stored()
	}
	u.client.mu.Lock()
	defer u.client.mu.Unlock()
	if p.Paused == "" || p.Paused == u.hindered {
		p.Paused, p.PausedBy = u.hindered, u.hinderedBy
	}
	if p.Attached && p.Paused == "" && !u.stuckSince.IsZero() && time.Since(u.stuckSince) >= stuckAfter {
		p.Stuck = u.stuck
	}
	return p, err
}

// progress returns what is the same for all uploads of the client.
func (c *Client) progress() (Progress, error) {
	now, err := c.standing()
	return Progress{Attached: now.session != "", Detached: now.detached, DetachedReason: now.reason, Connections: now.connections, Paused: now.paused}, err
}
