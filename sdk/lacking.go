package sdk

import (
	"context"
	"errors"
	"math"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
)

// headGrant is how much of a directory with hashes may come at first: many heads are no longer.
const headGrant = 16 << 10

// worthKeeping returns how many bytes in a row have to be here already to be left out. To ask for what follows them takes a new link on
// every hop, which is worth some milliseconds of bytes: much where all is little, and nothing where it is much.
func worthKeeping(length uint64) uint64 { return min(max(length/256, 64<<10), 4<<20) }

// lackingStore lands a directory with hashes, of which only those parts come that this member lacks: the others are taken over from the
// directory that has its name. Until its head has come and both are compared, no more than the head is asked for. Then each part that
// is lacking is asked for over a link of its own, which ends where the next part begins that is here.
type lackingStore struct {
	*landingStore
	granted uint64          // guarded by receiving.mu, as is what follows
	earlier *object.Earlier // what is here, once it is compared; nil before, and if there is none
	ready   bool            // it is compared
}

// errHere ends the taking of what is here already, whole.
var errHere = errors.New("the directory is here already")

// takeLacking takes what this member lacks. If that is nothing, it returns errHere.
func (s *lackingStore) takeLacking(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	compared := make(chan struct{})
	go func() {
		defer close(compared)
		if s.compare(ctx) {
			cancel(errHere)
		}
	}()
	err := s.keepTaking(ctx, func(linked context.Context, assignment *groupv1.Assignment, parent *groupv1.Neighbour) error {
		if err := s.takeOver(linked); err != nil {
			return err
		}
		return s.takeFrom(linked, assignment, parent, s, s.scattered)
	})
	if errors.Is(context.Cause(ctx), errHere) {
		err = errHere
	}
	cancel(nil)
	<-compared
	if s.earlier != nil {
		err = errors.Join(err, s.earlier.Close())
	}
	return err
}

// compare compares what is here with what comes, once its head is known, and reports whether it is the same.
func (s *lackingStore) compare(ctx context.Context) (same bool) {
	if s.scattered(ctx) != nil {
		return false
	}
	s.pause(true)
	defer s.pause(false)
	earlier, err := s.landing.Earlier(pulse.In(ctx, &s.reading))
	if err == nil && earlier != nil {
		if err = earlier.Compare(ctx); err == nil {
			same, err = s.isSame(ctx, earlier)
		}
	}
	if err != nil {
		s.session.client.log.Warn("what is here could not be compared with what comes: all of it comes", "delivery", s.id, "error", err)
	}
	s.update(func() {
		s.earlier, s.ready = earlier, true
		if earlier != nil {
			earlier.Keep(s.granted, worthKeeping(s.info.Length))
		}
	})
	return same
}

// isSame reports whether what is here is all of what was sent, and nothing else: then it is confirmed, and stays where it is.
func (s *lackingStore) isSame(ctx context.Context, earlier *object.Earlier) (same bool, err error) {
	found, err := earlier.Same(s.landing)
	if found == nil || err != nil {
		return false, err
	}
	return s.isHere(ctx, found), nil
}

// pause tells the managers whether this member takes nothing for now, through no fault of its agent's.
func (s *lackingStore) pause(paused bool) {
	s.update(func() { s.comparing = paused })
	s.session.attendance.reportNow()
}

// takeOver lands what is here of what comes next.
func (s *lackingStore) takeOver(ctx context.Context) error {
	s.receiving.mu.Lock()
	earlier := s.earlier
	s.receiving.mu.Unlock()
	if earlier == nil {
		return nil
	}
	if from, to := earlier.Next(s.has()); from > s.has() || from == to {
		return nil
	}
	s.pause(true)
	defer s.pause(false)
	err := earlier.Take(ctx, s.landing, func() { _ = s.receiving.Landed(s.landing.Offset()) })
	if err != nil && ctx.Err() == nil {
		return &link.StorageError{Err: err}
	}
	return err
}

// Answer implements link.Store. The link ends where the next part begins that is here.
func (s *lackingStore) Answer() link.Answer {
	answer := s.landingStore.Answer()
	s.receiving.mu.Lock()
	defer s.receiving.mu.Unlock()
	most := max(headGrant, s.landing.Head())
	if s.ready {
		most = math.MaxUint64
		if s.earlier != nil {
			from, to := s.earlier.Next(answer.Ack)
			if from < to {
				most, answer.Done = from, answer.Done || answer.Ack >= from
			}
		}
	}
	s.granted = max(s.granted, min(answer.Credit, most))
	answer.Credit = s.granted
	return answer
}
