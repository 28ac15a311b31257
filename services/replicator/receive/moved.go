package receive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/udp"
)

// lookEvery is how often it is looked whether the network interface is still the one on which the group is listened to.
const lookEvery = time.Second

// errMoved says that the sockets that were opened at the network interface hear nothing any more.
var errMoved = errors.New("the network interface was made anew, or has another address")

// movedError is errMoved where a sender knows the replica by what it was before.
type movedError struct{ former *replica }

func (*movedError) Error() string { return errMoved.Error() }
func (*movedError) Unwrap() error { return errMoved }

// Run receives one object, and returns once it is there, or why it is not. When the network interface was made anew, or has another
// address, it goes on there from what it has.
func Run(ctx context.Context, env Env, config Config) (Receipt, error) {
	var before Stats
	config = config.watch(ctx, env)
	var former *replica
	for {
		receipt, err := hear(ctx, env, config, former)
		receipt.Stats = receipt.Stats.after(before)
		if !errors.Is(err, errMoved) {
			return receipt, err
		}
		env.Log.Warn("the group is joined again", "interface", config.Place.Interface, "error", err)
		before = receipt.Stats
		former = nil
		if known := new(movedError); errors.As(err, &known) {
			former = known.former
		}
	}
}

// hear is Run on one ground. Before that the replica was another; nil if it was none.
func hear(ctx context.Context, env Env, config Config, former *replica) (Receipt, error) {
	ear, err := multicast.Join(config.Place)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrNoNetwork, err)
	}
	defer func() { _ = ear.Close() }()
	ear.Gather()
	mouth, err := multicast.Open(config.Place, 0)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrNoNetwork, err)
	}
	defer func() { _ = mouth.Close() }()
	ctx, end := onGround(ctx, config.Place, mouth)
	defer end()
	keys, gone := newKeys(config), make(gone)
	var late *time.Timer // one that stood still for a moment is heard again before that
	for {
		heard, err := listen(ctx, ear, config, keys, gone)
		if late != nil {
			late.Stop()
		}
		if err != nil {
			return Receipt{}, moved(ctx, err)
		}
		if former != nil && former.heard.Secret.Session() == heard.Secret.Session() {
			former.movedTo(mouth)
		}
		former = nil
		env.Log.Info("sender found", "sender", heard.Sender.String(), "object", heard.Name, "bytes", heard.Length)
		if env.Begins != nil {
			env.Begins(heard.Sender, heard.info())
		}
		receipt, err := from(ctx, env, config, ear, mouth, heard)
		silent := new(goneError)
		switch {
		case errors.Is(err, errAgain):
			env.Log.Info("that sender is silent, and one with the same begins: it was started again", "sender", heard.Sender.String())
		case errors.As(err, &silent):
			env.Log.Info("that sender is gone, or somebody repeats what it said: listening on", "sender", heard.Sender.String())
			gone[heard.Secret.Session()] = silent.last
			late = time.AfterFunc(unanswered-goneAfter, env.waits)
		case errors.Is(err, errYielded):
			env.Log.Info("that sender has ended, for another has the same key: listening on", "sender", heard.Sender.String())
			gone[heard.Secret.Session()] = forGood
		default:
			return receipt, moved(ctx, err)
		}
	}
}

// onGround returns a context that ends with errMoved when the ground has moved on which a socket was opened. While the interface is gone, or
// has no address, it is waited for. What it returns has to be called.
func onGround(ctx context.Context, place multicast.Place, socket *udp.Socket) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	opened, err := multicast.FootingOf(socket, place)
	var looking sync.WaitGroup
	looking.Go(func() {
		for err == nil && pause.For(ctx, lookEvery) {
			if now, err := multicast.FootingOf(socket, place); err == nil && now != opened {
				stop(errMoved)
			}
		}
	})
	return ctx, func() {
		stop(nil)
		looking.Wait()
	}
}

// moved returns errMoved in place of an error that says no more than that all has ended, if the ground has moved and nothing is in the way
// of going on. What was found out before that, as that the disk is full, stays the reason.
func moved(ctx context.Context, err error) error {
	isEnd := errors.Is(err, errMoved) || errors.Is(err, context.Canceled)
	if why := context.Cause(ctx); isEnd && errors.Is(why, errMoved) && !errors.Is(err, ErrDiskStalled) {
		if known := new(movedError); errors.As(err, &known) {
			return known
		}
		return why
	}
	return err
}

// movedTo has what was on the ground before report from where it is now, so that the sender knows it for the one that joins from there next, and
// does not wait for both.
func (r *replica) movedTo(mouth *udp.Socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mouth = mouth
	for range farewells {
		now := time.Now()
		r.rules.Tell(now)
		r.report(now)
		time.Sleep(farewellEvery)
	}
}
