package receive

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/udp"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	// comingEvery is how often a replica that still reads what it has says so.
	comingEvery = 250 * time.Millisecond
	// refusals is how often a replica says that it will not be, and refuseEvery is how far apart: nothing answers
	// that, and a datagram may be lost.
	refusals    = 5
	refuseEvery = 40 * time.Millisecond
)

// prepare finds out what is there already, which may take as long as it takes to read it, and tells the
// sender meanwhile that somebody comes; or if nothing can land here, why.
func prepare(ctx context.Context, config Config, mouth *udp.Socket, heard announced, again bool) (*watched, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader) // for no other JOIN
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	h := &herald{config: config, mouth: mouth, heard: heard, public: private.PublicKey().Bytes()}
	done := h.comes(ctx)
	landing, err := land(ctx, config, heard.info(), again)
	done()
	if err != nil {
		if ctx.Err() == nil {
			h.refuse(ctx, err)
		}
		return nil, err
	}
	return landing.(*watched), nil
}

// herald tells the sender of a replica that has not joined.
type herald struct {
	config Config
	mouth  *udp.Socket
	heard  announced
	public []byte
	number uint64 // of the next
}

// say sends a JOIN. What it says of its names and of what it heard is always the same.
func (h *herald) say(j wire.Joining) {
	_ = h.mouth.Send(h.heard.secret().JoinAs(h.number, h.public, h.heard.as(h.config, h.public, j)), h.heard.Sender)
	h.number++
}

// comes says now and then that somebody comes, until done is called.
func (h *herald) comes(ctx context.Context) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	var ending sync.WaitGroup
	ending.Go(func() {
		for pause.For(ctx, comingEvery) {
			h.say(wire.Joining{Have: wire.HaveUnknown})
		}
	})
	return func() {
		stop()
		ending.Wait()
	}
}

// refuse says why nobody comes.
func (h *herald) refuse(ctx context.Context, reason error) {
	for range refusals {
		h.say(wire.Joining{Refused: refusalOf(reason), Detail: reason.Error()})
		if !pause.For(ctx, refuseEvery) {
			return
		}
	}
}

// busyPause is how often it is looked whether another replication of the same is done.
const busyPause = 2 * time.Second

// land opens what may be there already, or where it lands. Again, what was there is known not to be it.
func land(ctx context.Context, config Config, info object.Info, again bool) (Landing, error) {
	for {
		landing, err := openOnce(ctx, config, info, again)
		if !config.Waits || !errors.Is(err, object.ErrBusy) {
			return landing, err
		}
		if !pause.For(ctx, busyPause) { // when the other is done, it is here
			return nil, context.Cause(ctx)
		}
		again = false
	}
}

// openOnce is land without waiting for another.
func openOnce(ctx context.Context, config Config, info object.Info, again bool) (Landing, error) {
	if config.Find != nil && !again && info.Length > 0 {
		found, err := config.Find(ctx, info)
		if found != nil || err != nil {
			return found, err
		}
	}
	return config.Open(ctx, info)
}
