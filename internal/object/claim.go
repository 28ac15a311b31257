package object

import (
	"context"
	"time"
)

// hash adds what has landed to the tally, and has it claimed when it is much.
func (l *Landing) hash(landed []byte) {
	l.hashing.Lock()
	l.tally.add(landed)
	hashed := l.tally.offset
	l.hashing.Unlock()
	if hashed-l.asked < claimBytes {
		return
	}
	l.asked = hashed
	select {
	case l.due <- struct{}{}:
	default: // asked already
	}
}

// journal claims what has landed, now and then.
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
		if err := l.claim(); err != nil {
			_ = l.fail(err)
			return
		}
	}
}

// claim puts what is hashed on disk, and then writes that it is there.
func (l *Landing) claim() error {
	l.hashing.Lock()
	hashed := l.tally
	l.hashing.Unlock()
	next, now := claim{hashed.offset, hashed.root()}, l.progress.now()
	if next.offset == l.claimed.offset || now.err != nil {
		return now.err
	}
	if err := l.settle(now.layout, next.offset); err != nil {
		return err
	}
	if err := l.partial.journal.claim(next); err != nil {
		return err
	}
	l.claimed = next
	return nil
}
