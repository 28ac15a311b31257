package gather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/groupcast/groupcast/internal/digest"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/supply"
	"github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/sdk"
)

// StreamOptions say how a stream is uploaded.
type StreamOptions struct {
	// Path is where it goes below the client's directory, with slashes. A stream that was uploaded under it earlier goes on.
	Path string
	// Progress, if it is set, is called a few times a second, and once more at the end.
	Progress func(Progress)
}

// streamRoom is how much of a stream that is not yet on the gatherer's disk is kept at most. When it is that much, nothing more is
// read.
const streamRoom = 1 << 30

// UploadStream uploads all that a reader gives, as it comes, and returns when all of it is on the gatherer's disk. It calls open with
// the offset at which the reader has to begin: how much of the stream the gatherer has from earlier. If the reader fails, what was read
// before that is uploaded first. With an error, the number of bytes returned is how many are on the gatherer's disk, as far as is known.
// A Read that blocks when the upload fails goes on until the reader is closed: before that, the caller must not use the reader.
func (c *Client) UploadStream(ctx context.Context, open func(offset uint64) (io.Reader, error), options StreamOptions) (Uploaded, error) {
	if options.Path == "" {
		return Uploaded{}, &sdk.Error{Code: sdk.InvalidArgument, Message: "a stream needs a path: name it"}
	}
	if open == nil {
		return Uploaded{}, &sdk.Error{Code: sdk.InvalidArgument, Message: "there is nothing to read the stream from"}
	}
	if err := checkPath(options.Path, true); err != nil {
		return Uploaded{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &stream{open: open, begun: make(chan struct{}), ended: make(chan struct{}), fail: stop}
	u := &upload{
		client: c, from: s, progress: options.Progress, length: s.arrived, stored: s.stored.Load,
		spec:   &gatherv1.UploadSpec{Path: options.Path, Stream: true},
		opened: func(offset uint64) error { return s.opened(ctx, offset) },
		end:    s.end,
	}
	path, err := u.run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, ctx.Err()) {
		err = cause
	}
	done := Uploaded{Path: path, Bytes: s.arrived() - s.base}
	if err != nil {
		done.Bytes = s.safe()
	}
	if s.kept != nil {
		err = errors.Join(s.brokenOff(), err, s.kept.Close())
	}
	return done, err
}

// stream is a stream that is uploaded, however often it has to be opened.
type stream struct {
	open  func(offset uint64) (io.Reader, error)
	begun chan struct{} // closed when kept is set
	ended chan struct{} // closed when nothing more is read
	fail  context.CancelCauseFunc
	kept  *supply.Stream
	base  uint64 // offset of the first byte that was read here
	cause error  // why no more could be read, once ended is closed; nil at the stream's end

	stored atomic.Uint64 // up to where the gatherer has it on its disk

	hashing sync.Mutex
	hash    digest.Hash // of what was read since the upload was opened last
	sum     link.End
}

// safe returns how many bytes of what was read here are on the gatherer's disk. One that was restored may have less than when this began.
func (s *stream) safe() uint64 { return max(s.stored.Load(), s.base) - s.base }

// opened begins to read or, if the stream was opened before, hashes anew what is kept from where the gatherer goes on.
func (s *stream) opened(ctx context.Context, offset uint64) error {
	s.stored.Store(offset)
	if s.kept != nil {
		return s.rehash(offset)
	}
	s.base = offset
	from, err := s.open(offset)
	if err != nil {
		return sdk.Because(sdk.Failed, fmt.Errorf("read the stream from %d: %w", offset, err))
	}
	if from == nil {
		return &sdk.Error{Code: sdk.InvalidArgument, Message: "there is nothing to read the stream from: open has returned no reader"}
	}
	s.kept = supply.NewStream(os.TempDir(), offset)
	close(s.begun)
	go s.read(ctx, from) // a Read that blocks ends when the reader is closed
	return nil
}

// rehash has the hash cover all that is kept from an offset on.
func (s *stream) rehash(offset uint64) error {
	s.hashing.Lock()
	defer s.hashing.Unlock()
	if offset < s.kept.Released() {
		return &sdk.Error{Code: sdk.Failed, Reason: "STREAM_LOST", Message: fmt.Sprintf("the gatherer has the stream up to %d alone, and said that it had it up to %d", offset, s.kept.Released())}
	}
	s.hash = digest.Hash{}
	buffer := make([]byte, 256<<10)
	for {
		n, err := s.kept.ReadAt(buffer, offset)
		if err != nil {
			return fmt.Errorf("read what is kept of the stream: %w", err)
		}
		if n == 0 {
			break
		}
		_, _ = s.hash.Write(buffer[:n]) // it never fails
		offset += uint64(n)
	}
	select {
	case <-s.ended:
		s.seal()
	default:
	}
	return nil
}

// seal notes length and root of all, with hashing locked.
func (s *stream) seal() {
	s.sum = link.End{Length: s.kept.Arrived(), Root: s.hash.Sum()}
	s.kept.End(&s.sum)
}

// roomCheck is how often to look whether more can be read.
const roomCheck = 50 * time.Millisecond

// read keeps what comes until the stream ends.
func (s *stream) read(ctx context.Context, from io.Reader) {
	from, buffer := supply.Reader(from), make([]byte, 64<<10)
	for ctx.Err() == nil {
		if s.kept.Kept() >= streamRoom {
			pause.For(ctx, roomCheck)
			continue
		}
		n, err := from.Read(buffer)
		if err != nil && err != io.EOF {
			s.cause = fmt.Errorf("read the stream: %w", err)
		}
		if failed := s.take(ctx, buffer[:n], err != nil); failed != nil {
			s.fail(failed)
			return
		}
		if err != nil {
			return
		}
	}
}

// brokenOff returns why reading ended before the end of the stream; nil if it did not.
func (s *stream) brokenOff() error {
	select {
	case <-s.ended:
		return s.cause
	default:
		return nil
	}
}

// take keeps the next bytes, which may be the last. If the disk is full, it waits until the gatherer has what is kept on its own
// disk. If nothing is kept, others have filled the disk, and waiting would not help.
func (s *stream) take(ctx context.Context, p []byte, last bool) error {
	for {
		n, err := s.keep(p, last)
		p = p[n:]
		if !noroom.Is(err) || s.kept.Kept() == 0 || !pause.For(ctx, roomCheck) {
			return err
		}
		s.kept.ReleaseAll(s.stored.Load())
	}
}

// keep keeps bytes, and returns how many of them.
func (s *stream) keep(p []byte, last bool) (n uint64, err error) {
	s.hashing.Lock()
	defer s.hashing.Unlock()
	before := s.kept.Arrived()
	err = s.kept.Append(p)
	n = s.kept.Arrived() - before
	_, _ = s.hash.Write(p[:n]) // it never fails
	if err == nil && last {
		close(s.ended)
		s.seal()
	}
	return n, err
}

// end returns length and root of all, once all was read.
func (s *stream) end(ctx context.Context) (link.End, error) {
	select {
	case <-s.ended:
	case <-ctx.Done():
		return link.End{}, ctx.Err()
	}
	s.hashing.Lock()
	defer s.hashing.Unlock()
	return s.sum, nil
}

// arrived returns up to where the stream has been read.
func (s *stream) arrived() uint64 {
	select {
	case <-s.begun:
		return s.kept.Arrived()
	default:
		return 0
	}
}

// SentUpTo implements supplier.
func (s *stream) SentUpTo() uint64 {
	select {
	case <-s.begun:
		return s.kept.SentUpTo()
	default:
		return 0
	}
}

// Hold implements supplier.
func (s *stream) Hold(held bool) { s.kept.Hold(held) }

// Next implements link.Supply.
func (s *stream) Next(offset, most uint64) (link.Portion, error) { return s.kept.Next(offset, most) }

// Sent implements link.Supply.
func (s *stream) Sent(offset uint64, portion link.Portion) { s.kept.Sent(offset, portion) }

// Acked gives back what is on the gatherer's disk.
func (s *stream) Acked(upTo uint64, level relay.Level) error {
	if level == relay.Durable {
		s.stored.Store(upTo)
		s.kept.Release(upTo)
	}
	return nil
}
