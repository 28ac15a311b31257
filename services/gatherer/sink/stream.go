package sink

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/filelock"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// segmentSize is how many bytes of a stream a file holds: the n-th begins at n*segmentSize, and has that offset as its name. Tests
// make it smaller.
var segmentSize uint64 = 64 << 20

// What has landed is committed once it is so much, or has waited so long: many small writes share a sync.
const (
	commitBytes = 16 << 20
	commitEvery = 200 * time.Millisecond
)

// stream is the segments of a stream.
//
//	NAME.stream/00000000000000000000   the first 64 MiB
//	NAME.stream/00000000000067108864   the next
//	NAME.stream/committed              up to where all is on disk: see record.go
//
// What lies beyond the committed offset is cut off when the stream is opened.
type stream struct {
	dir       string
	lock      *os.File // on the file committed
	slot      int      // that has the committed offset
	hash      digest.Hash
	opened    uint64 // all before it was there when it was opened
	committed uint64
	failed    error // of a commit: a later sync that succeeds says nothing about an earlier one's bytes

	mu       sync.Mutex
	landed   uint64
	taken    uint64              // all before it is committed or being committed
	due      time.Time           // when what has landed beyond that is to be committed; zero if nothing has
	segments map[uint64]*os.File // those that are open, by number
}

func openStream(dir string) (*stream, error) {
	lock, err := openCommitted(dir)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	s := &stream{dir: dir, lock: lock, segments: make(map[uint64]*os.File)}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("open stream %s: %w", dir, err), filelock.Release(lock))
	}
	return s, nil
}

// openCommitted opens the file that says how much is committed, and makes it if the stream is new.
func openCommitted(dir string) (*os.File, error) {
	name := filepath.Join(dir, committedName)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := checkNone(dir, 0); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
}

// recover finds out how much is committed, and cuts off the rest.
func (s *stream) recover() (err error) {
	if err := filelock.Take(s.lock); errors.Is(err, filelock.ErrHeld) {
		return object.ErrBusy
	} else if err != nil {
		return err
	}
	var written bool
	if s.committed, s.slot, written, err = readRecord(s.lock); err == nil && !written {
		err = s.checkNew()
	}
	if err != nil {
		return err
	}
	s.opened, s.landed, s.taken = s.committed, s.committed, s.committed
	if err := s.cut(); err != nil {
		return err
	}
	return s.confirm()
}

// checkNew returns an error if a stream without a record has segments. An earlier version that was killed before its first commit left
// an empty file beside some, but not beside more than can come before that.
func (s *stream) checkNew() error {
	info, err := s.lock.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() == 0:
		return checkNone(s.dir, surelyCommitted)
	}
	return checkNone(s.dir, 0)
}

// checkNone returns an error if there is a segment, from a number on, of which no record says whether it was committed.
func checkNone(dir string, from uint64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if offset, isSegment := offsetOf(entry.Name()); isSegment && offset >= from*segmentSize {
			return fmt.Errorf("%w: there is %s, and no record in the file %s of how much was committed: restore the file, or move %s away and begin anew",
				object.ErrDamaged, entry.Name(), committedName, dir)
		}
	}
	return nil
}

// confirm makes durable what the record says before anybody is told of it. The process that wrote the record may have been killed before
// it was on disk, or have been told that the disk fails, which a second sync would not be. So all else is synced, and the record is
// written again, to the other slot. Of a new stream it is the first record.
func (s *stream) confirm() error {
	if err := s.lock.Sync(); err != nil {
		return err
	}
	if s.committed == 0 { // else a commit has made the file's name durable
		if err := object.SyncDirectory(s.dir); err != nil {
			return err
		}
	}
	if err := writeRecord(s.lock, 1-s.slot, s.committed); err != nil {
		return err
	}
	s.slot = 1 - s.slot
	return nil
}

// cut removes what is not committed. There may be gaps in that: bytes come in any order, and a name that was not synced may or may not
// outlive a power cut.
func (s *stream) cut() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	last := s.committed%segmentSize == 0 // whether the segment that is committed in part is there
	for _, entry := range entries {
		offset, isSegment := offsetOf(entry.Name())
		if !isSegment || offset+segmentSize <= s.committed {
			continue
		}
		last = last || offset < s.committed
		if err := s.shorten(offset); err != nil {
			return err
		}
	}
	if !last {
		return fmt.Errorf("%w: %s is gone, which has the last committed bytes: restore it, or move %s away and begin anew",
			object.ErrDamaged, s.name(s.committed/segmentSize), s.dir)
	}
	return nil
}

// shorten cuts a segment to what is committed.
func (s *stream) shorten(offset uint64) error {
	name := s.name(offset / segmentSize)
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	keep := int64(s.committed - min(s.committed, offset))
	if info.Size() < keep {
		return fmt.Errorf("%w: %s has %d bytes, and %d were committed: restore it, or move %s away and begin anew", object.ErrDamaged, name, info.Size(), keep, s.dir)
	}
	if keep == 0 {
		return os.Remove(name)
	}
	return os.Truncate(name, keep)
}

// nameDigits is how many digits a segment's name has.
const nameDigits = 20

// offsetOf returns a segment's offset, which its name tells.
func offsetOf(name string) (offset uint64, isSegment bool) {
	offset, err := strconv.ParseUint(name, 10, 64)
	return offset, err == nil && len(name) == nameDigits && offset%segmentSize == 0
}

func (s *stream) name(number uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%0*d", nameDigits, number*segmentSize))
}

// segment returns a segment's file.
func (s *stream) segment(number uint64) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open := s.segments[number]; open != nil {
		return open, nil
	}
	open, err := os.OpenFile(s.name(number), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	s.segments[number] = open
	return open, nil
}

func (s *stream) Offset() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.landed
}

func (s *stream) GoesOn() bool { return false }

func (s *stream) Place(offset uint64) (link.Place, int64, error) {
	segment, err := s.segment(offset / segmentSize)
	at := offset % segmentSize
	return link.Place{File: segment, At: int64(at)}, int64(segmentSize - at), err
}

// buffers are reused for reading streams back.
var buffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// Landed hashes what has come, which is mostly still in memory.
func (s *stream) Landed(upTo uint64) error {
	buffer := buffers.Get().(*[256 << 10]byte)
	defer buffers.Put(buffer)
	for at := s.Offset(); at < upTo; {
		segment, err := s.segment(at / segmentSize)
		if err != nil {
			return err
		}
		within := at % segmentSize
		part := buffer[:min(uint64(len(buffer)), upTo-at, segmentSize-within)]
		if _, err := segment.ReadAt(part, int64(within)); err != nil {
			return fmt.Errorf("read segment: %w", err)
		}
		_, _ = s.hash.Write(part) // it never fails
		at += uint64(len(part))
	}
	s.land(upTo)
	return nil
}

// land notes how much has been hashed, and when it is to be committed.
func (s *stream) land(upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landed = upTo
	switch {
	case s.landed-s.taken >= commitBytes:
		s.due = time.Now()
	case s.due.IsZero():
		s.due = time.Now().Add(commitEvery)
	}
}

func (s *stream) Due() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

// take returns the offset up to which a new commit is to go.
func (s *stream) take() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken, s.due = s.landed, time.Time{}
	return s.taken
}

func (s *stream) Commit() (uint64, error) {
	err := s.commit()
	return s.committed, err
}

// commit commits, unless a commit has failed before: what is on disk is not known then.
func (s *stream) commit() error {
	if upTo := s.take(); s.failed == nil && upTo > s.committed {
		if err := s.sync(upTo); err != nil {
			s.failed = fmt.Errorf("commit stream: %w", err)
		}
	}
	return s.failed
}

// sync syncs the segments first, and then the record that says that they are there.
func (s *stream) sync(upTo uint64) error {
	for number := s.committed / segmentSize; number*segmentSize < upTo; number++ {
		segment, err := s.segment(number)
		if err == nil {
			err = segment.Sync()
		}
		if err == nil {
			err = s.checkThere(segment)
		}
		if err != nil {
			return err
		}
	}
	if err := cmp.Or(s.checkThere(s.lock), s.syncNames(upTo)); err != nil {
		return err
	}
	if err := writeRecord(s.lock, 1-s.slot, upTo); err != nil {
		return err
	}
	s.release(upTo)
	s.slot, s.committed = 1-s.slot, upTo
	return nil
}

// checkThere returns an error if a file was removed since it was opened: what is committed to it is nowhere.
func (s *stream) checkThere(file *os.File) error {
	if isRemoved(file) {
		return fmt.Errorf("%w: %s was removed while the stream was open", object.ErrDamaged, file.Name())
	}
	return nil
}

// syncNames makes names durable if a segment was begun since the last commit.
func (s *stream) syncNames(upTo uint64) error {
	if s.committed > 0 && (s.committed-1)/segmentSize == (upTo-1)/segmentSize {
		return nil
	}
	return object.SyncDirectory(s.dir)
}

// release closes segments that are complete.
func (s *stream) release(upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, open := range s.segments {
		if (number+1)*segmentSize <= upTo {
			_ = open.Close() // it is synced
			delete(s.segments, number)
		}
	}
}

// Finish compares what has come since the stream was opened with what was sent.
func (s *stream) Finish(length uint64, root object.Root) (string, error) {
	switch landed := s.Offset(); {
	case length != landed:
		return "", fmt.Errorf("%w: the stream ends at %d, and %d have come", object.ErrDamaged, length, landed)
	case s.hash.Sum() != root:
		return "", fmt.Errorf("%w: what came since %d is not what was sent", object.ErrDamaged, s.opened)
	}
	return s.dir, s.commit()
}

// Placed returns none: a stream may go on.
func (s *stream) Placed() []Placed { return nil }

func (s *stream) Close() error {
	err := s.commit()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.segments {
		err = errors.Join(err, open.Close())
	}
	s.segments = make(map[uint64]*os.File)
	return errors.Join(err, filelock.Release(s.lock))
}
