// Package gather uploads files and streams to a gathering server, and sets what its clients get.
//
// A Client holds a control stream to the gatherer while it uploads. On it the gatherer says how many data connections to have, and when
// to send nothing. Whatever breaks, the client comes back by itself, and goes on where it left off.
package gather

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// Options say how a client attaches.
type Options struct {
	// As is the client's name; empty is the name in its certificate. An operator can attach as anybody, a member only as itself.
	As string
	// Labels are matched by the gatherer's policy.
	Labels map[string]string
	// Log gets what the client recovers from by itself; nil logs nothing.
	Log *slog.Logger
	// Unwritten is called when the client has renewed its certificate and cannot write it, as sdk.WithUnwritten says; nil is not.
	Unwritten func(why error, lapses time.Time)
	// Dialer opens all connections; nil dials.
	Dialer sdk.Dialer
}

// check refuses what no call can carry: attaching with it would fail for ever, as if something were broken.
func (o Options) check() error {
	texts := []string{o.As}
	for key, value := range o.Labels {
		texts = append(texts, key, value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return &sdk.Error{Code: sdk.InvalidArgument, Message: fmt.Sprintf("%q, in the client's name or its labels, is not UTF-8", text)}
		}
	}
	return nil
}

// Client is a client of one gatherer. Many goroutines can use it: 64 uploads run at once, and others wait for their turn.
type Client struct {
	uplink   *uplink.Uplink
	gatherer string
	conn     *grpc.ClientConn
	find     finding // nil if an address was named
	rpc      gatherv1.GatherServiceClient
	options  Options
	dialer   sdk.Dialer

	incarnation string
	returns     atomic.Bool // it has been attached before

	attaching sync.Once
	life      context.Context
	end       context.CancelFunc
	attached  sync.WaitGroup

	turns chan struct{} // holds one for each upload that runs

	mu       sync.Mutex
	told     *gatherv1.AttachResponse // nil while there is no session
	detached string                   // why there is none now, once that is known
	reason   string                   // that the gatherer gave for it; empty if it gave none
	err      error                    // why there will be none
	waiting  map[*upload]uint64
	running  map[string]bool // paths of uploads that run
	named    string          // the gatherer's name, which it has proven or has to prove before anything is sent; empty before it is known
	changed  chan struct{}   // closed when any of these changes
	reached  string          // the data address at which the gatherer answered last in this session; empty before it has
}

// Open returns a client of the gatherer at an address, as host:port, or with a name, with the identity of a configuration file. ctx
// only bounds how long it takes to find the gatherer: the client outlives it.
func Open(ctx context.Context, file, gatherer string, options Options) (*Client, error) {
	config, err := uplink.ReadConfig(file)
	if err != nil {
		return nil, sdk.Because(sdk.InvalidArgument, err)
	}
	return Dial(ctx, config, gatherer, options)
}

// Dial returns a client of the gatherer at an address, as host:port, or with a name. For a name, it asks the managers where that is,
// until ctx is done, and the gatherer has to prove its name.
func Dial(ctx context.Context, config sdk.Config, gatherer string, options Options) (*Client, error) {
	if err := cmp.Or(checkGatherer(gatherer), options.check()); err != nil {
		return nil, err
	}
	if err := config.Lapsed(); err != nil {
		return nil, sdk.Because(sdk.Forbidden, err)
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	up, err := uplink.Dial(config, options.Log, uplink.Over(options.Dialer))
	if err != nil {
		return nil, sdk.Because(sdk.InvalidArgument, err)
	}
	up.TellUnwritten(options.Unwritten)
	conn, find, err := connect(ctx, up, gatherer, uplink.Over(options.Dialer))
	if err != nil {
		return nil, errors.Join(err, up.Close())
	}
	c := &Client{
		uplink: up, gatherer: gatherer, conn: conn, find: find, rpc: gatherv1.NewGatherServiceClient(conn), options: options, dialer: options.Dialer,
		incarnation: cryptorand.Text(), waiting: make(map[*upload]uint64), running: make(map[string]bool), changed: make(chan struct{}),
		turns: make(chan struct{}, uploadsMost),
	}
	if c.dialer == nil {
		c.dialer = &net.Dialer{}
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Name returns the name under which the client attaches.
func (c *Client) Name() (string, error) {
	if c.options.As != "" {
		return c.options.As, nil
	}
	id, err := c.uplink.ID()
	return id.Name, err
}

// Gatherer returns the name that the gatherer has, whatever address was named, once it has let an upload begin; empty before that.
func (c *Client) Gatherer() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.named
}

func (c *Client) knows(gatherer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named = gatherer
}

// Close ends the session. Uploads that run end with an error whose reason is CLOSED, and can go on another time.
func (c *Client) Close() error {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.attached.Wait()
	return errors.Join(uplink.Close(c.conn), c.uplink.Close())
}

func (c *Client) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// attach begins to keep a session, at the first upload.
func (c *Client) attach() {
	c.attaching.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.life.Err() == nil { // Close waits for it
			c.attached.Go(c.keepAttached)
		}
	})
}

// lasting is how long a session goes on at least, unless something is wrong.
const lasting = time.Minute

// Pauses before the gatherer is asked again.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 3 * time.Second
)

// keepAttached attaches, again and again, until the client is closed or is refused for good.
func (c *Client) keepAttached() {
	wait, known, begun := firstPause, false, time.Now()
	var missed time.Time // since when the gatherer is not reached; zero while it is
	short := 0           // how many sessions in a row have not lasted
	for c.life.Err() == nil {
		var heard time.Time // first in this session; zero if there is none
		err := c.hold(func() {
			if heard.IsZero() {
				heard = time.Now()
			}
			wait, known, missed = firstPause, true, time.Time{}
		})
		switch {
		case heard.IsZero():
		case time.Since(heard) < lasting:
			short++
		default:
			short = 0
		}
		if !known {
			err = c.noGatherer(err, time.Since(begun))
		}
		c.update(func() {
			c.told, c.detached, c.reason = nil, "", ""
			if heard.IsZero() || short > 1 { // else it has ended as each does now and then, and the next begins at once
				c.detached, c.reason = reasonFor(err), uplink.Reason(err)
			}
		})
		if final(err) {
			c.update(func() { c.err = sdk.Reported(err) })
			return
		}
		if c.life.Err() == nil {
			c.options.Log.Debug("not attached to the gatherer; trying again", "error", err)
		}
		missed = c.findAgain(missed, err)
		pause.For(c.life, wait/2+rand.N(wait))
		wait = min(2*wait, longPause)
	}
}

// ErrFenced says that the same client has attached elsewhere. Processes that upload at the same time need names of their own
// (Options.As, or their certificates).
var ErrFenced = errors.New("another process has attached as this client: only one can at a time")

var errClosed = &sdk.Error{Code: sdk.Conflict, Reason: "CLOSED", Message: "the client was closed"}

// errRevoked says that the identity was revoked while it was attached.
var errRevoked = &sdk.Error{Code: sdk.Forbidden, Reason: "REVOKED", Message: "the identity was revoked: enroll with a new join token"}

// final reports whether attaching again cannot help.
func final(err error) bool {
	err = sdk.Reported(err)
	switch sdk.CodeOf(err) {
	case sdk.Forbidden, sdk.InvalidArgument:
		return true
	case sdk.NoRoom:
		return !tooMany(err)
	}
	return errors.Is(err, ErrFenced)
}

// tooMany reports whether the gatherer has as many clients, or uploads, as it takes. That passes: those that are gone make way after a
// while.
func tooMany(err error) bool {
	var known *sdk.Error
	return errors.As(err, &known) && known.Reason == "TOO_MANY"
}

// hold holds one session until it ends. A client that is closed tells the gatherer that it leaves: its place would be kept for a while
// if it were just cut off, and others wait for it.
func (c *Client) hold(heard func()) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.life))
	defer cancel()
	stopCancel := context.AfterFunc(c.life, cancel) // while there is no session to leave
	defer stopCancel()
	stream, err := c.rpc.Attach(ctx)
	if err == nil {
		err = stream.Send(&gatherv1.AttachRequest{
			Client: c.options.As, Labels: c.options.Labels, WaitingBytes: c.waitingBytes(), Incarnation: c.incarnation, Returns: c.returns.Load(),
		})
	}
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	var beating sync.WaitGroup
	defer beating.Wait()
	beats, over := context.WithCancel(c.life)
	defer over()
	defer cancel()
	for beat := false; ; beat = true {
		told, err := stream.Recv()
		switch {
		case err != nil:
			return fmt.Errorf("attach: %w", err)
		case told.GetEnded() == "fenced":
			return ErrFenced
		case told.GetEnded() == "revoked":
			return errRevoked
		case told.GetEnded() != "":
			return fmt.Errorf("attach: the gatherer ends the session: %s", told.GetEnded())
		}
		if !beat && stopCancel() {
			beating.Go(func() {
				c.beat(beats, stream, told.GetInterval().AsDuration())
				pause.For(ctx, leaveTime) // the gatherer ends the stream
				cancel()
			})
		}
		heard()
		c.returns.Store(true)
		c.update(func() {
			if c.told, c.detached, c.reason = told, "", ""; !beat {
				c.reached = "" // what was slow once may be better again
			}
		})
	}
}

// reasonFor returns why there is no session, for the user.
func reasonFor(err error) string {
	return sdk.Reported(err).Error()
}

// noGatherer makes err one that ends trying, if it says that somebody else answers at the address, or has said for long that this
// machine knows no such address, as outside of a cluster. It is not asked once a gatherer has been there: that may come back.
func (c *Client) noGatherer(err error, tried time.Duration) error {
	reason := reasonFor(err)
	if _, peer, is := strings.Cut(reason, "authentication handshake failed: peer is "); is && !isName(c.gatherer) {
		who, _, _ := strings.Cut(peer, ":")
		return &sdk.Error{Code: sdk.InvalidArgument, Reason: "NO_GATHERER", Message: fmt.Sprintf("%s is no gatherer: %s answers there", c.gatherer, who)}
	}
	if host, is := strings.CutSuffix(reason, ": no such host"); is && isName(c.gatherer) && tried > noHostPatience {
		return &sdk.Error{Code: sdk.InvalidArgument, Reason: "NO_GATHERER", Message: fmt.Sprintf(
			"%s has registered under an address that this machine does not know (%s): name one that it does, as host:port. Outside of a cluster that is Envoy's port for gathering", c.gatherer, strings.TrimPrefix(host, "dial tcp: "))}
	}
	return err
}

// noHostPatience is how long a host name may be unknown before a client gives up: DNS may just be starting.
const noHostPatience = 20 * time.Second

// leaveTime is how long a gatherer may take to let a client go.
const leaveTime = time.Second

// beat sends heartbeats until ctx is done, and then says that the client leaves.
func (c *Client) beat(ctx context.Context, stream grpc.BidiStreamingClient[gatherv1.AttachRequest, gatherv1.AttachResponse], interval time.Duration) {
	for pause.For(ctx, max(interval, firstPause)) {
		if stream.Send(&gatherv1.AttachRequest{WaitingBytes: c.waitingBytes()}) != nil {
			return // receiving says why
		}
	}
	_ = stream.CloseSend() // it may have ended
}

// waitingBytes returns how many bytes wait to be sent.
func (c *Client) waitingBytes() (bytes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.waiting {
		bytes += one
	}
	return bytes
}

// standing is what the client is told now.
type standing struct {
	session     string
	connections int
	paused      string
	detached    string
	reason      string
	changed     <-chan struct{}
}

func (c *Client) standing() (standing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	if err == nil && c.life.Err() != nil {
		err = errClosed
	}
	return standing{c.told.GetSession(), int(c.told.GetConnections()), c.told.GetPaused(), c.detached, c.reason, c.changed}, err
}

// sameSession is how long a session that a call said has ended may go on before it is tried again: earlier gatherers say so, too, to a
// client that was away while its upload was opened, and is back with a session that goes on.
const sameSession = 3 * time.Second

// awaitSession waits for a session other than one that has ended, and returns it.
func (c *Client) awaitSession(ctx context.Context, ended string) (string, error) {
	c.attach()
	var goesOn <-chan time.Time
	if ended != "" {
		goesOn = time.After(sameSession)
	}
	for {
		now, err := c.standing()
		if err != nil || now.session != "" && now.session != ended {
			return now.session, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-c.life.Done():
			return "", errClosed
		case <-goesOn:
			ended = ""
		case <-now.changed:
		}
	}
}
