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
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/sdk"
)

// Progress is how an upload stands.
type Progress struct {
	Path string
	// Files is how many there are of a tree, and FilesDone how many of them are finished; both are zero
	// of anything else.
	Files, FilesDone int
	// Sent is up to where bytes were sent, Length how many there are: of a stream, so far.
	Sent, Length uint64
	// Stored is up to where a stream is on the gatherer's disk, as far as it was heard; zero of a file.
	Stored uint64
	// Attached is whether the gatherer has let the client in. If it has not, Detached is why: the last error, for the
	// user; empty before there was one. DetachedReason is the reason that the gatherer gave, for programs, as PLACE_KEPT;
	// empty if it has not answered.
	Attached                 bool
	Detached, DetachedReason string
	// Connections is how many the gatherer asks for.
	Connections int
	// Paused is why nothing is sent now, as queued or disk_full; empty if something is. PausedBy says more of it, for the
	// user, where the gatherer has.
	Paused, PausedBy string
	// Stuck is why nothing has got through for a while, though the gatherer has let the client in and pauses nothing, as where its
	// data port is not reached: the last error, for the user. It is tried again.
	Stuck string
	// Ended says that this is the last: it is over. If it is finished, all counts as sent.
	Ended bool
}

// Uploaded is an upload that is finished: on the gatherer's disk, and what it was here. The API has no message for
// it; as JSON it is as if it had.
type Uploaded struct {
	// Path is where it is on the gatherer.
	Path string `json:"path"`
	// Bytes is how many it has; of a stream that went on, how many were added.
	Bytes uint64 `json:"bytes,string"`
	// There says that it was there already: nothing was sent.
	There bool `json:"there,omitempty"`
}

// supplier is what is uploaded.
type supplier interface {
	link.Supply
	Hold(held bool)
	SentUpTo() uint64
}

// upload is one upload, over however many sessions and links.
type upload struct {
	client   *Client
	spec     *gatherv1.UploadSpec
	from     supplier
	progress func(Progress)
	length   func() uint64
	// stored, if it is set, returns up to where the gatherer has it on its disk.
	stored func() uint64
	// same reports whether a root that is at the gatherer already is that of what is uploaded.
	same func(ctx context.Context, root []byte) (bool, error)
	// usable, if it is set, says why what is uploaded is no longer what it was.
	usable func() error
	// opened is told from where on bytes are wanted.
	opened func(offset uint64) error
	// end returns what all is, when all was sent.
	end func(ctx context.Context) (link.End, error)
	// hindered is why it cannot be opened now, and hinderedBy what the gatherer says of it; with the client locked.
	hindered, hinderedBy string
	// stuck is why nothing gets through, and since when; with the client locked.
	stuck      string
	stuckSince time.Time
}

// errThere says that there is nothing to send.
var errThere = errors.New("it is there already")

// run uploads, until it is finished or cannot be.
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

// whyEnded returns why something has ended with its context: who ended that may say so, and else, where there is no session,
// what is in its way.
func (c *Client) whyEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	now, _ := c.standing() // that it was closed is a cause
	if !errors.Is(cause, ctx.Err()) || now.session != "" || now.detached == "" {
		return cause
	}
	return sdk.Because(sdk.CodeOf(cause), fmt.Errorf("not connected to the gatherer: %s: %w", now.detached, cause))
}

// whyEnded returns why the upload has ended with its context, and what was in its way.
func (u *upload) whyEnded(ctx context.Context) error {
	err := u.client.whyEnded(ctx)
	if p, _ := u.stands(); p.Stuck != "" && errors.Is(err, ctx.Err()) {
		return sdk.Because(sdk.CodeOf(err), fmt.Errorf("nothing gets through to the gatherer: %s: %w", p.Stuck, err))
	}
	return err
}

// carryOn uploads over one session after the other.
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

// uploadsMost is how many uploads of a client run at once: as many as a gatherer has open of one.
const uploadsMost = 64

// awaitTurn waits until not too many other uploads run.
func (c *Client) awaitTurn(ctx context.Context) error {
	select {
	case c.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) leaveTurn() { <-c.turns }

// claim takes the path for this upload, unless another has it: the gatherer would take each for the other.
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

// hinder notes that there is no room for the upload, for who watches.
func (u *upload) hinder(err error) {
	var known *sdk.Error
	u.client.mu.Lock()
	defer u.client.mu.Unlock()
	u.hindered, u.hinderedBy = "", ""
	if errors.As(err, &known) && known.Reason == "DISK_FULL" {
		u.hindered, u.hinderedBy = "disk_full", known.Message
	}
}

// stuckAfter is for how long nothing gets through until it is told why: most of what breaks is mended sooner.
const stuckAfter = 2 * time.Second

// stick notes why nothing gets through, of a try that began at a time; that something does if it has moved something.
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

// damagedMost is how often a file is sent anew of which other bytes came: what an earlier
// upload has left may have been damaged on the gatherer's disk.
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

// once opens the upload and feeds it, and finishes it when all was taken.
func (u *upload) once(ctx context.Context, session string) (path string, moved bool, err error) {
	answer, err := u.open(ctx, session)
	if err != nil {
		return "", false, err
	}
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
	path, err = u.finish(ctx, session, answer.GetUpload(), end)
	return path, true, err
}

// open opens the upload, unless it is there already.
func (u *upload) open(ctx context.Context, session string) (*gatherv1.OpenUploadResponse, error) {
	request := &gatherv1.OpenUploadRequest{Session: session, Spec: u.spec}
	answer, err := u.client.rpc.OpenUpload(ctx, request)
	if root := answer.GetExistingRoot(); err == nil && len(root) > 0 {
		same, err := u.same(ctx, root)
		if err != nil {
			return nil, err
		}
		if same {
			return nil, errThere
		}
		request.Replace = true
		answer, err = u.client.rpc.OpenUpload(ctx, request)
		return answer, sdk.Reported(err)
	}
	return answer, sdk.Reported(err)
}

// finish has the upload made durable. That may take longer than one call does.
func (u *upload) finish(ctx context.Context, session, id string, end link.End) (string, error) {
	for {
		answer, err := u.client.rpc.FinishUpload(ctx, &gatherv1.FinishUploadRequest{Session: session, Upload: id, Length: end.Length, Root: end.Root[:]})
		if err == nil {
			return answer.GetPath(), nil
		}
		if err = sdk.Reported(err); sdk.CodeOf(err) != sdk.TimedOut || ctx.Err() != nil {
			return "", err
		}
	}
}

// feed sends over as many connections as it is told to have, until the gatherer has all.
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

func (u *upload) dial(ctx context.Context, answer *gatherv1.OpenUploadResponse, hello relay.Hello) (*link.Conn, relay.Welcome, error) {
	failed := errors.New("the gatherer has no data port")
	for _, address := range answer.GetAddresses() {
		peer := identity.ID{Role: identity.Gatherer, Name: answer.GetGatherer()}
		conn, welcome, err := link.Dial(ctx, u.client.dialer, address, u.client.uplink.Security(), peer, hello)
		if err == nil {
			return conn, welcome, nil
		}
		failed = fmt.Errorf("the gatherer's data port at %s: %w", address, err)
	}
	return nil, relay.Welcome{}, failed
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

// showLast tells how the upload stands that has ended with an error, or without.
func (u *upload) showLast(failed error) {
	if u.progress == nil {
		return
	}
	p, _ := u.stands() // that no session comes any more is what failed
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

// progress returns how all that is uploaded stands.
func (c *Client) progress() (Progress, error) {
	now, err := c.standing()
	return Progress{Attached: now.session != "", Detached: now.detached, DetachedReason: now.reason, Connections: now.connections, Paused: now.paused}, err
}
