package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
)

const (
	acceptPause = 100 * time.Millisecond
	// contactTime is how long an agent that has proven who it is may wait before it asks for something; other peers have
	// openTime. contactsMost and contactsEach are how many connections are waited for at once, in all and of each peer. One more
	// is waited for only for crowdedTime: long enough for a peer that asks at once.
	contactTime  = 5 * time.Minute
	crowdedTime  = time.Second
	contactsMost = 512
	contactsEach = 4
)

// Why a link was not opened.
const (
	Crowded   = "crowded"   // too many were being opened, and it had to go for another
	Handshake = "handshake" // the other end did not prove who it is, or speaks something else
	Probe     = "probe"     // the other end only measured the way here
)

var errSentAway = errors.New("it had to go for another")

// Door accepts links at a port.
type Door struct {
	Security identity.TLS
	Log      *slog.Logger
	// Serve welcomes or refuses a neighbour that asks, and returns when the link is over.
	Serve func(ctx context.Context, asked *Asked)
	// Refused is told why a link was not opened.
	Refused func(reason string)

	opening lobby
	mu      sync.Mutex
	agents  crowd // agents that are waited for, by name
	others  crowd // other peers that are waited for, by name
	links   sync.WaitGroup
}

// Wait returns when all links are over, after Run.
func (d *Door) Wait() { d.links.Wait() }

// Run accepts links until ctx is done.
func (d *Door) Run(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		raw, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept links: %w", err)
		case err != nil:
			// Mostly too many open files: others will be closed.
			d.Log.Warn("a link could not be accepted; trying again", "error", err)
			pause.For(ctx, acceptPause)
			continue
		}
		d.admit(ctx, raw)
	}
}

// admit opens a link.
func (d *Door) admit(ctx context.Context, raw net.Conn) {
	came := &guest{raw: raw, at: time.Now()}
	d.opening.receive(came)
	d.links.Go(func() {
		asked, err := d.open(ctx, came)
		switch {
		case err == nil:
			d.Serve(ctx, asked)
		case errors.Is(err, errSentAway):
			d.Refused(Crowded)
		case SaidNothing(err):
			d.Refused(Probe)
		default:
			d.Refused(Handshake)
			d.Log.Debug("a link was not opened", "error", err)
		}
	})
}

// open finds out who has connected, and waits for what is asked. While a peer that has proven who it is is waited for,
// its place among those that open a link is free. Who has given that back is not sent away any more.
func (d *Door) open(ctx context.Context, came *guest) (_ *Asked, err error) {
	opened := sync.OnceValue(func() bool { return d.opening.letGo(came) })
	defer func() {
		if !opened() {
			came.raw.Close()
			err = errSentAway
		}
	}()
	asked, err := meet(ctx, came.raw, d.Security)
	if err != nil {
		return nil, err
	}
	known, patience := &d.others, openTime
	if asked.Peer.ID.Role == identity.Agent {
		known, patience = &d.agents, contactTime
	}
	name := asked.Peer.ID.Name
	if d.enter(known, name) {
		defer d.leave(known, name)
		if !opened() {
			return nil, errSentAway
		}
	} else {
		patience = crowdedTime
	}
	return asked.hear(ctx, patience)
}

// crowd counts connections, in all and by name.
type crowd struct {
	all  int
	each map[string]int
}

// enter counts one more connection of a peer, unless the limits are reached.
func (d *Door) enter(there *crowd, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if there.all >= contactsMost || there.each[name] >= contactsEach {
		return false
	}
	if there.each == nil {
		there.each = make(map[string]int)
	}
	there.all++
	there.each[name]++
	return true
}

func (d *Door) leave(there *crowd, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there.all--
	if there.each[name]--; there.each[name] == 0 {
		delete(there.each, name)
	}
}
