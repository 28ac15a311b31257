package store

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// CompactForTest forgets all history before now.
func (s *Store) CompactForTest(ctx context.Context) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	_, err = s.client.Compact(ctx, int64(now), clientv3.WithCompactPhysical())
	return err
}

// PutForeignForTest writes a key that is not Groupcast's.
func (s *Store) PutForeignForTest(ctx context.Context) (Revision, error) {
	put, err := s.client.Put(ctx, "/somebody-else", "")
	if err != nil {
		return 0, err
	}
	return Revision(put.Header.Revision), nil
}

// OpenSmallForTest opens an embedded store with a small quota, and returns a function that has it tidied at once.
func OpenSmallForTest(t *testing.T, dir string, bytes int64) (s *Store, tidy func()) {
	t.Helper()
	defer SetQuotaForTest(bytes)()
	s, err := OpenEmbedded(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, s.keeper.tidy
}

// SetQuotaForTest has stores that are opened from now on hold so much.
func SetQuotaForTest(bytes int64) (restore func()) {
	before := quota
	quota = bytes
	return func() { quota = before }
}

// CutForTest cuts this member of a clustered store off from another, until mend is called.
func (s *Store) CutForTest(other uint64) (mend func()) {
	server := s.keeper.of.(*etcdserver.EtcdServer)
	server.CutPeer(types.ID(other))
	return func() { server.MendPeer(types.ID(other)) }
}

// PutForTest writes a key, without a term.
func (s *Store) PutForTest(ctx context.Context, key, value string) error {
	_, err := s.client.Put(ctx, prefix+key, seal(key, []byte(value)))
	return err
}

// MembersForTest returns the members of a clustered store, by their addresses.
func (s *Store) MembersForTest(ctx context.Context) (map[string]uint64, error) {
	known, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	members := make(map[string]uint64)
	for _, member := range known.Members {
		members[member.PeerURLs[0]] = member.ID
	}
	return members, nil
}

// StopForTest makes it seem to a term that this process was stopped for so long.
func (t *Term) StopForTest(span time.Duration) {
	t.pulse.mu.Lock()
	defer t.pulse.mu.Unlock()
	t.pulse.last = t.pulse.last.Add(-span)
}
