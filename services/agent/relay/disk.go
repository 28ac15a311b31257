package relay

import (
	"context"
	"time"

	"github.com/groupcast/groupcast/internal/noroom"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Others may fill the disk of the cache, which then holds less than its limit. What is kept without need gives way to
// what comes, over the link that there is. Where there is nothing to give back, the link ends, so that the parent's end
// learns of it, and none is opened before the disk takes something again: what was under way has to be sent again.
// Senders of earlier versions take the refusal as that of any agent that cannot be reached.

const (
	// roomPatience is how long a link waits for children to have what could be given back. It is less than a
	// neighbour's patience, in which something has to move.
	roomPatience = time.Second
	// firstFull is the pause before the disk is tried again. It doubles, up to longFull, until a segment has come.
	firstFull = time.Second
	longFull  = 8 * time.Second
	// noRoom is the managers' word for it.
	noRoom = "no_room"
	// diskIsFull is what parents are told.
	diskIsFull = "the disk of its cache is full"
)

// shortage is what a delivery knows of a disk without room. It is guarded by the delivery's mutex.
type shortage struct {
	waiting int           // writers that wait for children
	pause   time.Duration // the last; zero if there was none
	until   time.Time     // the disk is not tried before
	told    bool          // the log has it
}

// giveRoom gives back what the disk lacks, and reports whether that was anything: what is kept of one that has ended, and
// where there is none, what all children have of those that run.
func (h *Hub) giveRoom() (gave bool) {
	if h.giveUpKept(1) > 0 {
		return true
	}
	for _, d := range h.all() {
		gave = d.releaseKept() || gave
	}
	return gave
}

// makeRoom gives back what the disk lacks as soon as there is something, and reports whether there was.
func (d *delivery) makeRoom(ctx context.Context) bool {
	d.shorten(1)
	defer d.shorten(-1)
	timer := time.NewTimer(roomPatience)
	defer timer.Stop()
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		if d.hub.giveRoom() {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// shorten counts those that wait for room. While there are any, every acknowledgement makes a difference.
func (d *delivery) shorten(by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.short.waiting += by
}

// noteLink notes how a link ended that had begun at an offset.
func (d *delivery) noteLink(err error, from uint64) {
	told := true
	d.update(func() {
		d.intake = nil
		if !noroom.Is(err) {
			return
		}
		if d.account.Offset() >= from+d.hub.Cache.Segment() {
			d.short.pause = 0
		}
		d.trouble = noRoom
		d.short.postpone()
		told, d.short.told = d.short.told, true
	})
	if !told {
		d.log.Warn("others have filled the disk of the cache: the managers look for another agent, and for a minute whether there is room again", "error", err)
	}
}

// postpone has the disk be tried again after a pause.
func (s *shortage) postpone() {
	s.pause = min(max(2*s.pause, firstFull), longFull)
	s.until = time.Now().Add(s.pause)
}

// mayTake reports whether the disk takes something, as far as is known. One that had no room is tried after a pause.
func (d *delivery) mayTake() bool {
	d.mu.Lock()
	full, until := d.trouble != "", d.short.until
	d.mu.Unlock()
	if !full || time.Now().Before(until) {
		return !full
	}
	d.hub.giveRoom()
	fits := d.hub.Cache.Fits()
	d.update(func() {
		if fits {
			d.trouble = ""
		} else {
			d.short.postpone()
		}
	})
	return fits
}

// errFull says that no link is opened, for there is no room.
var errFull = &refusal{wire.NoRoom, diskIsFull}
