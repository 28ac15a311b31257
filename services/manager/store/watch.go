package store

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Event is one key that changed.
type Event struct {
	Item
	Deleted bool
}

// Batch is what changed up to a revision. A batch without events says that
// nothing else changed until then.
type Batch struct {
	Events   []Event
	Revision Revision
}

// Watch calls each with all that changes after the revision, in order, all
// events of one transaction in one batch. It returns ErrCompacted when the
// history from there on is gone.
func (s *Store) Watch(ctx context.Context, after Revision, each func(Batch)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := s.client.Watch(clientv3.WithRequireLeader(ctx), prefix,
		clientv3.WithPrefix(), clientv3.WithRev(int64(after)+1), clientv3.WithProgressNotify())
	for answer := range watch {
		if err := answer.Err(); err != nil {
			return translate("watch", err)
		}
		batch, err := decode(answer)
		if err != nil {
			return err
		}
		each(batch)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return translate("watch", context.DeadlineExceeded)
}

// askProgress makes running watches report how far they are, at most this often.
const askProgress = 20 * time.Millisecond

// Await calls reached until it returns true, nudging the watches in between: in
// an etcd shared with others, revisions pass in which nothing of ours changes.
func (s *Store) Await(ctx context.Context, changed func() <-chan struct{}, reached func() bool) error {
	for {
		wake := changed()
		if reached() {
			return nil
		}
		timer := time.NewTimer(askProgress)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-wake:
			timer.Stop()
		case <-timer.C:
			if err := s.client.RequestProgress(clientv3.WithRequireLeader(ctx)); err != nil {
				return translate("ask for progress", err)
			}
		}
	}
}

func decode(answer clientv3.WatchResponse) (Batch, error) {
	batch := Batch{Revision: Revision(answer.Header.Revision)}
	for _, event := range answer.Events {
		key := string(event.Kv.Key[len(prefix):])
		// The header may be ahead of the events that are still to come.
		batch.Revision = Revision(event.Kv.ModRevision)
		if strings.HasPrefix(key, electionKey) {
			continue
		}
		decoded := Event{Item: Item{Key: key, Changed: batch.Revision}, Deleted: event.Type == clientv3.EventTypeDelete}
		if !decoded.Deleted {
			item, err := unseal(event.Kv)
			if err != nil {
				return Batch{}, err
			}
			decoded.Item = item
		}
		batch.Events = append(batch.Events, decoded)
	}
	return batch, nil
}
