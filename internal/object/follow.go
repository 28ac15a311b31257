package object

import (
	"context"
	"time"
)

// follow hashes what has landed.
func (l *Landing) follow(ctx context.Context) {
	asked := l.resumed
	for {
		now, err := l.progress.wait(ctx, func(s snapshot) bool { return s.landed > s.hashed })
		if err != nil {
			return
		}
		if err := l.hashPiece(now); err != nil {
			_ = l.fail(err)
			return
		}
		if l.digest.offset-asked >= claimBytes {
			asked = l.digest.offset
			select {
			case l.due <- struct{}{}:
			default: // asked already
			}
		}
	}
}

func (l *Landing) hashPiece(now snapshot) error {
	l.hash.Lock()
	defer l.hash.Unlock()
	if err := l.digest.advance(now.layout, now.landed); err != nil {
		return err
	}
	l.progress.update(func() { l.progress.hashed = l.digest.offset })
	return nil
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
	l.hash.Lock()
	next, now := claim{l.digest.offset, l.digest.root()}, l.progress.now()
	l.hash.Unlock()
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
