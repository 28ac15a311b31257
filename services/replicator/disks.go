package replicator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// disks are those that were given up and have not answered since. Calls of theirs stand in the kernel, and nothing ends those. Nothing
// more is begun on such a disk, or each replication would leave another call behind.
type disks struct {
	patience time.Duration

	mu       sync.Mutex
	standing map[string][]*standing // by their disks' IDs
}

// standing is a call that does not return.
type standing struct {
	disk              pulse.Disk
	what, replication string
	since             time.Time
}

// left notes that a call stands, until answers is called.
func (d *disks) left(disk pulse.Disk, replication, what string, since time.Time) (answers func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.standing == nil {
		d.standing = make(map[string][]*standing)
	}
	id, one := disk.ID(), &standing{disk, what, replication, since}
	d.standing[id] = append(d.standing[id], one)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.standing[id] = slices.DeleteFunc(d.standing[id], func(other *standing) bool { return other == one })
	}
}

// check returns why nothing may be begun on a disk now, without touching it. What is mounted in its place later is another disk. A call that
// was left sooner than after the whole patience, as of a task that was withdrawn, is no reason: its disk may be slow.
func (d *disks) check(disk pulse.Disk) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.patience == 0 {
		return nil
	}
	for _, one := range d.standing[disk.ID()] {
		if time.Since(one.since) >= d.patience {
			return fmt.Errorf("%w: %s, since %s (%s, replication %s), and nothing more is begun there until it does: see that its server or device is there (dmesg, mount), or mount another in its place (umount -l)",
				receive.ErrDiskStalled, disk.At, one.since.Format(time.DateTime), one.what, one.replication)
		}
	}
	return nil
}

// all returns how many calls stand, and of which disks.
func (d *disks) all() (count int, of []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, standing := range d.standing {
		if len(standing) > 0 {
			count, of = count+len(standing), append(of, standing[0].disk.At)
		}
	}
	slices.Sort(of)
	return count, of
}

// watch has calls of the disk of a path be waited for as long as that answers.
func (w *worker) watch(replication, path string) *pulse.Watch {
	return &pulse.Watch{
		Log: w.log.With("replication", replication), Path: path, Patience: w.places.disks.patience,
		Left: func(disk pulse.Disk, what string, since time.Time) func() {
			return w.leftBehind(disk, path, replication, what, since)
		},
	}
}

// source opens what is to be sent, and has it be waited for as long as its disk answers; not while another program finds out what of a
// device is used, which says nothing of how far it is.
func (w *worker) source(ctx context.Context, watch *pulse.Watch, task *replicav1.SendTask) (send.Opened, error) {
	path := task.GetPath()
	if err := w.places.disks.check(pulse.DiskOf(path)); err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (send.Opened, error) {
		return w.places.source(ctx, path, task.GetSkipUnused())
	}
	if !task.GetSkipUnused() {
		return send.AwaitOpen(ctx, watch, open)
	}
	from, err := open(pulse.In(ctx, &watch.Pulse))
	if err != nil {
		return nil, err
	}
	return send.Await(ctx, watch, from), nil
}

// leftBehind notes that a call of a disk stands, until answers is called.
func (w *worker) leftBehind(disk pulse.Disk, path, replication, what string, since time.Time) (answers func()) {
	returned := w.places.disks.left(disk, replication, what, since)
	w.metrics.standing.Inc()
	w.log.Warn("a disk is given up: what it does for a replication is left behind until it answers", "replication", replication, "path", path, "disk", disk.At, "what", what, "since", since.Format(time.DateTime))
	return func() {
		returned()
		w.metrics.standing.Dec()
		w.log.Info("a disk that was given up answers again", "path", path, "disk", disk.At, "what", what, "after", time.Since(since).Round(time.Second))
	}
}
