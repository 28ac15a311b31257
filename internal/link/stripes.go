package link

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	"github.com/groupcast/groupcast/internal/pause"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// Open opens a stripe that joins a link. Stripes are numbered from zero, which is the first one, if
// that has to be opened again.
type Open func(ctx context.Context, stripe int) (*Conn, error)

// Options say what a link may be made of.
type Options struct {
	// Bounds say how many stripes the link may have; the zero Bounds allow one.
	Bounds parallel.Bounds
	// Open opens more stripes. It is nil at the end that accepts them.
	Open Open
	// Earlier is the number of stripes that the last link to the same neighbour ended with; zero if there was none.
	Earlier int
	// Chosen, if set, is told what the parent's end decides about the number of stripes.
	Chosen func(parallel.Choice)
	// Granted, if set, is told at the parent's end before which offset the child may be sent everything.
	Granted func(upTo uint64)
	// Steered says that Steer decides about the number of stripes, instead of what the parent's end measures.
	Steered bool
}

// A neighbour that cannot be reached, or a stripe that breaks, is dialled again after a pause that doubles.
const (
	FirstPause = 50 * time.Millisecond
	LongPause  = time.Second
)

// refusedPause is the longest pause after which a stripe that was refused is opened again. It begins with LongPause, and doubles: a
// neighbour may have had no place for a moment, or may never take so many.
const refusedPause = time.Minute

// errEnded says that a stripe was to join a link that has ended.
var errEnded = errors.New("the link has ended")

// stripes are the connections of a link, which goes on as long as one of them does. A stripe that
// breaks alone is opened again by the end that opened it.
type stripes struct {
	options Options
	serve   func(ctx context.Context, conn *Conn) error // feeds or takes over one connection until that ends
	ctx     context.Context
	end     context.CancelCauseFunc // ends all of them
	running sync.WaitGroup

	counting sync.Mutex
	conns    []*Conn // the living ones
	kept     int     // this end keeps so many open,
	wanted   int     // of so many that are asked for
	done     bool    // everything that was wanted has come: none is opened again
	taken    int     // the neighbour took no more than these when it was last asked; 0 is not known
	sent     uint64  // bytes of payload that ended stripes have sent,
	received uint64  // and received
}

func (s *stripes) begin(ctx context.Context, options Options, serve func(context.Context, *Conn) error) {
	s.options, s.serve, s.kept, s.wanted = options, serve, 1, 1
	s.ctx, s.end = context.WithCancelCause(ctx)
}

// run runs the link from its first stripe to its end, and returns why it ended.
func (s *stripes) run(conn *Conn) error {
	defer s.end(nil)
	s.keep(0, conn)
	s.running.Wait()
	return context.Cause(s.ctx)
}

// Join runs another stripe until that ends.
func (s *stripes) Join(conn *Conn) error {
	if !s.enter(conn) {
		conn.Close()
		return errEnded
	}
	defer s.running.Done()
	err := s.serve(s.ctx, conn)
	s.leave(conn, err)
	return err
}

// Close ends the link at once.
func (s *stripes) Close() {
	s.end(net.ErrClosed)
	s.counting.Lock()
	defer s.counting.Unlock()
	for _, conn := range s.conns {
		conn.Close()
	}
}

func (s *stripes) enter(conn *Conn) bool {
	s.counting.Lock()
	defer s.counting.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.conns = append(s.conns, conn)
	s.running.Add(1)
	return true
}

// leave notes that a stripe has ended. The last one ends the link.
func (s *stripes) leave(conn *Conn, err error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(one *Conn) bool { return one == conn })
	s.sent += conn.sent.Load()
	s.received += conn.received.Load()
	if len(s.conns) == 0 {
		s.end(err)
	}
}

// Admits reports whether a stripe may join, by its number, which counts from zero: a stripe that broke may come back before
// this end notices that it broke. None joins a link that has ended.
func (s *stripes) Admits(stripe int) bool {
	most := s.options.Bounds.Most
	return most > 1 && stripe < most && s.living() < 2*most && s.ctx.Err() == nil
}

// refuse notes that the neighbour has refused a stripe.
func (s *stripes) refuse(stripe int) {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.taken = min(cmp.Or(s.taken, stripe), stripe)
}

// welcome notes that the neighbour has taken a stripe: what it has refused before may be taken, too.
func (s *stripes) welcome(stripe int) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if stripe >= s.taken {
		s.taken = 0
	}
}

// takesAtMost returns how many stripes the neighbour takes, as far as is known.
func (s *stripes) takesAtMost() int {
	s.counting.Lock()
	defer s.counting.Unlock()
	return cmp.Or(s.taken, parallel.Most)
}

// living returns how many stripes there are.
func (s *stripes) living() int {
	s.counting.Lock()
	defer s.counting.Unlock()
	return len(s.conns)
}

// carried returns how many bytes of payload the link has sent and received, when it has ended.
func (s *stripes) carried() (sent, received uint64) {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.sent, s.received
}

// finish notes that no stripe is worth opening again.
func (s *stripes) finish() {
	s.counting.Lock()
	defer s.counting.Unlock()
	s.done = true
}

func (s *stripes) finished() bool {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.done
}

// want has this end open more stripes if there are fewer. If the link is steered, stripes beyond
// that number are not opened again.
func (s *stripes) want(number int) {
	if s.options.Open == nil {
		return
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	s.wanted = number
	for ; s.kept < min(number, s.options.Bounds.Most) && (s.options.Steered || len(s.conns) > 0) && s.ctx.Err() == nil; s.kept++ {
		stripe := s.kept
		s.running.Go(func() { s.keep(stripe, nil) })
	}
}

// keep runs a stripe, and opens it again until the link ends. The end that does not open stripes runs it once.
func (s *stripes) keep(stripe int, conn *Conn) {
	var wait, refused time.Duration
	if conn != nil {
		_ = s.Join(conn) // if the link ends, it says why
		wait = FirstPause
	}
	for s.options.Open != nil && !s.finished() && pause.For(s.ctx, wait) {
		if s.tooMany() {
			return
		}
		wait = min(max(2*wait, FirstPause), LongPause)
		if stripe > s.takesAtMost() {
			continue // the first of those that were refused is tried for all of them
		}
		conn, err := s.options.Open(s.ctx, stripe)
		var refusal *wire.Refusal
		if errors.As(err, &refusal) && !s.options.Steered {
			s.refuse(stripe)
			refused = min(max(2*refused, LongPause), refusedPause)
			wait = refused
			continue
		}
		if err != nil {
			continue
		}
		s.welcome(stripe)
		if s.lasts(conn) {
			wait, refused = FirstPause, 0
		}
	}
}

// tooMany reports whether a stripe that ended is not to be opened again, because the link is steered and
// fewer are wanted.
func (s *stripes) tooMany() bool {
	s.counting.Lock()
	defer s.counting.Unlock()
	if !s.options.Steered || s.kept <= s.wanted {
		return false
	}
	s.kept--
	return true
}

// lasts runs a stripe, and reports whether it was worth opening.
func (s *stripes) lasts(conn *Conn) bool {
	begun := time.Now()
	_ = s.Join(conn)
	return time.Since(begun) > LongPause
}
