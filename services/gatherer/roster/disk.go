package roster

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/policy"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// lookAtDisk pauses all clients when the disk has no more room than the reserve, and lets
// them go on when it has more again.
func (r *Roster) lookAtDisk() {
	var disk unix.Statfs_t
	if unix.Statfs(r.Dir, &disk) != nil {
		return // what writes will tell
	}
	free := disk.Bavail * uint64(disk.Bsize)
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
		client.tell(func(order *directive) {
			switch {
			case r.full && order.paused == "":
				order.paused = DiskFull
			case !r.full && order.paused == DiskFull:
				order.paused = ""
			}
		})
	}
}

// room returns how many bytes of an upload may come.
func (r *Roster) room(share policy.Share, spec sink.Spec) (uint64, error) {
	if share.MaxStored == 0 {
		return math.MaxInt64, nil
	}
	stored, err := r.Stored(spec.Client)
	switch {
	case err != nil:
		return 0, err
	case stored+spec.Info.Length > uint64(share.MaxStored):
		return 0, ErrStored
	}
	return uint64(share.MaxStored) - stored, nil
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

// rememberMost is how many finished uploads are known, for clients that ask again.
const rememberMost = 4096

// remember keeps a finished upload known, with the roster locked.
func (r *Roster) remember(u *Upload) {
	r.finished = append(r.finished, u.ID)
	if len(r.finished) > rememberMost {
		delete(r.uploads, r.finished[0])
		r.finished = append([]wire.DeliveryID(nil), r.finished[1:]...)
	}
}

// execTime is how long a command may run.
const execTime = 10 * time.Minute

// runFor runs the command for a file that is finished: with its path as the last argument.
func (r *Roster) runFor(u *Upload, path string) {
	if len(r.Exec) == 0 || u.spec.Stream {
		return
	}
	r.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), execTime)
		defer cancel()
		command := exec.CommandContext(ctx, r.Exec[0], append(r.Exec[1:len(r.Exec):len(r.Exec)], path)...)
		command.Env = append(command.Environ(), "GROUPCAST_CLIENT="+u.client.Name, "GROUPCAST_PATH="+u.spec.Path)
		if output, err := command.CombinedOutput(); err != nil {
			r.Log.Warn("the command for a finished file failed", "file", path, "error", err, "output", string(output[:min(len(output), 1000)]))
		}
	})
}
