package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/groupcast/groupcast/internal/algo/parallel"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/wire/relay"
)

// takeAll takes all that comes, over any number of links, until the end is known. Over one connection bytes come in order; over several,
// as on a long path, in any order: further ones are opened only once scattered has returned.
func (r *receiving) takeAll(ctx context.Context, store link.Store, scattered func(context.Context) error) error {
	return r.keepTaking(ctx, func(ctx context.Context, assignment *groupv1.Assignment, parent *groupv1.Neighbour) error {
		return r.takeFrom(ctx, assignment, parent, store, scattered)
	})
}

// keepTaking takes from the parent, whichever that is, until the end is known.
func (r *receiving) keepTaking(ctx context.Context, take func(context.Context, *groupv1.Assignment, *groupv1.Neighbour) error) error {
	attendance := r.session.attendance
	wait := newBackoff()
	for !r.isWhole() {
		assignment, err := attendance.await(ctx, r.id, func(a *groupv1.Assignment) bool {
			return a == nil || isOver(a) || len(a.GetParent().GetAddresses()) > 0
		})
		if err != nil {
			return err
		}
		if isOver(assignment) {
			return endedEarly(assignment)
		}
		parent := assignment.GetParent()
		linked, release := attendance.while(ctx, r.id, func(a *groupv1.Assignment) bool {
			return a != nil && !isOver(a) && (a.GetParent() == nil || link.SameNeighbour(a.GetParent(), parent))
		})
		err = take(linked, assignment, parent)
		moved := linked.Err() != nil
		switch {
		case fatal(err):
			release()
			return err
		case err == nil || moved || r.isWhole(): // the link may break after the last byte
			wait = newBackoff()
		case errors.Is(err, errGivenUp):
			r.session.client.log.Info("a member that relays gave this one up; the managers decide", "parent", parent.GetName(), "error", err)
			r.update(func() { r.lost = "" })
			pause.For(linked, wait.next())
		default:
			r.session.client.log.Debug("the parent is lost", "parent", parent.GetName(), "error", err)
			r.update(func() { r.lost = parent.GetName() })
			attendance.reportNow()
			pause.For(linked, wait.next())
		}
		release()
	}
	return nil
}

// isOver reports whether nothing more comes of a delivery.
func isOver(a *groupv1.Assignment) bool { return a == nil || a.GetEnded() && a.GetReason() != "" }

// fatal reports whether no other parent can help. A link that ends because this member is too slow ends the delivery here, if a session agent says
// so.
func fatal(err error) bool {
	var known *DeliveryError
	var storage *link.StorageError
	return errors.As(err, &known) || errors.As(err, &storage) || errors.Is(err, errNotKept)
}

// errNotKept says that what this member lacks of a stream can be had nowhere any more.
var errNotKept = errors.New("the stream is not kept")

func (r *receiving) isWhole() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end != nil
}

// openingMost is how many stripes are opened at once: an agent lets only so many be opened from one address, which many members may
// share.
const openingMost = 4

// takeFrom takes what one parent sends.
func (r *receiving) takeFrom(ctx context.Context, assignment *groupv1.Assignment, parent *groupv1.Neighbour, store link.Store, scattered func(context.Context) error) error {
	from := r.has()
	stripes := parallel.Bounds{Least: 1, Most: 1}
	if scattered != nil {
		stripes.Most = parallel.Most
	}
	dial := func(ctx context.Context, hello relay.Hello, first link.Answer) (*link.Conn, error) {
		hello.Stripes, hello.From = uint8(stripes.Most), from
		conn, welcome, err := dialNeighbour(ctx, r.session, assignment, parent, hello, first)
		if err == nil && welcome.From != from {
			conn.Close()
			err = fmt.Errorf("%w: welcome from offset %d: want %d", relay.ErrProtocol, welcome.From, from)
		}
		return conn, err
	}
	opening := semaphore.NewWeighted(openingMost)
	conn, err := dial(ctx, relay.Hello{}, store.Answer())
	if err == nil {
		r.update(func() { r.lost = "" })
		r.fedBy = parent.GetName()
		taking := link.NewTaking(ctx, from, store, link.Options{
			Bounds: stripes,
			Open: func(ctx context.Context, stripe int) (*link.Conn, error) {
				if err := scattered(ctx); err != nil {
					return nil, err
				}
				if err := opening.Acquire(ctx, 1); err != nil {
					return nil, err
				}
				defer opening.Release(1)
				return dial(ctx, relay.Hello{Join: true, Stripe: uint8(stripe)}, link.Answer{})
			},
		})
		err = taking.Run(conn)
		r.session.client.log.Debug("a link was used", "member", r.session.member.Name, "delivery", r.id, "parent", parent.GetName(), "received_bytes", taking.Carried(), "end", err)
	}
	if isSlow(err) {
		return r.givenUp(assignment)
	}
	if from, is := link.NotKept(err); is {
		return fmt.Errorf("%w from byte %d on any more, where this member would go on: its sender has it from byte %d on", errNotKept, r.has(), from)
	}
	return err
}

func isSlow(err error) bool {
	var refusal *relay.Refusal
	var ended *link.Ended
	return errors.As(err, &refusal) && refusal.Reason == relay.Slow || errors.As(err, &ended) && ended.Reason == relay.Slow
}

// errGivenUp says that a member that relays gave up this one.
var errGivenUp = errors.New("given up by a member that relays")

// givenUp returns how a link ended whose parent says that this member is too slow. A member that relays is no better than this one: as long as the
// delivery goes on, the managers have another agent feed it, or say themselves that it has failed.
func (r *receiving) givenUp(assignment *groupv1.Assignment) error {
	parent := assignment.GetParent()
	if _, _, relays := identity.Named(parent).Relay(); relays && !assignment.GetEnded() {
		return fmt.Errorf("%w, %s, at offset %d", errGivenUp, parent.GetName(), r.has())
	}
	return &DeliveryError{Reason: "slow", Detail: fmt.Sprintf("given up by %s at offset %d", parent.GetName(), r.has())}
}

// streamStore hands on what a parent sends. Its writer finds out what that is worth.
type streamStore struct {
	*receiving
	to io.Writer
}

func (s *streamStore) Section(uint64) (link.Place, int64, error) {
	return link.Place{To: s.to}, relay.MaxOffset, nil
}

// landingStore lands what a parent sends. Bytes that come in order are hashed as they come; those that come ahead of others are read back
// when it is their turn.
type landingStore struct {
	*receiving
	mu      sync.Mutex // only one stripe may use the landing at a time
	landing *object.Landing
}

func (s *landingStore) Section(offset uint64) (link.Place, int64, error) {
	return link.Place{To: &section{s, offset}}, relay.MaxOffset, nil
}

// aheadStep bounds how far bytes may come ahead of late ones, to three times as much: they are read back in one go, and nothing else can
// be heard meanwhile. It makes the grant change only rarely.
const aheadStep = 64 << 20

// Answer implements link.Store. It grants nothing beyond the end: whoever sends that is at fault.
func (s *landingStore) Answer() link.Answer {
	answer := s.receiving.Answer()
	answer.Credit = min(answer.Credit, (answer.Ack/aheadStep+3)*aheadStep, s.landing.Info().Length)
	return answer
}

// Landed hashes what came ahead of others and is next now, and notes that all before an offset is here.
func (s *landingStore) Landed(upTo uint64) error {
	s.mu.Lock()
	var err error
	if landed := s.landing.Offset(); upTo > landed {
		err = s.landing.Adopt(upTo - landed)
	}
	s.mu.Unlock()
	if err != nil {
		return &link.StorageError{Err: err}
	}
	return s.receiving.Landed(upTo)
}

// scattered waits until it is known where every byte belongs.
func (s *landingStore) scattered(ctx context.Context) error {
	for {
		s.receiving.mu.Lock()
		changed := s.changed
		s.receiving.mu.Unlock()
		if s.landing.Places() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// section is where the bytes from an offset on go.
type section struct {
	*landingStore
	at uint64
}

// Write lands those bytes that have not landed yet: a slow stripe and one that helps it may both bring the same.
func (s *section) Write(p []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if landed := s.landing.Offset(); s.at < landed {
		written = int(min(landed-s.at, uint64(len(p))))
	}
	if next := s.at + uint64(written); next == s.landing.Offset() {
		var landed int
		landed, err = s.landing.Write(p[written:])
		written += landed
	} else if written < len(p) {
		var taken bool
		if taken, err = s.landing.Ahead(next, p[written:]); taken {
			written = len(p)
		} else if err == nil {
			err = fmt.Errorf("%w: bytes ahead of a directory's head", relay.ErrProtocol)
		}
	}
	s.at += uint64(written)
	return written, err
}

// Answer returns what to tell the parent.
func (r *receiving) Answer() link.Answer {
	assignment, _ := r.session.attendance.assignment(r.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	return link.Answer{
		Ack: r.offset, Level: relay.Received, Credit: relay.MaxOffset, TreeVersion: assignment.GetTreeVersion(),
		Done: r.end != nil, Changed: r.changed,
	}
}

// Landed notes that all before an offset is here.
func (r *receiving) Landed(upTo uint64) error {
	r.update(func() { r.offset, r.moved = upTo, time.Now() })
	if r.options.Progress != nil {
		r.options.Progress(r.incoming, upTo)
	}
	return nil
}

// End notes length and root of all.
func (r *receiving) End(end link.End) error {
	r.update(func() { r.end = &end })
	return nil
}
