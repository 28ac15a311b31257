package receive

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/udp"
)

// lookEvery is how often it is looked whether the network interface is still the one on which the group is listened to.
const lookEvery = time.Second

// errMoved says that nothing is heard any more by what was opened at the network interface.
var errMoved = errors.New("the network interface was made anew, or has another address")

// Run receives one object, and returns once it is there, or why it is not. When the network interface was made anew, or has another
// address, it goes on there from what it has.
func Run(ctx context.Context, env Env, config Config) (Receipt, error) {
	var before Stats
	for {
		receipt, err := hear(ctx, env, config)
		receipt.Stats = receipt.Stats.after(before)
		if !errors.Is(err, errMoved) {
			return receipt, err
		}
		env.Log.Warn("the group is joined again", "interface", config.Place.Interface, "error", err)
		before = receipt.Stats
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

// moved returns errMoved in place of an error, if that is why all ended.
func moved(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && errors.Is(why, errMoved) {
		return why
	}
	return err
}
