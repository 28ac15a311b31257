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
	// openingMost and openingEach are how many links are opened at once, of all and of
	// one source: who opens has not proved anything yet.
	openingMost = 256
	openingEach = 64
)

// Why a link was not opened.
const (
	Crowded   = "crowded"   // too many are being opened
	Handshake = "handshake" // the other end did not prove who it is, or speaks something else
	Probe     = "probe"     // the other end only measured the way here
)

// Door accepts links at a port.
type Door struct {
	Security identity.TLS
	Log      *slog.Logger
	// Serve welcomes or refuses who asks, and returns when the link is over.
	Serve func(ctx context.Context, asked *Asked)
	// Refused hears why a link was not opened.
	Refused func(reason string)

	mu      sync.Mutex
	opening map[string]int // links being opened, by source; "" is all
	links   sync.WaitGroup
}

// Wait returns when all links are over, after Run.
func (d *Door) Wait() { d.links.Wait() }

// Run accepts links until ctx is done.
func (d *Door) Run(ctx context.Context, listener net.Listener) error {
	d.opening = make(map[string]int)
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

// admit has a link opened, unless too many are.
func (d *Door) admit(ctx context.Context, raw net.Conn) {
	source, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opening[""] >= openingMost || d.opening[source] >= openingEach {
		d.Refused(Crowded)
		raw.Close()
		return
	}
	d.opening[""]++
	d.opening[source]++
	d.links.Go(func() {
		asked, err := Accept(ctx, raw, d.Security)
		d.opened(source)
		switch {
		case err == nil:
			d.Serve(ctx, asked)
		case SaidNothing(err):
			d.Refused(Probe)
		default:
			d.Refused(Handshake)
			d.Log.Debug("a link was not opened", "error", err)
		}
	})
}

func (d *Door) opened(source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opening[""]--
	if d.opening[source]--; d.opening[source] == 0 {
		delete(d.opening, source)
	}
}
