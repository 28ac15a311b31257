package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// enter makes this member known to the others, and returns the members as etcd wants to be told them. If this member founds the cluster, it
// returns none.
func (c Cluster) enter(ctx context.Context, log *slog.Logger) (members string, err error) {
	if c.Found {
		return "", nil
	}
	err = c.insist(ctx, log, "join their store", func(ctx context.Context, client *clientv3.Client) error {
		members, err = c.introduce(ctx, client)
		return err
	})
	return members, err
}

// introduce adds this member as a learner. A member of its name that was there before has lost its disk, and is removed first.
func (c Cluster) introduce(ctx context.Context, client *clientv3.Client) (string, error) {
	known, err := client.MemberList(ctx)
	if err != nil {
		return "", err
	}
	at := c.url(c.Self, peerPort)
	for _, member := range known.Members {
		if !slices.Contains(member.PeerURLs, at.String()) {
			continue
		}
		if member.Name == "" { // it was added, and never started
			return c.describe(known.Members), nil
		}
		if _, err := client.MemberRemove(ctx, member.ID); err != nil {
			return "", fmt.Errorf("remove the earlier %s, whose disk is lost: %w", c.Self, err)
		}
	}
	added, err := client.MemberAddAsLearner(ctx, []string{at.String()})
	if err != nil {
		return "", err
	}
	return c.describe(added.Members), nil
}

// describe writes members as etcd wants them: name=address. A member that has not started yet has no name, and is called by its host.
func (c Cluster) describe(members []*etcdserverpb.Member) string {
	var all []string
	for _, member := range members {
		for _, peer := range member.PeerURLs {
			name := member.Name
			if at, err := url.Parse(peer); err == nil && name == "" {
				name = at.Hostname()
			}
			all = append(all, name+"="+peer)
		}
	}
	return strings.Join(all, ",")
}

// vote makes this member a voter, unless it is one. The others agree once it has learned all.
func (c Cluster) vote(ctx context.Context, own *clientv3.Client, log *slog.Logger) error {
	self, err := c.find(ctx, own)
	if err != nil || !self.IsLearner {
		return err
	}
	return c.insist(ctx, log, "vote in their store", func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.MemberPromote(ctx, self.ID)
		if errors.Is(err, rpctypes.ErrMemberNotLearner) {
			return nil
		}
		return err
	})
}

// find returns what this member's own disk says of it: a learner cannot ask the others through itself.
func (c Cluster) find(ctx context.Context, own *clientv3.Client) (*etcdserverpb.Member, error) {
	known, err := own.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, err
	}
	at := c.url(c.Self, peerPort)
	for _, member := range known.Members {
		if slices.Contains(member.PeerURLs, at.String()) {
			return member, nil
		}
	}
	return nil, fmt.Errorf("this manager's store knows no %s: was it renamed?", c.Self)
}
