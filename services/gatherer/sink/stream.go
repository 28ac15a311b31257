package sink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// segmentSize is how many bytes of a stream a file holds: the n-th has those from
// n*segmentSize on, and their offset as its name.
const segmentSize = 64 << 20

// What has landed is committed when it is so much, or has waited so long: one sync for many
// small writes.
const (
	commitBytes = 16 << 20
	commitEvery = 200 * time.Millisecond
)

// streamSuffix is at the end of the name of a stream's directory.
const streamSuffix = ".stream"

// stream is the segments of a stream.
//
//	NAME.stream/00000000000000000000   the first 64 MiB
//	NAME.stream/00000000000067108864   the next
//	NAME.stream/committed              up to where all is on disk: offset (8), its CRC-32C (4)
//
// What is behind the committed offset is cut off when the stream is opened.
type stream struct {
	dir       string
	lock      *os.File // of committed
	hash      digest.Hash
	opened    uint64 // all before it was there when it was opened
	landed    uint64
	committed uint64
	due       time.Time // when what has landed is committed at the latest; zero without any
	buffer    []byte

	mu       sync.Mutex
	segments map[uint64]*os.File // those that are open, by number
}

func openStream(dir string) (*stream, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "committed"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	s := &stream{dir: dir, lock: lock, segments: make(map[uint64]*os.File), buffer: make([]byte, 256<<10)}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("open stream %s: %w", dir, err), lock.Close())
	}
	return s, nil
}

// recover finds out what is committed, and cuts off the rest.
func (s *stream) recover() error {
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return object.ErrBusy
	}
	var record [12]byte
	switch n, err := s.lock.ReadAt(record[:], 0); {
	case err == io.EOF && n == 0:
	case err != nil:
		return fmt.Errorf("read what is committed: %w", err)
	case binary.BigEndian.Uint32(record[8:]) != check(record[:8]):
		return fmt.Errorf("%w: the file committed is not what was written", object.ErrDamaged)
	default:
		s.committed = binary.BigEndian.Uint64(record[:])
	}
	s.opened, s.landed = s.committed, s.committed
	return s.cut()
}

func check(bytes []byte) uint32 { return crc32.Checksum(bytes, crc32.MakeTable(crc32.Castagnoli)) }

// cut removes what is not committed.
func (s *stream) cut() error {
	for number := s.committed / segmentSize; ; number++ {
		info, err := os.Lstat(s.name(number))
		if errors.Is(err, fs.ErrNotExist) {
			if number == s.committed/segmentSize && s.committed%segmentSize > 0 {
				return fmt.Errorf("%w: %s is gone", object.ErrDamaged, s.name(number))
			}
			return nil
		}
		if err != nil {
			return err
		}
		keep := int64(s.committed - min(s.committed, number*segmentSize))
		if info.Size() < keep {
			return fmt.Errorf("%w: %s has %d bytes, and %d were committed", object.ErrDamaged, s.name(number), info.Size(), keep)
		}
		if keep == 0 {
			err = os.Remove(s.name(number))
		} else {
			err = os.Truncate(s.name(number), keep)
		}
		if err != nil {
			return err
		}
	}
}

func (s *stream) name(number uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d", number*segmentSize))
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

func (s *stream) Offset() uint64 { return s.landed }

func (s *stream) Place(offset uint64) (link.Place, int64, error) {
	segment, err := s.segment(offset / segmentSize)
	at := offset % segmentSize
	return link.Place{File: segment, At: int64(at)}, int64(segmentSize - at), err
}

// Landed hashes what has come, mostly out of memory.
func (s *stream) Landed(upTo uint64) error {
	for s.landed < upTo {
		segment, err := s.segment(s.landed / segmentSize)
		if err != nil {
			return err
		}
		at := s.landed % segmentSize
		part := s.buffer[:min(uint64(len(s.buffer)), upTo-s.landed, segmentSize-at)]
		if _, err := segment.ReadAt(part, int64(at)); err != nil {
			return fmt.Errorf("read segment: %w", err)
		}
		_, _ = s.hash.Write(part) // it never fails
		s.landed += uint64(len(part))
	}
	if s.due.IsZero() {
		s.due = time.Now().Add(commitEvery)
	}
	return nil
}

func (s *stream) Commit() (uint64, error) {
	enough := s.landed-s.committed >= commitBytes || !s.due.IsZero() && !time.Now().Before(s.due)
	if s.landed == s.committed || !enough {
		return s.committed, nil
	}
	return s.committed, s.commit()
}

// commit syncs the segments first and then what says that they are there.
func (s *stream) commit() error {
	upTo := s.landed
	for number := s.committed / segmentSize; number*segmentSize < upTo; number++ {
		segment, err := s.segment(number)
		if err == nil {
			err = segment.Sync()
		}
		if err != nil {
			return fmt.Errorf("commit stream: %w", err)
		}
	}
	if err := s.syncNames(upTo); err != nil {
		return fmt.Errorf("commit stream: %w", err)
	}
	record := binary.BigEndian.AppendUint64(nil, upTo)
	record = binary.BigEndian.AppendUint32(record, check(record))
	if _, err := s.lock.WriteAt(record, 0); err != nil {
		return fmt.Errorf("commit stream: %w", err)
	}
	if err := s.lock.Sync(); err != nil {
		return fmt.Errorf("commit stream: %w", err)
	}
	s.release(upTo)
	s.committed, s.due = upTo, time.Time{}
	return nil
}

// syncNames makes names durable where a segment has begun since the last commit.
func (s *stream) syncNames(upTo uint64) error {
	if s.committed > 0 && (s.committed-1)/segmentSize == (upTo-1)/segmentSize {
		return nil
	}
	return syncDirectory(s.dir)
}

// release closes segments that nobody writes to any more.
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

// Finish compares what has come since the stream was opened.
func (s *stream) Finish(length uint64, root object.Root) (string, error) {
	switch {
	case length != s.landed:
		return "", fmt.Errorf("%w: the stream ends at %d, and %d have come", object.ErrDamaged, length, s.landed)
	case s.hash.Sum() != root:
		return "", fmt.Errorf("%w: what came since %d is not what was sent", object.ErrDamaged, s.opened)
	}
	return s.dir, s.commit()
}

func (s *stream) Close() error {
	err := s.commit()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.segments {
		err = errors.Join(err, open.Close())
	}
	s.segments = make(map[uint64]*os.File)
	return errors.Join(err, s.lock.Close())
}
