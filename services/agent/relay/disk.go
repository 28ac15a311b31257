package relay

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/noroom"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Others may fill the disk of the cache, which then holds less than its limit. What is kept without need makes room for
// what comes, and the link goes on. Where there is nothing to give back, the link ends, so that the parent's end
// learns of it, and none is opened before the disk takes something again: what was under way has to be sent again.
// Senders of earlier versions take the refusal for that of an agent that cannot be reached. A cache that cannot be written
// for another reason, because its disk is broken or no more files may be open, counts as one without room: it is not the parent's fault.

const (
	// roomPatience is how long a link waits for children to acknowledge what could then be given back. It is less than a
	// neighbour's patience, within which something has to move.
	roomPatience = time.Second
	// firstFull is the pause before the disk is tried again. It doubles, up to longFull, until a segment has come.
	firstFull = time.Second
	longFull  = 8 * time.Second
	// noRoom is the managers' word for it.
	noRoom = "no_room"
)

// Why no link is opened, as parents are told.
var (
	errFull   = &refusal{wire.NoRoom, "the disk of its cache is full"}
	errBroken = &refusal{wire.NoRoom, "its cache cannot be written"}
)

// isOwn reports whether an error is this agent's own, and not its parent's: its cache takes nothing.
func isOwn(err error) bool {
	var storage *link.StorageError
	return noroom.Is(err) || errors.As(err, &storage)
}

// shortage is what a delivery knows of a disk without room. It is guarded by the delivery's mutex.
type shortage struct {
	waiting int           // writers that wait for children
	pause   time.Duration // the last; zero if there was none
	until   time.Time     // the disk is not tried before this
	broken  bool          // the last time, something else than room was lacking
	told    bool          // the log has it
}

// lacks reports whether what kept deliveries have was lacking: room on the disk, or files that may be open.
func lacks(err error) bool { return noroom.Is(err) || lacksFiles(err) }

// lacksFiles reports whether no more files may be open.
func lacksFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// tryFile returns why no file can be opened; nil if one can.
func tryFile() error {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// giveRoom gives back some room on the disk, and the files in which it was, and reports whether there was any to give back: what is kept of a delivery that has
// ended or, if there is none, what all children have of those that run.
func (h *Hub) giveRoom() (gave bool) {
	if h.giveUpKept() {
		return true
	}
	for _, d := range h.all() {
		gave = d.releaseKept() || gave
	}
	return gave
}

// makeRoom gives back some room on the disk as soon as there is any to give back, and reports whether there was within roomPatience.
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

// shorten counts the writers that wait for room. While there are any, every acknowledgement makes a difference.
func (d *delivery) shorten(by int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.short.waiting += by
}

// noteLink notes how a link ended that had begun at an offset.
func (d *delivery) noteLink(err error, from uint64) {
	told := true
	isFull := noroom.Is(err)
	d.update(func() {
		d.intake = nil
		if !isOwn(err) {
			return
		}
		if d.account.Offset() >= from+d.hub.Cache.Segment() {
			d.short.pause = 0
		}
		d.trouble, d.short.broken = noRoom, !isFull
		d.short.postpone()
		told, d.short.told = d.short.told, true
	})
	switch {
	case told:
	case !isFull:
		d.log.Error("the cache cannot be written: the managers look for another agent, and for a minute whether it can again", "error", err)
	default:
		d.log.Warn("others have filled the disk of the cache: the managers look for another agent, and for a minute whether there is room again", "error", err)
	}
}

// postpone has the disk be tried again after a pause.
func (s *shortage) postpone() {
	s.pause = min(max(2*s.pause, firstFull), longFull)
	s.until = time.Now().Add(s.pause)
}

// unfit returns why the disk takes nothing, as far as is known; nil if it takes something. A disk that had no room is tried again after a pause.
func (d *delivery) unfit() *refusal {
	d.mu.Lock()
	why, until := d.lacking(), d.short.until
	d.mu.Unlock()
	if why == nil || time.Now().Before(until) {
		return why
	}
	failed := d.hub.Cache.Fits()
	if lacks(failed) && d.hub.giveRoom() {
		failed = d.hub.Cache.Fits()
	}
	d.update(func() {
		if failed == nil {
			d.trouble = ""
		} else {
			d.short.broken = !noroom.Is(failed)
			d.short.postpone()
		}
		why = d.lacking()
	})
	return why
}

// All functions below are called with d.mu held.

func (d *delivery) lacking() *refusal {
	switch {
	case d.trouble == "":
		return nil
	case d.short.broken:
		return errBroken
	}
	return errFull
}
