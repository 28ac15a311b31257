package roster

import (
	"cmp"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
)

// room is how many bytes may yet be asked for or promised, of all clients together: however fast they come, the disk keeps its reserve.
type room struct {
	mu    sync.Mutex
	known bool
	left  uint64
	given uint64 // since the beginning
}

// draw takes some, as many as there are.
func (r *room) draw(want uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		want = min(want, r.left)
	}
	r.left -= min(want, r.left)
	r.given += want
	return want
}

// drawAll takes all bytes that are wanted, or none, and returns how many there were. They do not count as given: promises are known.
func (r *room) drawAll(want uint64) (left uint64, fits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left = r.left
	if r.known && want > left {
		return left, false
	}
	r.left -= min(want, left)
	return left, true
}

// giveBack returns what was drawn and not asked for.
func (r *room) giveBack(bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += bytes // lookAtDisk still counts it as given if it looks meanwhile
}

func (r *room) drawn() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given
}

// set says how many bytes were left when so many had been given, and returns how many are left now.
func (r *room) set(left, given uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.given - given
	r.known, r.left = true, left-min(left, since)
	return r.left
}

// leastRoom is how much room there has to be, beyond what was asked for already, for more to be asked for.
const leastRoom = 256 << 10

// lookAtDisk finds out how much room the disk has beyond the reserve and what was asked for or promised. It pauses all clients when
// that is next to nothing, and lets them go on when it is clearly more again. Who was asked for more and has not sent it yet, as a
// stream that is quiet for now, is not paused while that fits: of a small disk, it may be all the room that is left.
func (r *Roster) lookAtDisk() {
	// What comes or is asked for meanwhile may be counted twice: too little room is seen then, never too much.
	given := r.room.drawn()
	needs := r.needs()
	taken := needs.asked
	free, err := r.Free(r.Dir)
	if err != nil {
		r.room.set(math.MaxUint64, given)
		return // writing will tell
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	promised := r.renew(needs, free-min(free, taken))
	left := r.room.set(free-min(free, r.Reserve+taken+promised), given)
	was := r.full
	// Where it was full, there has to be clearly more: it would be full again at once.
	r.full = left < leastRoom || was && left < max(leastRoom, r.Reserve/4)
	r.fits = free >= r.Reserve/2+taken
	switch {
	case r.full && !was:
		r.Log.Error("the disk is full: clients are paused until there is room", "dir", r.Dir, "free", free, "asked", taken, "promised", promised, "reserve", r.Reserve)
	case was && !r.full:
		r.Log.Info("the disk has room again", "dir", r.Dir, "free", free)
	case !r.full:
		return
	}
	for _, client := range r.clients {
		r.retell(client)
	}
}

// mayGoOn reports whether a client may send what it was asked for or promised although nobody else is asked for more. The roster is
// locked.
func (r *Roster) mayGoOn(client *Client) bool {
	var asked uint64
	for _, upload := range client.uploads {
		if r.fits && upload.canEnd() {
			return true
		}
		asked += upload.asked()
	}
	return r.fits && asked >= leastRoom
}

const (
	// stillNoRoom is how long a client that was told that there is no room is shown as waiting for it: it asks again sooner.
	stillNoRoom = 10 * time.Second
	// noRoomAgain is how long that must not have happened before it is logged again.
	noRoomAgain = time.Minute
)

// hinder notes that the disk has no room for a client's file, if that is why it could not be opened. The roster is locked.
func (r *Roster) hinder(at place, cause error) {
	client := r.clients[at.client]
	if client == nil || !noroom.Is(cause) {
		return
	}
	now := time.Now()
	if now.Sub(client.noRoom) > noRoomAgain {
		r.Log.Warn("the disk has no room for a file: its client waits for it", "client", at.client, "path", at.path, "error", cause)
	}
	client.noRoom = now
}

// waitsFor returns why a client sends nothing; empty if it may.
func (c *Client) waitsFor(now time.Time) string {
	if c.order.paused == "" && now.Sub(c.noRoom) < stillNoRoom {
		return DiskFull
	}
	return c.order.paused
}

// asked is how many bytes an upload was asked for that have not come.
func (u *Upload) asked() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.granted - min(u.granted, u.came)
}

// freeOn returns how many bytes there is room for on a directory's disk.
func freeOn(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return freeOf(&disk), nil
}

// freeOf returns how much of a disk is free. Free blocks are counted in fragments, if the file system has any: those in user space may
// name a much larger block, the size in which they would like to be written. One without blocks has no bound, or does not tell.
func freeOf(disk *unix.Statfs_t) uint64 {
	if disk.Blocks == 0 {
		return math.MaxInt64
	}
	return disk.Bavail * uint64(cmp.Or(disk.Frsize, disk.Bsize))
}
