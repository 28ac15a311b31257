package object

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// How much and how long nothing is claimed. A crash costs as much.
var (
	claimBytes uint64 = 256 << 20
	claimEvery        = 5 * time.Second
)

// errEnded says that a landing is used after its end.
var errEnded = errors.New("landing has ended")

// Landing is an object that is received into a directory. One goroutine uses it:
// it takes a Section, writes to it, tells what has Landed, and so on to the end,
// then calls Complete. Whatever happens, it ends with a Complete that returns nil
// or ErrDamaged, with Keep, or with Remove; after that, Keep and Remove do nothing.
//
// A write to a section that fails is the caller's: RoomError says what it was,
// and Keep or Remove end the landing. Keep keeps what had landed before.
//
// Once anything else went wrong with the disk, all but Keep and Remove return that
// error: what a failed write or sync has left is not known, and a second sync
// that succeeds does not mean that the bytes of the first are there.
type Landing struct {
	info    Info
	partial *partial
	tree    *os.Root // that the paths of entries are in
	writer  cursor   // the file that is written
	granted uint64   // end of the last section
	resumed uint64   // all before it was claimed by an earlier landing
	made    int      // entries that are there, but for bytes
	settled int      // entries that are whole and on disk

	progress *progress
	hash     sync.Mutex // guards digest
	digest   *digest
	claimed  claim
	due      chan struct{} // there is much to claim

	stop   context.CancelFunc
	ending sync.WaitGroup
	ended  bool
}

// Land begins to receive an object into a directory, or goes on where an earlier
// landing of the same object was interrupted. What that one has claimed is hashed
// again first, which takes as long as it takes to read it.
func Land(ctx context.Context, dir string, info Info) (*Landing, error) {
	if err := info.check(); err != nil {
		return nil, err
	}
	partial, err := openPartial(dir, tag(info))
	if err != nil {
		return nil, fmt.Errorf("land %s in %s: %w", info.Name, dir, err)
	}
	l := &Landing{info: info, partial: partial, due: make(chan struct{}, 1)}
	l.writer = cursor{open: l.openForWriting}
	if err := l.begin(ctx); err != nil {
		return nil, fmt.Errorf("land %s in %s: %w", info.Name, dir, errors.Join(RoomError(err), l.abandon()))
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
	if err := checkFinal(l.partial.dir.Root, l.info); err != nil {
		return err
	}
	layout, err := l.resume(ctx)
	if err != nil {
		return err
	}
	if err := checkRoom(l.partial.home.handle, l.info.Length-l.resumed, 1); err != nil {
		return err
	}
	l.start(layout)
	return nil
}

// start begins to hash and to claim.
func (l *Landing) start(layout *layout) {
	l.progress = newProgress(layout, l.resumed)
	l.granted = l.resumed
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.ending.Go(func() { l.follow(ctx) })
	l.ending.Go(func() { l.journal(ctx) })
}

// halt ends what start began.
func (l *Landing) halt() {
	l.stop()
	l.ending.Wait()
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

// fail makes an error the reason why nothing can land any more.
func (l *Landing) fail(err error) error {
	if now := l.progress.now(); now.err != nil {
		return now.err
	}
	err = fmt.Errorf("land %s: %w", l.info.Name, RoomError(err))
	l.progress.fail(err)
	return err
}

// Section returns a file that is positioned where the byte at offset belongs,
// which must be the next one, and how many bytes from there on belong to it. The
// file stays open until the next call of any method. At the end n is zero and
// there is no file.
func (l *Landing) Section(offset uint64) (file *os.File, n int64, err error) {
	now, err := l.usable()
	if err != nil {
		return nil, 0, err
	}
	if offset != now.landed {
		return nil, 0, fmt.Errorf("section at %d: %d bytes have landed", offset, now.landed)
	}
	if offset == l.info.Length {
		return nil, 0, nil
	}
	file, position, left, err := l.writer.at(now.layout, offset)
	if err != nil {
		return nil, 0, l.fail(err)
	}
	if _, err := file.Seek(int64(position), 0); err != nil {
		return nil, 0, l.fail(err)
	}
	l.granted = offset + left
	return file, int64(left), nil
}

// Landed says that all bytes before upTo are written. A table that is not
// allowed, or has no room, is an error here.
func (l *Landing) Landed(upTo uint64) error {
	now, err := l.usable()
	if err != nil {
		return err
	}
	if upTo < now.landed || upTo > l.granted {
		return fmt.Errorf("%d bytes landed: want between %d and %d", upTo, now.landed, l.granted)
	}
	layout := now.layout
	if upTo == layout.end && layout.entries == nil {
		if layout, err = l.learn(layout); err != nil {
			return l.fail(err)
		}
	}
	l.progress.update(func() { l.progress.layout, l.progress.landed = layout, upTo })
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
	if err := checkRoom(l.partial.home.handle, l.info.Length-next.head, uint64(len(next.entries)+1)); err != nil {
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
	entries, err := parseHead(head, length)
	if err != nil {
		return nil, err
	}
	return &layout{head: opening.head(), end: length, entries: entries}, nil
}

// readHead reads the first bytes of a directory.
func (l *Landing) readHead(size uint64) ([]byte, error) {
	file, _, err := openPlain(l.partial.home.Root, headName, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	head := make([]byte, size)
	if n, err := file.ReadAt(head, 0); n < len(head) {
		return nil, fmt.Errorf("read head: %w", unexpected(err))
	}
	return head, nil
}
