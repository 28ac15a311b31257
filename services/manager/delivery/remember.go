package delivery

import (
	"cmp"
	ranked "container/heap"
	"context"
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

const (
	// forgetAfter is how long a delivery that has ended is remembered.
	forgetAfter = 24 * time.Hour
	// maxRemembered and maxReceipts bound how many ended deliveries are remembered, and how many receipts they have in all: the store and every
	// manager's memory hold them.
	maxRemembered = 10_000
	maxReceipts   = 500_000
	// keptTimes is how many times as many may be remembered while agents keep them: members may still come for them.
	keptTimes = 4
)

// forget forgets what is old, now and then, until ctx is done. After a leader was away for long that may be thousands of deliveries, one after the
// other: nobody waits for it.
func (d *Desk) forget(ctx context.Context) {
	ticker := time.NewTicker(forgetInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.forgetOld(ctx)
		}
	}
}

// forgetOld deletes deliveries that ended long ago, or that are too many, and the trees of deliveries that are no longer kept. It also forgets
// agents that are gone.
func (d *Desk) forgetOld(ctx context.Context) {
	now := time.Now()
	d.forgetAgents(now)
	d.created.forget(now)
	d.forgetDeliveries(ctx, maxRemembered, maxReceipts)
}

// forgetDeliveries is forgetOld of deliveries, with the bounds. While somebody has to be told that a delivery has ended, it is not forgotten.
func (d *Desk) forgetDeliveries(ctx context.Context, most, mostReceipts int) {
	now := time.Now()
	ended := d.view.Deliveries(func(delivery view.Delivery) bool { return !delivery.Running() })
	tooMany, evenIfKept := excess(ended, most, mostReceipts), excess(ended, keptTimes*most, keptTimes*mostReceipts)
	for _, delivery := range ended {
		id, since := delivery.ID(), now.Sub(delivery.GetDelivery().GetEndTime().AsTime())
		var changes []store.Op
		switch kept := d.live(delivery); {
		case kept && (!evenIfKept[id] || since < lingerMember):
			continue
		case tooMany[id] || evenIfKept[id] || since > forgetAfter:
			changes = append(deleteTree(id), store.Delete(view.DeliveryKey(id)), store.DeleteAll(view.ReceiptsPrefix(id)))
		case delivery.Tree != nil:
			changes = deleteTree(id)
		default:
			continue
		}
		if _, err := d.store.Commit(ctx, d.ledger.Term(), []store.Cond{store.Unchanged(view.DeliveryKey(id), delivery.Changed)}, changes); err != nil {
			d.log.Debug("an old delivery could not be forgotten; trying again later", "delivery", id, "error", err)
			return
		}
		d.poke(id) // if it was kept, that ends
	}
	for _, id := range d.view.Strays() {
		if _, err := d.store.Commit(ctx, d.ledger.Term(), []store.Cond{store.Absent(view.TreeKey(id))}, deleteTree(id)); err != nil {
			d.log.Debug("what is left of a tree could not be deleted; trying again later", "delivery", id, "error", err)
			return
		}
	}
}

func deleteTree(id string) []store.Op {
	return []store.Op{store.Delete(view.TreeKey(id)), store.DeleteAll(view.StepsPrefix(id))}
}

// excess returns which deliveries are too many, or have too many receipts together: the oldest of the group that has the most, so that no group has
// others' forgotten. The deliveries come newest first.
func excess(deliveries []view.Delivery, most, mostReceipts int) (tooMany map[string]bool) {
	groups := make(map[string]*remembered)
	left, receipts := len(deliveries), 0
	for _, delivery := range deliveries {
		name := delivery.GetDelivery().GetGroup()
		if groups[name] == nil {
			groups[name] = &remembered{group: name}
		}
		groups[name].add(delivery)
		receipts += receiptsOf(delivery)
	}
	tooMany = make(map[string]bool)
	shed := func(size func(*remembered) int, enough func() bool) {
		if enough() {
			return
		}
		largest := &bySize{size: size}
		for _, of := range groups {
			largest.all = append(largest.all, of)
		}
		for ranked.Init(largest); !enough(); ranked.Fix(largest, 0) {
			oldest := largest.all[0].removeOldest()
			tooMany[oldest.ID()] = true
			left, receipts = left-1, receipts-receiptsOf(oldest)
		}
	}
	shed(func(r *remembered) int { return len(r.deliveries) }, func() bool { return left <= most })
	shed(func(r *remembered) int { return r.receipts }, func() bool { return receipts <= mostReceipts })
	return tooMany
}

func receiptsOf(delivery view.Delivery) int {
	return len(delivery.GetDelivery().GetReceipts()) + delivery.Receipts.Len()
}

// remembered are the ended deliveries of a group, newest first, and how many receipts they have.
type remembered struct {
	group      string
	deliveries []view.Delivery
	receipts   int
}

func (r *remembered) add(delivery view.Delivery) {
	r.deliveries, r.receipts = append(r.deliveries, delivery), r.receipts+receiptsOf(delivery)
}

func (r *remembered) removeOldest() (oldest view.Delivery) {
	last := len(r.deliveries) - 1
	oldest = r.deliveries[last]
	r.deliveries, r.receipts = r.deliveries[:last], r.receipts-receiptsOf(oldest)
	return oldest
}

// bySize is a heap of groups, the largest first.
type bySize struct {
	all  []*remembered
	size func(*remembered) int
}

func (b *bySize) Len() int { return len(b.all) }

func (b *bySize) Less(i, j int) bool {
	one, other := b.all[i], b.all[j]
	return cmp.Or(cmp.Compare(b.size(other), b.size(one)), cmp.Compare(one.group, other.group)) < 0
}

func (b *bySize) Swap(i, j int) { b.all[i], b.all[j] = b.all[j], b.all[i] }
func (b *bySize) Push(any)      { panic("delivery: no group is added to those that are remembered") }

func (b *bySize) Pop() any { panic("delivery: no group is removed from those that are remembered") }
