package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// leadership knows whether this manager leads, and which one does otherwise.
type leadership struct {
	self     store.Candidate
	store    *store.Store
	view     *view.View
	security *tls.Config     // for dialling other managers
	signer   identity.Source // of capabilities
	metrics  *delivery.Metrics
	surveyed *survey.Metrics
	// replicated are the metrics of replications; places is where replications meet.
	replicated *replication.Metrics
	places     replication.Places
	network    daemon.Network // to other managers
	accounts   group.Accounts
	log        *slog.Logger

	mu       sync.RWMutex
	registry *group.Registry
	desk     *delivery.Desk
	replicas *replication.Desk
	leader   store.Leader
	links    []*grpc.ClientConn // to the leader, unless it is this manager
	linked   string             // the address that they go to
	next     atomic.Uint64
}

// leaderLinks is over how many connections a follower spreads what it passes on: each carries only so many streams.
const leaderLinks = 16

// leaderLink has a follower notice within 15 s that its way to the leader swallows what it passes on, so that its callers ask others, and find
// the way again soon after it is open. A server takes pings that come this often.
var leaderLink = []grpc.DialOption{
	grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
	grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: 3 * time.Second},
		MinConnectTimeout: 3 * time.Second,
	}),
}

// Registry returns the rules to write by; nil unless this manager leads.
func (l *leadership) Registry() *group.Registry {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.registry
}

// Desk returns the rules of deliveries; nil unless this manager leads.
func (l *leadership) Desk() *delivery.Desk {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.desk
}

// Replications returns the rules of replications; nil unless this manager leads.
func (l *leadership) Replications() *replication.Desk {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.replicas
}

// Connection returns a connection to the manager that leads; nil while none other does.
func (l *leadership) Connection() *grpc.ClientConn {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.links) == 0 {
		return nil
	}
	return l.links[l.next.Add(1)%uint64(len(l.links))]
}

// Leader returns the manager that leads; nobody if that is not known.
func (l *leadership) Leader() store.Leader {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.leader.Name == l.self.Name && l.registry == nil { // it was elected and is not ready, or has lost the others
		return store.Leader{}
	}
	return l.leader
}

// goodbyeTimeout is how long a manager that stops waits until that is known.
const goodbyeTimeout = 2 * time.Second

// goodbye has nobody miss this manager, unless it takes a part of the store away with it.
func (l *leadership) goodbye(ctx context.Context) {
	if !l.store.Shared() || l.store.Member() != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTimeout)
	defer cancel()
	if err := l.store.Withdraw(ctx, l.self, view.ManagerKey(l.self.Name)); err != nil {
		l.log.Info("the others are not told that this manager stops, and will miss it", "error", err)
	}
}

// retryPause is the pause before trying again what the store did not answer.
const retryPause = 200 * time.Millisecond

// Run campaigns and follows campaigns until ctx is done.
func (l *leadership) Run(ctx context.Context) error {
	defer l.follow(store.Leader{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return l.insist(ctx, "campaign", l.campaign)
	})
	group.Go(func() error {
		return l.insist(ctx, "look for the leader", func(ctx context.Context) error {
			defer l.forget()
			return l.store.Leaders(ctx, l.follow)
		})
	})
	return group.Wait()
}

// insist does a thing again and again until ctx is done.
func (l *leadership) insist(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, ledger.ErrNotLeading) {
			l.log.Warn("trying again", "what", what, "error", err)
		}
		if !pause.For(ctx, retryPause) {
			return nil
		}
	}
}

// campaign waits to lead, and leads for one term.
func (l *leadership) campaign(ctx context.Context) error {
	term, err := l.store.Campaign(ctx, l.self)
	if err != nil {
		return cmp.Or(l.namesake(ctx), err)
	}
	defer term.Resign()
	// The view must show all that earlier terms wrote before this one decides anything.
	if err := l.view.Sync(ctx); err != nil {
		return err
	}
	by := ledger.Open(term, l.store, l.view)
	registry := group.Lead(by, l.store, l.view, l.accounts, l.log)
	desk := delivery.Lead(by, l.store, l.view, l.signer, survey.Lead(l.view, l.surveyed), registry, l.metrics, l.log)
	replicas := replication.Lead(by, l.store, l.view, registry, registry, l.places, l.replicated, l.log)
	l.lead(registry, desk, replicas)
	defer l.lead(nil, nil, nil)
	l.log.Info("this manager leads", "term", term.Number)
	working, ctx := errgroup.WithContext(ctx)
	working.Go(func() error { return registry.Run(ctx) })
	working.Go(func() error { return desk.Run(ctx) })
	working.Go(func() error { return replicas.Run(ctx) })
	err = working.Wait()
	l.log.Info("this manager no longer leads", "term", term.Number)
	return err
}

// replaceEarlier ends what an earlier process of this manager's name still holds, and says so if that was at another address: it may run still.
func (l *leadership) replaceEarlier(ctx context.Context) error {
	replaced, err := l.store.EndEarlierTerms(ctx, l.self)
	for _, one := range replaced {
		l.log.Warn("this manager takes the place of one of its name elsewhere: if that runs still, give each its own (--name)", "name", one.Name, "address", one.Address)
	}
	return err
}

// namesakeLooks is how often it is looked whether another manager stands under this one's name: it ends what this one held a moment before.
const namesakeLooks = 4

// namesake returns an error that says so if another manager stands for election under this one's name, and has ended what this one held.
func (l *leadership) namesake(ctx context.Context) error {
	for range namesakeLooks {
		standing, err := l.store.Standing(ctx)
		if err != nil {
			return nil
		}
		for _, one := range standing {
			if one.Name == l.self.Name && one.Address != l.self.Address {
				return fmt.Errorf("another manager, at %s, has the name %s, too, and takes this one's place: give each its own (--name)", one.Address, one.Name)
			}
		}
		if !pause.For(ctx, retryPause) {
			break
		}
	}
	return nil
}

func (l *leadership) lead(registry *group.Registry, desk *delivery.Desk, replicas *replication.Desk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registry, l.desk, l.replicas = registry, desk, replicas
}

// forget notes that it is not known who leads, since the store does not say. The connections stay: that is often so only for a moment, and the
// leader may still be there.
func (l *leadership) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leader = store.Leader{}
}

// follow notes which manager leads, and keeps connections to it.
func (l *leadership) follow(leader store.Leader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader.Address != l.linked {
		for _, link := range l.links {
			link.Close()
		}
		l.links, l.linked = nil, leader.Address
	}
	if leader != l.leader && leader.Name == l.self.Name && leader.Address != l.self.Address {
		l.log.Warn("another manager has this one's name: give each its own (--name)", "name", leader.Name, "address", leader.Address)
	}
	l.leader = leader
	if leader.Address == "" || leader.Name == l.self.Name {
		return
	}
	for len(l.links) < leaderLinks {
		over := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(l.security)), uplink.Over(l.network)}
		link, err := grpc.NewClient("passthrough:///"+leader.Address, append(over, leaderLink...)...)
		if err != nil {
			l.log.Error("the leader's address cannot be used", "address", leader.Address, "error", err)
			return
		}
		l.links = append(l.links, link) // it connects when it is first used
	}
}
