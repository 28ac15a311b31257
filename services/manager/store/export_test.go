package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
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
