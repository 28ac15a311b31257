package object

import (
	"context"
	"time"
)

// askClaim has what has landed claimed when it is much.
func (l *Landing) askClaim(landed uint64) {
	if landed-l.asked < claimBytes {
		return
	}
	l.asked = landed
	select {
	case l.due <- struct{}{}:
	default: // asked already
	}
}

// journal claims what has landed, now and then, and looks what is left of the disk.
func (l *Landing) journal(ctx context.Context) {
	ticker := time.NewTicker(claimEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.due:
		}
		err := l.claim()
		if err == nil {
			err = l.checkReserve()
		}
		if err != nil {
			_ = l.fail(err)
			return
		}
	}
}

// claim puts what is hashed on disk, and then writes that it is there.
func (l *Landing) claim() error {
	next, known, err := l.progress.claimable()
	if next.offset == l.claimed.offset || err != nil {
		return err
	}
	if err := l.makeDurable(known, next.offset); err != nil {
		return err
	}
	if err := l.partial.journal.claim(next); err != nil {
		return err
	}
	l.claimed = next
	l.synced.Store(next.offset)
	return nil
}
