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
	spare    uint64        // of what is reserved: what entries would give up at once
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

// room returns how much of the disk is free beyond what is to be kept free; less than zero if not even that is.
func (c *Cache) room() (bytes int64, err error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(c.dir, &disk); err != nil {
		return 0, err
	}
	return beside(c.disk.Keep, &disk), nil
}

// beside returns how much of a disk is free beyond what is to be kept free. Its blocks are counted in fragments if it has any: file
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

// Fits returns why the disk takes nothing now, whatever the limit is; nil if it takes something. It writes, so that quotas show, too.
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
	spare    uint64
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

// aside is how much of the limit is set aside, so that whoever comes while others have all the rest, and cannot give it back, gets on.
func (c *Cache) aside() uint64 { return c.limit / 8 }

// least is how much an entry may have of what is set aside.
func (c *Cache) least() uint64 { return max(c.aside()/32, leastSegment) }

// Claim takes room for the entry, up to what it wants or as much as it may have, and returns how much it has then. The entry
// gives back with ShrinkTo what it does not promise. If there is less than it wants, others hear of it: see Pressure.
func (e *Entry) Claim(want uint64) (has uint64) {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if want <= e.reserved {
		return e.reserved
	}
	free := c.limit - c.reserved
	first := c.least() - min(c.least(), e.reserved)
	more := min(want-e.reserved, max(free-min(free, c.aside()), min(free, first)))
	if more < want-e.reserved {
		close(c.pressure)
		c.pressure = make(chan struct{})
	}
	e.reserved += more
	c.reserved += more
	return e.reserved
}

// Share returns how much room each entry has when all that do not rest have the same, beside what is set aside.
func (e *Entry) Share() uint64 {
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.limit - c.aside()) / uint64(max(c.active, 1))
}

// Rest says that the entry will not grow any more: the others share what it does not hold.
func (e *Entry) Rest() {
	e.cache.mu.Lock()
	defer e.cache.mu.Unlock()
	if !e.resting {
		e.resting = true
		e.cache.active--
	}
}

// ShrinkTo gives back all room but what the entry really needs, which is at most what it has.
func (e *Entry) ShrinkTo(bytes uint64) {
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
	e.keepSpare(min(e.spare, bytes))
	close(c.freed)
	c.freed = make(chan struct{})
}

// Offer says how much of its room the entry keeps without need, and gives up as soon as others lack room.
func (e *Entry) Offer(bytes uint64) {
	e.cache.mu.Lock()
	defer e.cache.mu.Unlock()
	e.keepSpare(min(bytes, e.reserved))
}

// keepSpare is called with the cache's mutex held.
func (e *Entry) keepSpare(bytes uint64) {
	e.cache.spare += bytes - e.spare
	e.spare = bytes
}

// Offered reports whether any entry has offered room: whoever lacks some has it soon.
func (c *Cache) Offered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spare > 0
}

// Close gives back all room.
func (e *Entry) Close() error {
	e.ShrinkTo(0)
	e.Rest()
	return e.Spool.Close()
}
