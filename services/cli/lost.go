package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// lostPause is how often a member that has joined again asks what became of what it was receiving before. What agents still have
// begins here again well before the first time.
const lostPause = 10 * time.Second

// sayLost says, until it is stopped, what became of deliveries that no agent goes on with. If one was the only delivery to receive, that
// ends the member.
func (a *app) sayLost(ctx context.Context, client *sdk.Client, p *pull, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		for len(p.underWay.leftBehind()) > 0 && pause.For(ctx, lostPause) {
			a.lookForLost(ctx, client, p, end)
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// lostOnce is why a member that receives one delivery ends: the delivery has ended without it, or with it, but unseen. err is nil then.
type lostOnce struct{ err error }

func (l *lostOnce) Error() string { return "the one delivery has ended" }

// lookForLost tells of deliveries that have ended without this member, and asks no more for them. Those that run may begin here again.
func (a *app) lookForLost(ctx context.Context, client *sdk.Client, p *pull, end context.CancelCauseFunc) {
	for _, in := range p.underWay.leftBehind() {
		asking, cancel := context.WithTimeout(ctx, a.timeout)
		d, err := client.Delivery(asking, in.ID)
		cancel()
		why, isKnown := fate(d, err, p.join.Name)
		if !isKnown || !p.underWay.giveUp(in.ID) {
			continue
		}
		if why != nil {
			_ = a.arrived(p, sdk.Arrived{Incoming: in, Err: why}) // nobody reads what cannot be written
		}
		if p.once && !p.underWay.isBusy() {
			end(&lostOnce{p.outcome(in, why)})
		}
	}
}

// outcome is how a delivery ended whose end was not seen here: its command, if there is one, was not run.
func (p *pull) outcome(in sdk.Incoming, why error) error {
	if why == nil && p.exec != "" {
		return fmt.Errorf("--exec was not run for %s, which has arrived", printable.Text(in.Name))
	}
	return why
}

var (
	errEndedAway = errors.New("it ended while this member was not heard of, and no agent has more of it: push it again")
	errUnsaid    = errors.New("it ended while this member was not heard of, and has too many members for a manager to say how it ended here: push it again, if it is not there")
	errForgotten = errors.New("no manager knows of it any more: push it again")
)

// fate returns why a member gets no more of a delivery, if that is known; nil if the member has it.
func fate(d sdk.Delivery, err error, member string) (why error, isKnown bool) {
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return errForgotten, true
	case err != nil:
		return nil, false
	}
	for _, r := range d.Receipts {
		switch {
		case r.Member != member:
		case r.State == sdk.ReceiptComplete:
			return nil, true
		case r.State == sdk.ReceiptFailed:
			return &sdk.DeliveryError{Reason: r.Reason, Detail: r.Detail}, true
		}
	}
	switch {
	case d.Ended.IsZero():
		return nil, false
	case d.State == sdk.DeliveryComplete: // at all members
		return nil, true
	case lacksReceipts(d):
		return errUnsaid, true
	}
	return errEndedAway, true
}
