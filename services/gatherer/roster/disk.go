package roster

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/noroom"
)

// lookAtDisk pauses all clients when the disk has no more room than the reserve, and lets
// them go on when it has more again.
func (r *Roster) lookAtDisk() {
	free, err := r.Free(r.Dir)
	if err != nil {
		return // what writes will tell
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.full
	// Where it was full, there has to be clearly more: it would be full again at once.
	r.full = free < r.Reserve || was && free < r.Reserve+r.Reserve/4
	if r.full == was {
		return
	}
	if r.full {
		r.Log.Error("the disk is full: clients are paused until there is room", "dir", r.Dir, "free", free, "reserve", r.Reserve)
	} else {
		r.Log.Info("the disk has room again", "dir", r.Dir, "free", free)
	}
	for _, client := range r.clients {
		r.settle(client)
	}
}

const (
	// stillNoRoom is how long a client is shown as waiting for room that was told that there is none: it asks again sooner.
	stillNoRoom = 10 * time.Second
	// noRoomAgain is after how long without that it is logged again.
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

// freeOn returns how many bytes there is room for on a directory's disk.
func freeOn(dir string) (uint64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return disk.Bavail * uint64(disk.Bsize), nil
}

// Stored returns how many bytes a client has on the disk.
func (r *Roster) Stored(client string) (bytes uint64, err error) {
	err = filepath.WalkDir(filepath.Join(r.Dir, client), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err == nil {
			bytes += uint64(info.Size())
		}
		return ignoreGone(err)
	})
	return bytes, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was renamed or removed meanwhile
	}
	return err
}
