package store

import (
	"context"
	"encoding/json"
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Shared reports whether several managers can have this store.
func (s *Store) Shared() bool { return s.shared }

// Member returns this manager's host in the managers' own store; empty if it has no part in one.
func (s *Store) Member() string { return s.member }

// Standing is a manager that stands for election, or leads. It stands as long as it runs and reaches the store.
type Standing struct {
	Candidate
	key     string
	created int64
}

// Stands holds while the manager stands.
func (s Standing) Stands() Cond {
	return Cond{clientv3.Compare(clientv3.CreateRevision(s.key), "=", s.created)}
}

// Standing returns the managers that stand, the leader first.
func (s *Store) Standing(ctx context.Context) ([]Standing, error) {
	got, err := s.client.Get(ctx, prefix+electionKey, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, translate("look who stands for election", err)
	}
	var all []Standing
	for _, kv := range got.Kvs {
		one := Standing{key: string(kv.Key), created: kv.CreateRevision}
		if json.Unmarshal(kv.Value, &one.Candidate) == nil {
			all = append(all, one)
		}
	}
	return all, nil
}

// Members returns the hosts of all managers that have a part of the managers' own store, whether they run or not.
func (s *Store) Members(ctx context.Context) (hosts []string, err error) {
	got, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, translate("look who has a part of the store", err)
	}
	for _, member := range got.Members {
		for _, peer := range member.PeerURLs {
			if at, err := url.Parse(peer); err == nil {
				hosts = append(hosts, at.Hostname())
			}
		}
	}
	return hosts, nil
}

// Withdraw is for a manager that stops: it no longer stands, and the key that tells of it goes. That needs no term: the leader writes that key
// only while the manager stands, or as it was before.
func (s *Store) Withdraw(ctx context.Context, self Candidate, key string) error {
	if _, err := s.EndEarlierTerms(ctx, self); err != nil {
		return err
	}
	if _, err := s.client.Delete(ctx, prefix+key); err != nil {
		return translate("withdraw", err)
	}
	return nil
}
