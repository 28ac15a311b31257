// Package cache holds what an agent caches of all its deliveries within one hard
// limit. Room is reserved before bytes are asked for, so that what comes always fits.
package cache

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/spool"
)

// Cache is a directory with a limit.
type Cache struct {
	dir   string
	limit uint64
	disk  Disk

	mu       sync.Mutex
	reserved uint64
	active   int           // entries that have a share
	pressure chan struct{} // closed when somebody wants room that is not there
	freed    chan struct{} // closed when room becomes free
}

// Disk says what the cache may take of its disk.
type Disk struct {
	Keep    uint64 // how much is left free, a third of the disk at most; if it is 0, all of the disk may be taken
	Sharers int    // how many caches like this one share the disk
}

// Open returns a cache in a directory, which is made if it is missing. Whatever an
// earlier process cached there has ended with it. The limit is no more than the disk has room for
// beside what is to be kept free of it.
func Open(dir string, limit uint64, disk Disk) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open cache: %w", err)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return nil, fmt.Errorf("open cache: write to %s: %w", filepath.Clean(dir), err)
	}
	c := &Cache{dir: dir, limit: limit, disk: disk, pressure: make(chan struct{}), freed: make(chan struct{})}
	if disk.Keep > 0 {
		room, err := c.room()
		if err != nil {
			return nil, fmt.Errorf("open cache: look at the disk of %s: %w", filepath.Clean(dir), err)
		}
		c.limit = min(limit, uint64(max(room, 0))/uint64(max(disk.Sharers, 1)))
	}
	return c, nil
}

// room returns what is free of the disk beside what is to be kept so; less than nothing if that is not.
func (c *Cache) room() (bytes int64, err error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(c.dir, &disk); err != nil {
		return 0, err
	}
	return beside(c.disk.Keep, &disk), nil
}

// beside returns what is free of a disk beside what is kept of it. Its blocks are counted in fragments where it has some: file
// systems in user space may name much larger blocks, in which they would like to be written.
func beside(keep uint64, disk *unix.Statfs_t) int64 {
	size := uint64(cmp.Or(disk.Frsize, disk.Bsize))
	return int64(disk.Bavail*size) - int64(min(keep, disk.Blocks*size/3))
}

// Short reports whether others have taken what is to be kept free of the disk.
func (c *Cache) Short() bool {
	if c.disk.Keep == 0 {
		return false
	}
	room, err := c.room()
	return err == nil && room < 0
}

// probe is how much Fits writes at most: as much as a frame has.
const probe = 1 << 20

// Fits says why the disk takes nothing now, whatever the limit is; nil if it does. Writing tells it of quotas, too.
func (c *Cache) Fits() error {
	trial := spool.New(c.dir, c.Segment())
	defer trial.Close()
	file, _, _, err := trial.Section(0)
	if err == nil {
		_, err = file.Write(make([]byte, min(probe, c.Segment())))
	}
	return err
}

// Limit returns how much the cache holds at most.
func (c *Cache) Limit() uint64 { return c.limit }

// Reserved returns how much of the limit is taken or promised.
func (c *Cache) Reserved() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserved
}

// Pressure returns a channel that is closed when somebody needs room, so that
// others give up what they keep without need.
func (c *Cache) Pressure() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pressure
}

// Freed returns a channel that is closed when there is room again.
func (c *Cache) Freed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed
}

// Entry is what is cached of one delivery.
type Entry struct {
	*spool.Spool
	cache    *Cache
	reserved uint64
	resting  bool
}

// Create makes an empty entry. It has no room yet.
func (c *Cache) Create() *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active++
	return &Entry{Spool: spool.New(c.dir, c.Segment()), cache: c}
}

const (
	leastSegment = 64 << 10
	mostSegment  = 16 << 20
)

// Segment returns how many bytes an entry gives back at once: a small part of the limit.
func (c *Cache) Segment() uint64 {
	segment := uint64(mostSegment)
	for segment > leastSegment && segment > c.limit/32 {
		segment /= 2
	}
	return segment
}

// Room returns how much room the entry can have of what it wants. It has taken it
// then: the entry gives back with Reserve what it does not promise.
func (e *Entry) Room(want uint64) uint64 {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if want <= e.reserved {
		return e.reserved
	}
	free := c.limit - c.reserved
	more := min(want-e.reserved, free)
	if more < want-e.reserved {
		close(c.pressure)
		c.pressure = make(chan struct{})
	}
	e.reserved += more
	c.reserved += more
	return e.reserved
}

// Share returns how much room each entry has when all that do not rest have the same.
func (e *Entry) Share() uint64 {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit / uint64(max(c.active, 1))
}

// Rest says that the entry grows no more: the others share what it does not hold.
func (e *Entry) Rest() {
	e.cache.mu.Lock()
	defer e.cache.mu.Unlock()
	if !e.resting {
		e.resting = true
		e.cache.active--
	}
}

// Reserve says how much room the entry really needs, at most what it has.
func (e *Entry) Reserve(bytes uint64) {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > e.reserved {
		panic("cache: more was promised than there is room for")
	}
	if bytes == e.reserved {
		return
	}
	c.reserved -= e.reserved - bytes
	e.reserved = bytes
	close(c.freed)
	c.freed = make(chan struct{})
}

// Close gives back all room.
func (e *Entry) Close() error {
	e.Reserve(0)
	e.Rest()
	return e.Spool.Close()
}
