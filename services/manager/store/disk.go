package store

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// diskReserve is the free space below which nothing is written, since etcd
	// ends the process when a write of its own finds none. It is room for etcd to
	// allocate its next log segments.
	diskReserve = 3 * walSegment
	// endingReserve is the same for writes that end something, or let something come to its end: what they end may be what takes the room.
	endingReserve = 2 * walSegment
	// headroom is what is allocated to etcd's database beyond its end, so that what it has accepted can be stored even on a disk that others
	// have filled.
	headroom = 16 << 20
	// headroomCheck is how often the headroom is looked after.
	headroomCheck = time.Second
)

// diskGuard refuses writes in time, before the disk is full.
type diskGuard struct {
	dir      string
	database string
	quit     chan struct{}
	done     sync.WaitGroup
}

func newDiskGuard(dir, database string) *diskGuard {
	g := &diskGuard{dir: dir, database: database, quit: make(chan struct{})}
	g.keepHeadroom()
	g.done.Go(g.run)
	return g
}

func (g *diskGuard) stop() {
	close(g.quit)
	g.done.Wait()
}

func (g *diskGuard) run() {
	ticker := time.NewTicker(headroomCheck)
	defer ticker.Stop()
	for {
		select {
		case <-g.quit:
			return
		case <-ticker.C:
			g.keepHeadroom()
		}
	}
}

// room says why the write cannot be made now. What is written goes into the log, and then into the database.
func (g *diskGuard) room(want want) error {
	reserve := int64(diskReserve)
	if want.ending {
		reserve = endingReserve
	}
	reserve += 2 * want.bytes
	var stat unix.Statfs_t
	if err := unix.Statfs(g.dir, &stat); err != nil {
		return fmt.Errorf("%w: look at the disk of %s: %w", ErrFull, g.dir, err)
	}
	if free := int64(stat.Bavail) * stat.Bsize; free < reserve {
		return fmt.Errorf("%w: %d MiB are free on the disk of %s, want %d: free some, and writes go on by themselves",
			ErrFull, free>>20, g.dir, reserve>>20)
	}
	return nil
}

// keepHeadroom allocates room beyond the database's end. If the file system cannot, or the disk is full already, the reserve has to do.
func (g *diskGuard) keepHeadroom() {
	file, err := os.OpenFile(g.database, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	var stat unix.Stat_t
	if unix.Fstat(int(file.Fd()), &stat) != nil {
		return
	}
	if allocated := stat.Blocks * 512; allocated < stat.Size+headroom/2 {
		_ = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, stat.Size+headroom)
	}
}
