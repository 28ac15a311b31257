package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/internal/pulse"
)

// How much and how long nothing is claimed. A crash costs as much.
var (
	claimBytes uint64 = 256 << 20
	claimEvery        = 5 * time.Second
)

// haltPatience is how long a claim that is under way may take before it is looked whether the disk goes on: there may be gigabytes in
// the file that it syncs, which came after it began.
var haltPatience = time.Second

// errEnded says that a landing is used after its end.
var errEnded = errors.New("landing has ended")

// Landing is an object that is received into a directory. One goroutine uses it:
// it writes all bytes from Offset on, and then calls Complete. They are hashed while
// they are in its hands; those that came Ahead, when they are adopted. Whatever happens, it ends with a Complete that returns nil
// or ErrDamaged, with Keep, or with Remove; after that, Keep and Remove do nothing.
//
// When a write fails, Keep keeps what had landed before. Once anything else went wrong
// with the disk, all but Keep and Remove return that
// error: what a failed write or sync has left is not known, and a second sync
// that succeeds does not mean that the bytes of the first are there.
type Landing struct {
	info    Info
	partial *partial
	pulse   *pulse.Pulse // of whoever waits for the disk
	tree    *os.Root     // that the paths of entries are in
	writer  cursor       // the file that is written,
	beyond  cursor       // and one after it, with bytes that came ahead
	ahead   map[int]bool // entries that were made for those, and that the writer has not come to
	resumed uint64       // all before it was claimed by an earlier landing
	made    int          // entries that are there, but for bytes
	durable int          // entries that are whole and on disk

	progress progress
	claimed  claim
	synced   atomic.Uint64 // the offset of that, for goroutines that do not claim
	asked    uint64        // all before it was asked to be claimed
	due      chan struct{} // there is much to claim

	stop   context.CancelFunc
	ending sync.WaitGroup
	ended  bool

	reserve uint64 // what is left of the disk to others
	left    error  // what of a directory that was replaced could not be removed
}

// Land begins to receive an object into a directory, or goes on where an earlier
// landing of the same object was interrupted. What that one has claimed is hashed
// again first, which takes as long as it takes to read it. A pulse in ctx beats with all that the landing does, until its end.
func Land(ctx context.Context, dir string, info Info) (*Landing, error) {
	if err := info.check(); err != nil {
		return nil, err
	}
	partial, err := openPartial(dir, tag(info), pulse.Of(ctx))
	if err != nil {
		return nil, notBegun(info.Name, dir, err)
	}
	partial.mark(info.Name)
	l := &Landing{info: info, partial: partial, pulse: pulse.Of(ctx), reserve: reserveOf(ctx), ahead: make(map[int]bool), due: make(chan struct{}, 1)}
	l.writer, l.beyond = cursor{open: l.openForWriting}, cursor{open: l.openAhead}
	if writesOnClose(partial.dir.handle) {
		l.writer.before, l.beyond.before = l.pulse, l.pulse
	}
	if err := l.begin(ctx); err != nil {
		return nil, errors.Join(notBegun(info.Name, dir, err), l.abandon())
	}
	return l, nil
}

// abandon undoes openPartial, and leaves a partial only if there is something in it.
func (l *Landing) abandon() error {
	claims, err := l.partial.journal.claims(l.info.Length)
	if err == nil && len(claims) == 0 {
		err = l.partial.remove()
	}
	return errors.Join(err, l.release())
}

func (l *Landing) begin(ctx context.Context) error {
	if err := l.checkPlace(); err != nil {
		return err
	}
	layout, err := l.resume(ctx)
	if err != nil {
		return err
	}
	if l.resumed == 0 {
		if err := l.checkExchange(); err != nil {
			return err
		}
	}
	if err := l.checkRest(layout); err != nil {
		return err
	}
	l.start(layout)
	return nil
}

// start begins to claim.
func (l *Landing) start(layout *layout) {
	l.progress.layout = layout
	l.asked = l.resumed
	l.synced.Store(l.resumed)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.ending.Go(func() { l.journal(ctx) })
}

// halt ends what start began.
func (l *Landing) halt() {
	l.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.ending.Wait()
	}()
	select {
	case <-ended:
		return
	case <-time.After(haltPatience):
	}
	if err := l.flush(ended); err != nil {
		_ = l.fail(err)
	}
	<-ended
}

// Info returns what is received.
func (l *Landing) Info() Info { return l.info }

// Offset returns how much has landed: from there on, bytes are wanted.
func (l *Landing) Offset() uint64 { return l.progress.now().landed }

// usable returns why nothing can land any more.
func (l *Landing) usable() (snapshot, error) {
	if l.ended {
		return snapshot{}, errEnded
	}
	now := l.progress.now()
	return now, now.err
}

// noRoom names the directory in which it lands, if an error says that the disk is full.
func (l *Landing) noRoom(err error) error { return fullIn(l.partial.dir.Name(), err) }

// fail makes an error the reason why nothing can land any more.
func (l *Landing) fail(err error) error {
	if now := l.progress.now(); now.err != nil {
		return now.err
	}
	err = fmt.Errorf("land %s: %w", l.info.Name, l.noRoom(err))
	l.progress.fail(err)
	return err
}

// Write takes the next bytes. Those of a table that is not allowed, or has no room,
// are an error, and so are those beyond the end.
func (l *Landing) Write(p []byte) (written int, err error) {
	for written < len(p) && err == nil {
		var n int
		n, err = l.writePart(p[written:])
		written += n
	}
	return written, err
}

// writePart writes what belongs to one file.
func (l *Landing) writePart(p []byte) (written int, err error) {
	now, err := l.usable()
	if err != nil {
		return 0, err
	}
	if now.landed == l.info.Length {
		return 0, fmt.Errorf("land %s: %d bytes beyond the end", l.info.Name, len(p))
	}
	file, position, left, err := l.writer.at(now.layout, now.landed)
	if err != nil {
		return 0, l.fail(err)
	}
	written, err = l.put(file, p[:min(uint64(len(p)), left)], position)
	if failed := l.advance(now, p[:written]); failed != nil {
		return written, failed
	}
	if err != nil {
		return written, fmt.Errorf("land %s: %w", l.info.Name, l.noRoom(err))
	}
	return written, nil
}

// advance notes what was written.
func (l *Landing) advance(now snapshot, landed []byte) (err error) {
	layout, upTo := now.layout, now.landed+uint64(len(landed))
	if upTo == layout.end && layout.entries == nil {
		if layout, err = l.learn(layout); err != nil {
			return l.fail(err)
		}
	}
	l.progress.advance(layout, landed)
	l.askClaim(upTo)
	return nil
}

// learn reads what has landed of a head, and returns the layout that it makes known.
func (l *Landing) learn(known *layout) (*layout, error) {
	head, err := l.readHead(known.head)
	if err != nil {
		return nil, err
	}
	next, err := learned(head, l.info.Length)
	if err != nil || next.entries == nil {
		return next, err
	}
	if err := l.checkRoom(l.info.needs(next.head), uint64(len(next.entries)+1)); err != nil {
		return nil, err
	}
	return next, l.makeTree()
}

// learned returns what the first bytes of a directory tell about where the
// others belong.
func learned(head []byte, length uint64) (*layout, error) {
	opening, err := parseOpening(head)
	if err != nil {
		return nil, err
	}
	if opening.head() > length {
		return nil, fmt.Errorf("%w: a head of %d bytes in an object of %d", ErrTable, opening.head(), length)
	}
	if uint64(len(head)) < opening.head() {
		return &layout{head: opening.head(), end: opening.head()}, nil
	}
	return parseHead(head, length)
}

// readHead reads the first bytes of a directory.
func (l *Landing) readHead(size uint64) ([]byte, error) {
	file, _, err := openPlain(l.partial.home.Root, headName, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readHead(file, size)
}

func readHead(from io.ReaderAt, size uint64) ([]byte, error) {
	head := make([]byte, size)
	if n, err := from.ReadAt(head, 0); n < len(head) {
		return nil, fmt.Errorf("read head: %w", unexpected(err))
	}
	return head, nil
}

// layoutOf returns what all of a directory's bytes tell about where they belong.
func layoutOf(read func(size uint64) ([]byte, error), length uint64) (*layout, error) {
	known := &layout{head: headSize}
	for known.entries == nil {
		head, err := read(known.head)
		if err != nil {
			return nil, err
		}
		if known, err = learned(head, length); err != nil {
			return nil, err
		}
	}
	return known, nil
}
