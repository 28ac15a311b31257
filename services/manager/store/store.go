// Package store keeps the managers' state in etcd, and is the only package that
// knows so. The etcd is embedded in this process, or a cluster elsewhere; all
// else is the same code.
//
// State is a set of keys. One transaction at a time changes it (Commit), each
// change has a revision, and revisions only grow. A transaction names the term
// of the manager that leads (see Campaign): once another manager leads, the
// store refuses what an earlier leader still tries to write.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Revision counts the changes of the store.
type Revision uint64

// Errors that callers branch on.
var (
	// ErrConflict says that a condition of the transaction did not hold: nothing was written.
	ErrConflict = errors.New("the state changed meanwhile")
	// ErrFenced says that the term is over: nothing was written.
	ErrFenced = errors.New("another manager leads now")
	// ErrFull says that the store has no room: nothing was written.
	ErrFull = errors.New("the manager's store has no room")
	// ErrTooLarge says that a transaction is more than the store takes at once: nothing was written, and never is.
	ErrTooLarge = errors.New("more than the manager's store takes at once")
	// ErrUnavailable says that the store did not answer; whether it has written is not known.
	ErrUnavailable = errors.New("the manager's store does not answer")
	// ErrCompacted says that the history asked for is gone.
	ErrCompacted = errors.New("the history asked for is gone")
)

// prefix is what all keys lie below, so that an etcd can be shared.
const prefix = "/groupcast/"

// Item is a key with its value.
type Item struct {
	Key     string
	Value   []byte
	Changed Revision // when it was last written
}

// Cond is a condition of a transaction.
type Cond struct{ compare clientv3.Cmp }

// Absent holds while there is no such key.
func Absent(key string) Cond {
	return Cond{clientv3.Compare(clientv3.CreateRevision(prefix+key), "=", 0)}
}

// Unchanged holds while the key was last written at the revision; zero stands for a key that is absent.
func Unchanged(key string, at Revision) Cond {
	return Cond{clientv3.Compare(clientv3.ModRevision(prefix+key), "=", int64(at))}
}

// NoneBelow holds while there is no key with the prefix.
func NoneBelow(keyPrefix string) Cond {
	return Cond{clientv3.Compare(clientv3.CreateRevision(prefix+keyPrefix), "=", 0).WithPrefix()}
}

// UnchangedBelow holds while no key with the prefix was written after the revision.
func UnchangedBelow(keyPrefix string, at Revision) Cond {
	return Cond{clientv3.Compare(clientv3.ModRevision(prefix+keyPrefix), "<", int64(at)+1).WithPrefix()}
}

// Op is one change of a transaction.
type Op struct{ op clientv3.Op }

// Put writes a key.
func Put(key string, value []byte) Op { return Op{clientv3.OpPut(prefix+key, seal(key, value))} }

// PutLeased writes a key that vanishes with the lease.
func PutLeased(key string, value []byte, lease Lease) Op {
	return Op{clientv3.OpPut(prefix+key, seal(key, value), clientv3.WithLease(clientv3.LeaseID(lease)))}
}

// PutKeepingLease writes a key that exists; the key still vanishes when it would have.
func PutKeepingLease(key string, value []byte) Op {
	return Op{clientv3.OpPut(prefix+key, seal(key, value), clientv3.WithIgnoreLease())}
}

// Delete removes a key.
func Delete(key string) Op { return Op{clientv3.OpDelete(prefix + key)} }

// DeleteAll removes all keys with the prefix.
func DeleteAll(keyPrefix string) Op {
	return Op{clientv3.OpDelete(prefix+keyPrefix, clientv3.WithPrefix())}
}

// Lease is a span of time, measured by the store, after which keys vanish.
type Lease int64

// MaxOps is how many changes and conditions one transaction can have.
const MaxOps = 100

// maxCommits is how many transactions are on their way at once: enough to share
// their syncs to the disk, far below what etcd refuses. More wait.
const maxCommits = 256

// Store is an open store.
type Store struct {
	client  *clientv3.Client
	commits chan struct{}         // a place for each transaction on its way
	writing atomic.Int64          // the bytes of the transactions on their way
	room    func(want want) error // why that cannot be written
	failed  <-chan error          // filled when the store cannot go on
	most    int                   // how many bytes a transaction can have
	shared  bool                  // several managers can have it
	member  string                // the host of this manager's part of it
	keeper  *quotaKeeper          // of the embedded store's database; nil where that is not ours to keep
	close   func()
}

// want is something to write.
type want struct {
	ending bool  // it ends something, or lets something come to its end
	own    int64 // how many bytes it has
	bytes  int64 // with all that is on its way
}

// MaxBytes is how many bytes a transaction can have, its conditions counted.
func (s *Store) MaxBytes() int { return s.most }

// Close ends the store.
func (s *Store) Close() { s.close() }

// Failed yields the reason when the store cannot go on.
func (s *Store) Failed() <-chan error { return s.failed }

// WriteRefusal returns why writes are refused, or nil.
func (s *Store) WriteRefusal() error { return s.room(want{}) }

// LargeWriteRefusal returns why writes of the largest size are refused, or nil: those are refused before small ones.
func (s *Store) LargeWriteRefusal() error {
	return s.room(want{own: int64(s.most), bytes: int64(s.most)})
}

// Get reads a key as of now; found is false where there is none.
func (s *Store) Get(ctx context.Context, key string) (item Item, found bool, err error) {
	got, err := s.client.Get(ctx, prefix+key)
	if err != nil {
		return Item{}, false, translate("read "+key, err)
	}
	if len(got.Kvs) == 0 {
		return Item{}, false, nil
	}
	item, err = unseal(got.Kvs[0])
	return item, err == nil, err
}

// listPage is how many keys one request reads.
const listPage = 2000

// List reads all keys with the prefix, in order, as of one revision.
func (s *Store) List(ctx context.Context, keyPrefix string) (items []Item, at Revision, err error) {
	from := prefix + keyPrefix
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		options := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(listPage)}
		if at != 0 {
			options = append(options, clientv3.WithRev(int64(at)))
		}
		got, err := s.client.Get(ctx, from, options...)
		if err != nil {
			return nil, 0, translate("list "+keyPrefix, err)
		}
		if at == 0 {
			at = Revision(got.Header.Revision)
		}
		for _, kv := range got.Kvs {
			if strings.HasPrefix(string(kv.Key), prefix+electionKey) {
				continue
			}
			item, err := unseal(kv)
			if err != nil {
				return nil, 0, err
			}
			items = append(items, item)
		}
		if !got.More {
			return items, at, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// Now returns the revision that includes every change acknowledged before the call.
func (s *Store) Now(ctx context.Context) (Revision, error) {
	got, err := s.client.Get(ctx, prefix, clientv3.WithCountOnly())
	if err != nil {
		return 0, translate("read revision", err)
	}
	return Revision(got.Header.Revision), nil
}

// Commit makes all changes at once if the term still runs and all conditions hold, and none otherwise. When it returns nil, the changes survive
// a power cut. A transaction that deletes something ends something: there is room for it where there is none for others.
func (s *Store) Commit(ctx context.Context, term *Term, conditions []Cond, changes []Op) (Revision, error) {
	return s.commit(ctx, term, conditions, changes, slices.ContainsFunc(changes, func(o Op) bool { return o.op.IsDelete() }))
}

// GoOn is Commit for what lets something that runs go on, so that it can end. As long as that is small, there is room for it where otherwise
// there is only for what ends something. There is not if it is large, although it deletes what it replaces.
func (s *Store) GoOn(ctx context.Context, term *Term, conditions []Cond, changes []Op) (Revision, error) {
	return s.commit(ctx, term, conditions, changes, bytesOf(changes) < largeBytes)
}

func (s *Store) commit(ctx context.Context, term *Term, conditions []Cond, changes []Op, isEnding bool) (Revision, error) {
	select {
	case s.commits <- struct{}{}:
		defer func() { <-s.commits }()
	case <-ctx.Done():
		return 0, fmt.Errorf("commit: %w", ctx.Err())
	}
	own := bytesOf(changes)
	defer s.writing.Add(-own)
	if err := s.room(want{isEnding, own, s.writing.Add(own)}); err != nil {
		return 0, err
	}
	compares := make([]clientv3.Cmp, len(conditions))
	for i, condition := range conditions {
		compares[i] = condition.compare
	}
	ops := make([]clientv3.Op, len(changes))
	for i, change := range changes {
		ops[i] = change.op
	}
	if !term.pulse.beats() {
		return 0, ErrFenced
	}
	// The fence is a transaction around the other, so that the answer tells one refusal from the other.
	done, err := s.client.Txn(ctx).If(term.fence()).Then(clientv3.OpTxn(compares, ops, nil)).Commit()
	switch {
	case err != nil:
		return 0, translate("commit", err)
	case !done.Succeeded:
		return 0, ErrFenced
	case !done.Responses[0].GetResponseTxn().Succeeded:
		return 0, ErrConflict
	}
	return Revision(done.Header.Revision), nil
}

func bytesOf(changes []Op) (bytes int64) {
	for _, change := range changes {
		bytes += int64(len(change.op.KeyBytes()) + len(change.op.ValueBytes()))
	}
	return bytes
}

// Grant makes a lease.
func (s *Store) Grant(ctx context.Context, life time.Duration) (Lease, error) {
	if err := s.room(want{ending: true}); err != nil {
		return 0, err
	}
	granted, err := s.client.Grant(ctx, int64(life.Seconds()))
	if err != nil {
		return 0, translate("grant lease", err)
	}
	return Lease(granted.ID), nil
}

// Owner returns the owner of the store; empty if it has none yet.
func (s *Store) Owner(ctx context.Context) (string, error) {
	item, _, err := s.Get(ctx, "owner")
	return string(item.Value), err
}

// Belongs makes the store belong to an owner, once, if mayClaim has nothing against it. It refuses every other owner.
func (s *Store) Belongs(ctx context.Context, owner string, mayClaim func() error) error {
	if _, claimed, err := s.Get(ctx, "owner"); err != nil {
		return err
	} else if !claimed {
		if err := mayClaim(); err != nil {
			return fmt.Errorf("claim the store: %w", err)
		}
		const key = prefix + "owner"
		claim := clientv3.OpPut(key, seal("owner", []byte(owner)))
		if _, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(claim).Commit(); err != nil {
			return translate("claim the store", err)
		}
	}
	item, found, err := s.Get(ctx, "owner")
	if err == nil && found && string(item.Value) != owner {
		err = fmt.Errorf("the store belongs to %s, not to %s", item.Value, owner)
	}
	return err
}

// translate turns etcd's errors into this package's.
func translate(what string, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%s: %w: %w", what, ErrFull, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), strings.Contains(err.Error(), "larger than max"): // so says gRPC before etcd does
		return fmt.Errorf("%s: %w: %w", what, ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%s: %w", what, ErrCompacted)
	case errors.Is(err, context.Canceled), status.Code(err) == codes.Canceled:
		return fmt.Errorf("%s: %w", what, context.Canceled)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}
