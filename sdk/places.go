package sdk

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// places bounds how many deliveries are received at once: a late member may be assigned thousands that are kept.
type places struct {
	most  int64
	taken atomic.Int64
	free  chan struct{} // holds a token when a place was given back
}

// filesEach is how many open files each delivery is counted as: it has about ten, and its link's connections, of which there are mostly one
// and sometimes eight; and the process has some of its own.
const filesEach = 24

// newPlaces returns so many places; if most is 0, as many as this process may open files for.
func newPlaces(most int) *places {
	p := &places{most: int64(most), free: make(chan struct{}, 1)}
	if most == 0 {
		var limit unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // if that fails, one at a time
		p.most = int64(max(min(limit.Cur, math.MaxInt64)/filesEach, 1))
	}
	return p
}

// take takes a place if there is one. It is called by one goroutine.
func (p *places) take() bool {
	if p.taken.Load() == p.most {
		return false
	}
	p.taken.Add(1)
	return true
}

func (p *places) giveBack() {
	p.taken.Add(-1)
	select {
	case p.free <- struct{}{}:
	default: // there is a token already
	}
}

// queue is the deliveries that wait for a place, and whose senders wait for them. Managers are told so: else they would fail these members
// after a minute, as nothing comes to them, and take it for the fault of agents. It is used by one goroutine.
type queue struct {
	attendance *attendance
	waiting    map[string]bool
}

func newQueue(attendance *attendance) *queue {
	return &queue{attendance, make(map[string]bool)}
}

func (q *queue) join(id string) {
	if q.waiting[id] {
		return
	}
	q.waiting[id] = true
	q.attendance.attend(id, func() *groupv1.DeliveryReport {
		assignment, _ := q.attendance.assignment(id)
		return &groupv1.DeliveryReport{Delivery: id, TreeVersion: assignment.GetTreeVersion(), Paused: true, Queued: true}
	})
}

func (q *queue) leave(id string) {
	if q.waiting[id] {
		delete(q.waiting, id)
		q.attendance.forget(id)
	}
}

// leaveBut has all leave that are not assigned any more, or have ended.
func (q *queue) leaveBut(assigned []*groupv1.Assignment) {
	still := make(map[string]bool, len(assigned))
	for _, assignment := range assigned {
		still[assignment.GetDelivery()] = !assignment.GetEnded()
	}
	for id := range q.waiting {
		if !still[id] {
			q.leave(id)
		}
	}
}
