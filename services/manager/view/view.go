// Package view is the state that every manager keeps in memory: groups, members,
// agents, identities, deliveries and replications as of a revision of the store, and their latest changes
// for those who watch. It is read from the store and follows it; nothing is
// written here.
package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/services/manager/store"
)

// View is the state as of a revision.
type View struct {
	store *store.Store
	log   *slog.Logger

	mu         sync.RWMutex
	revision   store.Revision
	advanced   chan struct{} // closed when the revision grows
	fresh      time.Time     // everything that was acknowledged before is shown
	groups     map[string]*group
	groupLog   changeLog[*groupv1.GroupChange]
	agents     map[string]Agent
	identities map[identity.ID]Identity
	revoked    changeLog[*groupv1.Revocation]
	granted    changeLog[*groupv1.Grant]
	members    int
	deliveries map[string]*delivery
	strays     map[string]bool // deliveries of whose trees only steps are left
	running    map[string]int  // how many deliveries run, by group

	managers     map[string]Manager
	gatherers    map[string]Gatherer
	replicators  map[string]Replicator
	replications map[string]Replication

	agentsChanged chan struct{} // closed when an agent comes, changes or goes

	// stale says that changes were missed. The state stays as it was until it is
	// read anew: it is better than none. Only Run's goroutine touches this.
	stale bool
}

// group is a group with its members and what changed among them.
type group struct {
	record  Group
	members map[string]Member
	ended   map[string]ended
	log     changeLog[*groupv1.MemberChange]
	changed chan struct{} // closed when the log grows
}

// ended says how an incarnation of a member ended.
type ended struct {
	incarnation uint64
	state       groupv1.MemberState
}

// Group is a group as stored. Its messages are shared: they must not be changed.
type Group struct {
	*groupv1.Group
	Changed      store.Revision
	EpochChanged store.Revision // when the epoch last grew
}

// Member is a member as stored. Its message is shared: it must not be changed.
type Member struct {
	*groupv1.Member
	Changed store.Revision
}

// Agent is an agent as stored. Its message is shared: it must not be changed.
type Agent struct {
	*agentv1.Agent
	Changed store.Revision
}

// New returns a view of nothing yet: Run fills it.
func New(from *store.Store, log *slog.Logger) *View {
	v := &View{store: from, log: log, advanced: make(chan struct{}), agentsChanged: make(chan struct{})}
	v.reset(0)
	return v
}

func (v *View) reset(at store.Revision) {
	v.revision = at
	for _, g := range v.groups {
		close(g.changed) // its watchers find it gone, and are told to list again
	}
	v.groups = make(map[string]*group)
	v.groupLog = changeLog[*groupv1.GroupChange]{base: at}
	v.agents = make(map[string]Agent)
	v.identities = make(map[identity.ID]Identity)
	v.revoked = changeLog[*groupv1.Revocation]{base: at}
	v.granted = changeLog[*groupv1.Grant]{base: at}
	v.members = 0
	v.deliveries = make(map[string]*delivery)
	v.strays = make(map[string]bool)
	v.running = make(map[string]int)
	v.managers = make(map[string]Manager)
	v.gatherers = make(map[string]Gatherer)
	v.replicators = make(map[string]Replicator)
	v.replications = make(map[string]Replication)
	v.announceAgents()
}

// rereadPause is how long Run waits before it reads a store again that did not answer.
const rereadPause = 200 * time.Millisecond

// Run follows the store until ctx is done. It calls loaded when the view first
// holds the state. It gives up only on a damaged store.
func (v *View) Run(ctx context.Context, loaded func()) error {
	loaded = sync.OnceFunc(loaded)
	keeping, end := context.WithCancel(ctx)
	var kept sync.WaitGroup
	defer kept.Wait()
	defer end()
	kept.Go(func() { v.keepFresh(keeping) })
	for ctx.Err() == nil {
		err := v.follow(ctx, loaded)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrDamaged):
			return fmt.Errorf("read the store: %w", err)
		case errors.Is(err, store.ErrCompacted):
			v.log.Info("the store's history moved on; reading its state anew")
			continue
		}
		v.log.Warn("the store does not answer; trying again", "error", err)
		pause.For(ctx, rereadPause)
	}
	return nil
}

// follow reads the whole state, unless the view already holds an earlier one
// from which it can go on, and then every change.
func (v *View) follow(ctx context.Context, loaded func()) error {
	after := v.Revision()
	if after == 0 || v.stale {
		var err error
		if after, err = v.load(ctx); err != nil {
			return err
		}
	}
	loaded()
	err := v.store.Watch(ctx, after, v.apply)
	v.stale = v.stale || errors.Is(err, store.ErrCompacted)
	return err
}

func (v *View) load(ctx context.Context) (store.Revision, error) {
	items, at, err := v.store.List(ctx, "")
	if err != nil {
		return 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reset(at)
	for _, item := range items {
		if err := v.put(item); err != nil {
			return 0, err
		}
	}
	// What was just read is state, not change.
	v.groupLog = changeLog[*groupv1.GroupChange]{base: at}
	v.revoked = changeLog[*groupv1.Revocation]{base: at}
	v.granted = changeLog[*groupv1.Grant]{base: at}
	for _, g := range v.groups {
		g.log = changeLog[*groupv1.MemberChange]{base: at}
	}
	v.announce()
	v.stale = false
	return at, nil
}

// apply takes one batch of changes.
func (v *View) apply(batch store.Batch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, event := range batch.Events {
		var err error
		if event.Deleted {
			v.delete(event.Key, event.Changed)
		} else {
			err = v.put(event.Item)
		}
		if err != nil {
			v.log.Error("a change cannot be read; this view lacks it", "key", event.Key, "error", err)
		}
	}
	v.revision = batch.Revision
	v.announce()
}

func (v *View) announce() {
	close(v.advanced)
	v.advanced = make(chan struct{})
}

// Revision returns the revision that the view shows; zero while it shows nothing.
func (v *View) Revision() store.Revision {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.revision
}

// Await returns when the view shows the revision.
func (v *View) Await(ctx context.Context, revision store.Revision) error {
	return v.store.Await(ctx,
		func() <-chan struct{} {
			v.mu.RLock()
			defer v.mu.RUnlock()
			return v.advanced
		},
		func() bool { return v.Revision() >= revision })
}

// Sync returns when the view shows everything that was acknowledged before the
// call, by whichever manager: what is read then is linearizable.
func (v *View) Sync(ctx context.Context) error {
	began := time.Now()
	now, err := v.store.Now(ctx)
	if err != nil {
		return err
	}
	if err := v.Await(ctx, now); err != nil {
		return err
	}
	v.noteFresh(began)
	return nil
}
