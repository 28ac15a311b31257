package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/pulse"
)

// How much and how long nothing is claimed. A crash costs as much.
var (
	claimBytes uint64 = 256 << 20
	claimEvery        = 5 * time.Second
)

// piece is how much is read and hashed at once.
const piece = 256 << 10

// Landing is a device that is overwritten. One goroutine writes.
type Landing struct {
	life   context.Context // of whoever receives
	pulse  *pulse.Pulse    // of whoever waits for it
	file   *held
	info   object.Info
	claims claims
	mu     sync.Mutex // guards hash and offset for those who ask how far it is
	hash   digest.Hash
	offset uint64
	reach  uint64 // after the last byte that was written
	buffer []byte
	failed error
	// unnoted is why something could not be claimed, at first. That is an aid for going on, and no reason not to be whole.
	unnoted error

	claimed   uint64
	claimedAt time.Time
	claiming  sync.WaitGroup
	busy      chan struct{} // holds a token while nothing is claimed
	ended     bool
}

// Land begins to overwrite a device, or goes on where an earlier landing of the same object
// was interrupted: what that has claimed is hashed again first.
func Land(ctx context.Context, target Target, info object.Info) (*Landing, error) {
	file, err := target.open(info)
	if err != nil {
		return nil, err
	}
	l := &Landing{life: ctx, pulse: pulse.Of(ctx), file: file, info: info, buffer: make([]byte, piece), busy: make(chan struct{}, 1), claimedAt: time.Now()}
	l.busy <- struct{}{}
	number, err := numberOf(file.File)
	if err == nil {
		l.claims = claimsIn(target.State, number, info)
		l.note(l.claims.forgetOthers(number))
		err = l.resume(ctx, target.Anew)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// awaitPause is how often it is tried again to have a device that this process has not done with yet.
const awaitPause = 2 * time.Second

// Await is Land once this process has done with the device: of a task that has ended all that has come is brought there first.
func Await(ctx context.Context, target Target, info object.Info) (*Landing, error) {
	for {
		landing, err := Land(ctx, target, info)
		if !errors.Is(err, object.ErrBusy) {
			return landing, err
		}
		if !pause.For(ctx, awaitPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// resume goes on after what was claimed, if it is still there and of use.
func (l *Landing) resume(ctx context.Context, anew bool) error {
	c, has := l.claims.read()
	if !has || anew || c.offset >= l.info.Length { // one that was whole is not what is wanted: see Find
		l.note(l.claims.mark())
		return nil
	}
	hash, err := rehash(ctx, l.file.File, l.buffer, c.offset)
	if err != nil {
		return err
	}
	if object.Root(hash.Sum()) == c.root {
		l.hash, l.offset, l.claimed = hash, c.offset, c.offset
	}
	return nil
}

// rehash reads what is on the device.
func rehash(ctx context.Context, file *os.File, buffer []byte, length uint64) (hash digest.Hash, err error) {
	for offset := uint64(0); offset < length; {
		if ctx.Err() != nil {
			return hash, context.Cause(ctx)
		}
		pulse.Of(ctx).Beat()
		part := buffer[:min(piece, length-offset)]
		if n, err := file.ReadAt(part, int64(offset)); n < len(part) {
			return hash, fmt.Errorf("read %s at %d: %w", file.Name(), offset, explained(err))
		}
		_, _ = hash.Write(part)
		offset += uint64(len(part))
	}
	return hash, nil
}

// Offset is before which all bytes are there.
func (l *Landing) Offset() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offset
}

// Root is that of all bytes before Offset.
func (l *Landing) Root() object.Root {
	l.mu.Lock()
	defer l.mu.Unlock()
	return object.Root(l.hash.Sum())
}

func (l *Landing) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return l.failed
}

// usable returns why nothing can land any more, and how far it is.
func (l *Landing) usable(offset, count uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil && (offset > l.info.Length || count > l.info.Length-offset) {
		return 0, fmt.Errorf("%d bytes at %d are beyond the end of %s", count, offset, l.info.Name)
	}
	return l.offset, l.failed
}

// Write takes the next bytes.
func (l *Landing) Write(p []byte) (int, error) {
	offset, err := l.usable(l.offset, uint64(len(p)))
	if err != nil {
		return 0, err
	}
	if n, err := l.file.WriteAt(p, int64(offset)); err != nil {
		return n, l.fail(fmt.Errorf("write %s at %d: %w", l.file.Name(), offset, explained(err)))
	}
	l.advance(p)
	return len(p), nil
}

func (l *Landing) advance(p []byte) {
	l.mu.Lock()
	_, _ = l.hash.Write(p)
	l.offset += uint64(len(p))
	l.reach = max(l.reach, l.offset)
	isDue := l.offset-l.claimed >= claimBytes || time.Since(l.claimedAt) >= claimEvery
	hash, offset := l.hash, l.offset
	l.mu.Unlock()
	if !isDue {
		return
	}
	select {
	case <-l.busy:
		l.claiming.Go(func() {
			defer func() { l.busy <- struct{}{} }()
			if err := l.claim(offset, hash); err != nil {
				_ = l.fail(err)
			}
		})
	default: // it is being claimed
	}
}

// sync has what was written be on the device.
func (l *Landing) sync() error {
	l.mu.Lock()
	from, to := l.claimed, l.reach
	l.mu.Unlock()
	if err := l.pulse.Sync(l.file.File, from, to); err != nil {
		return fmt.Errorf("sync %s: %w", l.file.Name(), err)
	}
	return nil
}

// haltPatience is how long a claim that is under way may take before it is looked whether the device goes on: gigabytes may have come
// since it began.
var haltPatience = time.Second

// halt waits until nothing is claimed any more.
func (l *Landing) halt() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.claiming.Wait()
	}()
	select {
	case <-ended:
		return
	case <-time.After(haltPatience):
	}
	l.mu.Lock()
	from, to := l.claimed, l.reach
	l.mu.Unlock()
	if err := l.pulse.Flush(l.file.File, from, to); err != nil {
		_ = l.fail(fmt.Errorf("sync %s: %w", l.file.Name(), err))
	}
	<-ended
}

// claim has what was written be on the device, and notes that.
func (l *Landing) claim(offset uint64, hash digest.Hash) error {
	if err := l.sync(); err != nil {
		return err
	}
	l.note(l.claims.write(claim{offset, object.Root(hash.Sum())})) // what was claimed before is there as well
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed, l.claimedAt = offset, time.Now()
	return nil
}

func (l *Landing) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unnoted == nil {
		l.unnoted = err
	}
}

// Unnoted is why a later landing may not know how much is on the device; nil if it does.
func (l *Landing) Unnoted() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unnoted
}

// Zeros takes zeros as the next bytes: a device may have others there, so they are written.
func (l *Landing) Zeros(count uint64) error {
	zeros := make([]byte, min(count, piece))
	for count > 0 {
		n, err := l.Write(zeros[:min(count, piece)])
		if err != nil {
			return err
		}
		count -= uint64(n)
	}
	return nil
}

// Ahead writes bytes that are not next.
func (l *Landing) Ahead(offset uint64, p []byte) (taken bool, err error) {
	if _, err := l.usable(offset, uint64(len(p))); err != nil {
		return false, err
	}
	if _, err := l.file.WriteAt(p, int64(offset)); err != nil {
		return false, l.fail(fmt.Errorf("write %s at %d: %w", l.file.Name(), offset, explained(err)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reach = max(l.reach, offset+uint64(len(p)))
	return true, nil
}

// Adopt makes bytes that Ahead has written the next ones.
func (l *Landing) Adopt(count uint64) error {
	for count > 0 {
		part := l.buffer[:min(count, piece)]
		offset, err := l.usable(l.offset, uint64(len(part)))
		if err != nil {
			return err
		}
		if n, err := l.file.ReadAt(part, int64(offset)); n < len(part) {
			return l.fail(fmt.Errorf("read %s at %d: %w", l.file.Name(), offset, explained(err)))
		}
		l.advance(part)
		count -= uint64(len(part))
	}
	return nil
}

// Complete compares length and root, and reads back what is on the device.
func (l *Landing) Complete(length uint64, root object.Root, _ bool) error {
	l.halt()
	if _, err := l.usable(0, 0); err != nil {
		return err
	}
	if length != l.info.Length || l.offset != length || object.Root(l.hash.Sum()) != root {
		return errors.Join(fmt.Errorf("%w: %s is not what was sent", object.ErrDamaged, l.file.Name()), l.Remove())
	}
	if err := l.sync(); err != nil {
		return l.fail(err)
	}
	hash, err := readBack(l.life, l.file.File, l.buffer, length)
	if err != nil && l.life.Err() != nil {
		return err // what is there stays claimed
	}
	if err != nil {
		return l.fail(err)
	}
	if object.Root(hash.Sum()) != root {
		return errors.Join(fmt.Errorf("%w: %s does not give back what was written to it", object.ErrDamaged, l.file.Name()), l.Remove())
	}
	if err := l.pulse.Err(); err != nil { // it is known as failed: it is read again before it counts
		return err
	}
	l.ended = true
	l.note(l.claims.write(claim{length, root}))
	return l.file.Close()
}

// readBack hashes what the device has: the kernel forgets what it has of it. Where this process may not have
// it forget all (that takes CAP_SYS_ADMIN), it is told that what was synced is not needed any more.
func readBack(ctx context.Context, file *os.File, buffer []byte, length uint64) (digest.Hash, error) {
	err := unix.IoctlSetInt(int(file.Fd()), unix.BLKFLSBUF, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		err = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err != nil {
		return digest.Hash{}, fmt.Errorf("flush %s: %w", file.Name(), err)
	}
	return rehash(ctx, file, buffer, length)
}

// Keep ends the landing and leaves what is there to a later one.
func (l *Landing) Keep() error {
	if l.ended {
		return nil
	}
	l.ended = true
	l.halt()
	var err error
	if l.failed == nil && l.offset > l.claimed {
		err = l.claim(l.offset, l.hash)
	}
	return errors.Join(err, l.file.Close())
}

// Remove ends the landing. What the device holds is of no use.
func (l *Landing) Remove() error {
	if l.ended {
		return nil
	}
	l.ended = true
	l.halt()
	l.note(l.claims.mark())
	return l.file.Close()
}

var _ io.Writer = (*Landing)(nil)
