package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// isExpired reports whether an error says that the managers did not hear of a session for too long: a new one can be begun.
func isExpired(err error) bool {
	var ended *sdk.SessionEnded
	return errors.As(err, &ended) && ended.State == "expired"
}

// againPause is how long a member that joins again waits before it asks once more.
const againPause = time.Second

// insist does what a member that comes back needs, until it is done, it is refused, or ctx is done. The member was let in before: if no
// manager leads just now, or if all members come back at once, that passes.
func (a *app) insist(ctx context.Context, do func() error) error {
	for said := false; ; said = true {
		err := do()
		if !mayPass(err) {
			return err
		}
		if !said {
			fmt.Fprintf(a.stderr, "groupcast: %s; trying again\n", printable.Text(err.Error()))
		}
		switch {
		case pause.For(ctx, againPause):
		case errors.Is(ctx.Err(), context.Canceled):
			return errInterrupted
		default:
			return err
		}
	}
}

// mayPass reports whether the managers may do a little later what they did not do now.
func mayPass(err error) bool {
	var reported *sdk.Error
	if errors.As(err, &reported) && slices.Contains([]string{"RATE_LIMITED", "STORE_FULL", "CONTENTION"}, reported.Reason) {
		return true
	}
	return slices.Contains([]sdk.Code{sdk.Unavailable, sdk.TimedOut}, sdk.CodeOf(err))
}

// joinAgain joins in place of a session that has expired.
func (a *app) joinAgain(ctx context.Context, client *sdk.Client, join sdk.Join) (session *sdk.Session, err error) {
	err = a.insist(ctx, func() error {
		session, err = a.join(ctx, client, join)
		return err
	})
	return session, err
}

// whileJoined returns a context that is also done when a session has ended.
func whileJoined(ctx context.Context, session *sdk.Session) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		select {
		case <-session.Done():
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}
