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

// mayBeGone reports whether it is possible that nobody has everything that was sent any more: the sender has
// gone, and an agent lost what it had because it died, or because it was taken to be gone and forgot everything
// when it heard that.
func (w *world) mayBeGone() bool {
	return w.hits(senderHost, managerHost, away...) && slices.ContainsFunc(w.nodes(), func(p place) bool {
		return w.hits(p.name, "", simnet.Crash, simnet.LosePower) || w.hits(p.name, managerHost, simnet.CutBoth, simnet.CutOne)
	})
}

// mayWaitFor calls tell with each member that may have to wait while the given member gets on, including that member. A
// member that is detached, or was moved to an agent whose cache no longer has what it lacks, may wait for all others. Any
// other member may wait for those that have less, with which it is fed together.
func (w *world) mayWaitFor(member string, of sdk.Delivery, has map[string]uint64, tell func(other string)) {
	detaches := w.policy.SlowMember.Action == sdk.Detach || w.policy.SlowMember.Action == ""
	for other, bytes := range has {
		if other == member || detaches || w.forgets(of) || bytes >= has[member] {
			tell(other)
		}
	}
}

// forgets reports whether some agent has less room than a delivery has bytes. Then it discards what all of its children
// have, and a member that comes from another agent with less is served after they are done.
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
