package sdk

import (
	"context"
	"errors"
	"math"
	"time"

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

// takeLacking takes what this member lacks.
func (s *lackingStore) takeLacking(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	compared := make(chan struct{})
	go func() {
		defer close(compared)
		s.compare(ctx)
	}()
	err := s.keepTaking(ctx, func(linked context.Context, assignment *groupv1.Assignment, parent *groupv1.Neighbour) error {
		if err := s.takeOver(linked); err != nil {
			return err
		}
		return s.takeFrom(linked, assignment, parent, s, s.scattered)
	})
	cancel()
	<-compared
	if s.earlier != nil {
		err = errors.Join(err, s.earlier.Close())
	}
	return err
}

// compare compares what is here with what comes, once its head is known.
func (s *lackingStore) compare(ctx context.Context) {
	if s.scattered(ctx) != nil {
		return
	}
	defer s.pause()()
	earlier, err := s.landing.Earlier(pulse.In(ctx, &s.reading))
	if err == nil && earlier != nil {
		err = earlier.Compare(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.session.client.log.Warn("what is here could not be compared with what comes: all of it comes", "delivery", s.id, "error", err)
	}
	s.update(func() {
		s.earlier, s.ready = earlier, true
		if earlier != nil {
			earlier.Keep(s.granted, worthKeeping(s.info.Length))
		}
	})
}

// longPause is how long a member takes nothing before the managers hear of it.
const longPause = time.Second

// pause has the managers know, if it lasts, that this member takes nothing for now, through no fault of its agent's. Until it ends, no
// other delivery of the same takes this one's place.
func (s *lackingStore) pause() (end func()) {
	s.update(func() { s.comparing = true })
	timer := time.AfterFunc(longPause, s.session.attendance.reportNow)
	return func() {
		timer.Stop()
		s.update(func() { s.comparing = false })
	}
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
	defer s.pause()()
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
