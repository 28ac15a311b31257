package sim

import (
	"context"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/sdk"
)

// progressTime is how soon a member must get more of what it lacks when nothing is in the way.
const progressTime = 30 * time.Second

// watchProgress checks that every member gets on with a delivery once the last fault is over.
func (w *world) watchProgress(ctx context.Context, id string) {
	if wait(ctx, time.Until(w.healed)) != nil {
		return
	}
	has, since := make(map[string]uint64), make(map[string]time.Time)
	for ; ctx.Err() == nil; _ = wait(ctx, time.Second/4) {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		delivery, err := w.operator.Delivery(asking, id)
		cancel()
		if err != nil {
			continue // the manager is away, and must be back in time
		}
		if delivery.State != sdk.DeliveryRunning {
			return
		}
		now := time.Now()
		for _, r := range delivery.Receipts {
			if bytes, known := has[r.Member]; !known || r.Bytes != bytes {
				has[r.Member] = r.Bytes
				w.mayWaitFor(r.Member, delivery, has, func(other string) { since[other] = now })
			}
		}
		for _, r := range delivery.Receipts {
			waits := r.State != sdk.ReceiptComplete && r.State != sdk.ReceiptFailed
			if waits && now.Sub(since[r.Member]) > progressTime && !w.mayBeGone() {
				w.Errorf("delivery %s does not get on at %s: %s", delivery.Name, r.Member, standing(delivery))
				return
			}
		}
	}
}

// mayBeGone reports whether nobody may have all that was sent any more: the sender went, and an agent that had it,
// or that was taken for gone, and forgot what it had when it heard so.
func (w *world) mayBeGone() bool {
	return w.hits(senderHost, managerHost, away...) && slices.ContainsFunc(w.nodes(), func(p place) bool {
		return w.hits(p.name, "", simnet.Crash, simnet.LosePower) || w.hits(p.name, managerHost, simnet.CutBoth, simnet.CutOne)
	})
}

// mayWaitFor returns the members for which each may wait while they get on, itself among them. A member that is detached, or was moved
// to where the cache no longer has what it lacks, may wait for all others; everybody else, for those that are fed together with it and
// have less.
func (w *world) mayWaitFor(member string, of sdk.Delivery, has map[string]uint64, tell func(other string)) {
	detaches := w.policy.SlowMember.Action == sdk.Detach || w.policy.SlowMember.Action == ""
	for other, bytes := range has {
		if other == member || detaches || w.forgets(of) || bytes >= has[member] {
			tell(other)
		}
	}
}

// forgets reports whether some agent has less room than a delivery has bytes: what all of its children have goes, and one
// that comes from another agent with less is served when they are done.
func (w *world) forgets(of sdk.Delivery) bool {
	return w.policy.ControlMode != sdk.EndToEnd && slices.ContainsFunc(w.nodes(), func(p place) bool { return p.relays() && uint64(p.cache) < of.Length })
}

// wait waits for a time, or until a context is done.
func wait(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}
