package object

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
)

// syncers is how many files are synced at once: most file systems make one flush
// out of several.
const syncers = 16

// makeDurable puts on disk all that a claim of the bytes before upTo is about: files,
// whole ones with their modes, and the directories that have their names.
func (l *Landing) makeDurable(known *layout, upTo uint64) error {
	if l.claimed.offset < known.head {
		if err := l.syncHead(); err != nil {
			return err
		}
	}
	first, last := l.durable, l.durable
	for last < len(known.entries) && known.entries[last].start < upTo {
		last++
	}
	if err := l.finishFiles(known.entries[first:last], upTo, true); err != nil {
		return err
	}
	if err := l.syncNames(known.entries[first:last]); err != nil {
		return err
	}
	l.durable = last
	if last > first && known.entries[last-1].end() > upTo {
		l.durable-- // more of it will land
	}
	return nil
}

func (l *Landing) syncHead() error {
	file, _, err := openPlain(l.partial.home.Root, headName, os.O_RDONLY)
	if err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync head: %w", err), file.Close())
	}
	return file.Close()
}

// finishFiles gives whole files their modes, and syncs them if they shall last.
func (l *Landing) finishFiles(entries []entry, upTo uint64, durable bool) error {
	var group errgroup.Group
	group.SetLimit(syncers)
	for i := range entries {
		if e := &entries[i]; e.kind == File {
			group.Go(func() error { return l.finishFile(e, e.end() <= upTo, durable) })
		}
	}
	return group.Wait()
}

func (l *Landing) finishFile(e *entry, whole, durable bool) error {
	file, info, err := l.openEntry(e.path)
	if err != nil {
		return err
	}
	remode := whole && info.Mode() != e.mode
	if remode {
		err = file.Chmod(e.mode)
	}
	earlier := e.size > 0 && e.end() <= l.resumed // a claim that held was about it
	if err == nil && durable && (remode || !earlier) {
		err = l.pulse.Sync(file, l.unclaimed(e), uint64(info.Size()))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", e.path, err), file.Close())
	}
	return file.Close()
}

// writesOnClose reports whether a file system is one that has all be at its server when a file is closed.
func writesOnClose(dir *os.File) bool {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &stat); err != nil {
		return false
	}
	return slices.Contains([]uint32{
		unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC,
	}, uint32(stat.Type))
}

// unclaimed is from where on bytes of a file are in no claim.
func (l *Landing) unclaimed(e *entry) uint64 {
	return max(l.claimed.offset, e.start) - e.start
}

// flush has what landed since the last claim be written, file by file, until the claim that is under way has ended: whoever waits for
// the disk sees that it goes on. The sync of a small file beats often enough by itself.
func (l *Landing) flush(ended <-chan struct{}) error {
	if l.pulse == nil {
		return nil
	}
	now, claimed := l.progress.now(), l.synced.Load()
	for i := range now.layout.entries {
		e := &now.layout.entries[i]
		if e.kind != File || e.size <= pulse.Piece || e.end() <= claimed || e.start >= now.landed {
			continue
		}
		select {
		case <-ended:
			return nil
		default:
		}
		if err := l.flushFile(e, max(claimed, e.start)-e.start); err != nil {
			return err
		}
	}
	return nil
}

func (l *Landing) flushFile(e *entry, from uint64) error {
	file, info, err := l.openEntry(e.path)
	if err != nil {
		return err
	}
	err = l.pulse.Flush(file, from, uint64(info.Size()))
	l.pulse.Beat()
	return errors.Join(err, file.Close())
}

// syncNames syncs the directories that these entries are in, and those that
// the partial is in.
func (l *Landing) syncNames(entries []entry) error {
	synced := make(map[string]bool)
	for i := range entries {
		up := parent(entries[i].path)
		if synced[up] {
			continue
		}
		if err := l.syncDirectory(up); err != nil {
			return err
		}
		synced[up] = true
	}
	err := l.partial.home.sync()
	if l.claimed.offset == 0 {
		err = errors.Join(err, l.partial.all.sync(), l.partial.dir.sync())
	}
	return err
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// syncDirectory syncs a directory of the tree; the outermost has an empty path.
func (l *Landing) syncDirectory(path string) error {
	return l.withDirectory(path, (*os.File).Sync)
}

func (l *Landing) withDirectory(path string, do func(*os.File) error) error {
	if path == "" {
		path = "."
	}
	file, err := l.tree.Open(path)
	if err != nil {
		return err
	}
	err = do(file)
	l.pulse.Beat()
	if err != nil {
		return errors.Join(fmt.Errorf("directory %s: %w", path, err), file.Close())
	}
	return file.Close()
}

// finishDirectories gives the directories of a whole tree their modes, innermost
// first: one may close itself to its owner.
func (l *Landing) finishDirectories(entries []entry, durable bool) error {
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		if e.kind != Directory {
			continue
		}
		err := l.withDirectory(e.path, func(file *os.File) error {
			if err := file.Chmod(e.mode); err != nil || !durable {
				return err
			}
			return file.Sync()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
