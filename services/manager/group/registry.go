// Package group holds the rules of groups and sessions, as the leading manager
// applies them: who may join, how a new incarnation fences the old, when a silent
// member expires, and that a repeated request has one effect.
//
// A Registry lives as long as a term. It reads the view and writes the store;
// the store refuses it when the term is over, so a leader that was paused and
// does not know yet that it was replaced can do no harm.
package group

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/groupcast/groupcast/internal/algo/liveness"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// How sessions and agents are kept alive.
const (
	HeartbeatInterval = 2 * time.Second
	Expiry            = 10 * time.Second
)

const (
	// sweepInterval is how often the silent are looked for.
	sweepInterval = 250 * time.Millisecond
	// lateSweep: a longer gap than this between two looks means that this manager itself stood still, and what it
	// has not heard meanwhile is not counted against others.
	lateSweep = 4 * sweepInterval
	// missedAfter is the silence after which something is wrong: two heartbeats did not come.
	missedAfter = 2*HeartbeatInterval + HeartbeatInterval/2
	// epochInterval is how often a group's epoch grows at most.
	epochInterval = time.Second
	// accountInterval is how often the registry looks whether members have the groups of their ServiceAccounts. What there is to do is done at
	// the beginning of a term, unless it fails.
	accountInterval = time.Second
	// movedFor is how long it may take until the view shows what a token has changed of a member, if that was written though it failed.
	movedFor = time.Minute
	// forgetHeard is how long it is known when a member was last heard: longer than any delivery asks for that.
	forgetHeard = time.Hour
	// forgetAgents is how long an agent, or a gatherer, that is offline stays listed.
	forgetAgents = time.Hour
)

// Session tells one session of one member from all others.
type Session struct {
	Group, Member string
	Incarnation   uint64
}

// seat is a member's place in a group, whichever session has it.
type seat struct{ group, member string }

func sessionOf(member *groupv1.Member) Session {
	return Session{member.GetGroup(), member.GetName(), member.GetIncarnation()}
}

// Registry is the state and the rules of the manager that leads.
type Registry struct {
	store  *store.Store
	ledger *ledger.Ledger
	view   *view.View
	term   *store.Term
	log    *slog.Logger

	accounts Accounts

	mu           sync.Mutex
	sessions     *liveness.Table[Session]
	agents       *liveness.Table[string]
	replicators  *liveness.Table[string] // only whether most of them are missed is asked of it
	isolation    liveness.Isolation
	deaf         bool                    // this manager is cut off from most of them, as far as it can tell
	deafAt       time.Time               // when it was last
	offline      *liveness.Table[string] // agents, by when they went offline
	managers     *liveness.Table[string] // this and the next belong to sweepManagers
	sights       map[string]sight        // of managers, by name
	gatherers    map[string]heard
	led          time.Time                 // since when
	flaps        map[seat]*rate.Limiter    // joins of one session, and registrations of one relay, which is of no group here
	joins        map[string]*rate.Limiter  // what the joins of one member write, in bytes
	moved        map[identity.ID]time.Time // members whose sessions in other groups are yet to be ended, and since when
	joining      map[seat]*joining         // joins on their way
	turns        uint64                    // how many have had a number
	heard        map[seat]time.Time        // when each member last joined or was heard, also where its session has ended since
	changed      map[string]bool           // groups whose epoch is to grow
	enrollFailed *rate.Limiter             // refused join tokens
	podsFailed   *rate.Limiter             // refused pods of which the log tells
}

// Lead returns the registry of a term. All members get the time of one expiry to
// be heard: the manager cannot know how long they have been silent.
func Lead(by *ledger.Ledger, from *store.Store, shown *view.View, accounts Accounts, log *slog.Logger) *Registry {
	term, now := by.Term(), time.Now()
	r := &Registry{
		store: from, ledger: by, view: shown, term: term, log: log.With("term", term.Number),
		accounts:    accounts,
		sessions:    liveness.NewTable[Session](Expiry).AskedWithin(lateSweep, now),
		agents:      liveness.NewTable[string](Expiry).AskedWithin(lateSweep, now),
		replicators: liveness.NewTable[string](Expiry).AskedWithin(lateSweep, now),
		offline:     liveness.NewTable[string](forgetAgents),
		managers:    liveness.NewTable[string](Expiry).AskedWithin(2*managersInterval, now),
		sights:      make(map[string]sight),
		gatherers:   make(map[string]heard),
		led:         now,
		flaps:       make(map[seat]*rate.Limiter),
		moved:       make(map[identity.ID]time.Time),
		joins:       make(map[string]*rate.Limiter),
		joining:     make(map[seat]*joining),
		heard:       make(map[seat]time.Time),
		changed:     make(map[string]bool),
		// Guessing 256 bits is hopeless; the limits keep the log readable.
		enrollFailed: rate.NewLimiter(10, 50),
		podsFailed:   rate.NewLimiter(10, 50),
	}
	shown.All(func(member view.Member) {
		r.sessions.Presume(sessionOf(member.Member), now)
		r.changed[member.GetGroup()] = true // an earlier leader may have owed it
	})
	r.loadAgents(now)
	r.loadManagers(now)
	return r
}

// Run does what is due by time, until ctx is done or the term is over.
func (r *Registry) Run(ctx context.Context) error {
	if err := r.ledger.Renew(ctx); err != nil {
		r.log.Warn("no lease for what is to be remembered; trying again", "error", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, duty := range []struct {
		every time.Duration
		do    func(context.Context)
	}{
		{sweepInterval, r.stayAwake},
		{sweepInterval, r.expireSessions},
		{sweepInterval, r.sweepAgents},
		{epochInterval, r.growEpochs},
		{ledger.RenewalInterval, r.remember},
		{time.Minute, r.forgetFlaps},
		{time.Minute, r.forgetSilent},
		{time.Minute, r.sweepGatherers},
		{managersInterval, r.sweepManagers},
		{accountInterval, r.settleAccounts},
		{accountInterval, r.settleMoved},
	} {
		group.Go(func() error { return r.every(ctx, duty.every, duty.do) })
	}
	return group.Wait()
}

func (r *Registry) every(ctx context.Context, interval time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.term.Ended():
			return ledger.ErrNotLeading
		case <-ticker.C:
			do(ctx)
		}
	}
}

// stayAwake tells the tables that this manager is running and would hear whoever speaks. The sweeps cannot do that: they block
// while the store is slow, and heartbeats come in all the same. Where most fall silent at once, it is this manager that hears nobody.
func (r *Registry) stayAwake(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	missed, doubted, all := r.missed(now)
	deaf := r.isolation.Step(missed, doubted, all, now)
	r.sessions.Deaf(deaf, now)
	r.agents.Deaf(deaf, now)
	r.replicators.Deaf(deaf, now)
	r.replicators.Silent(now) // those are gone, and missed no more
	switch {
	case deaf && !r.deaf:
		r.log.Warn("most members, agents and replicators fell silent at once: this manager counts as cut off, and nobody as gone, for two minutes at most: see its network",
			"silent", missed+doubted, "of", all)
	case !deaf && r.deaf:
		r.log.Info("silence counts again", "silent", missed+doubted, "of", all)
	}
	if r.deaf = deaf; deaf {
		r.deafAt = now
	}
}

// missed returns how many of all members, agents and replicators are silent: those that are missed, and those whose streams have ended.
// The caller has the lock.
func (r *Registry) missed(now time.Time) (missed, doubted, all int) {
	for _, peers := range []interface {
		Missed(after time.Duration, now time.Time) (missed, doubted int)
		Len() int
	}{r.sessions, r.agents, r.replicators} {
		m, d := peers.Missed(missedAfter, now)
		missed, doubted, all = missed+m, doubted+d, all+peers.Len()
	}
	return missed, doubted, all
}

// IsCutOff reports whether this manager hears so few of those that it heard that rather it is cut off than they are gone.
func (r *Registry) IsCutOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deaf
}

// LastCutOff returns when this manager was last found cut off; zero if it never was in this term.
func (r *Registry) LastCutOff() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deafAt
}

// LastHeard returns when a member of a group last joined or was heard, also where its session has expired since. Of one that this manager has
// not heard, all it knows is that it was not in this term.
func (r *Registry) LastHeard(group, member string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, known := r.heard[seat{group, member}]; known {
		return at
	}
	return r.led
}

// forgetSilent forgets when members were last heard that have been silent for long: there may be ever new ones.
func (r *Registry) forgetSilent(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.heard, func(_ seat, at time.Time) bool { return now.Sub(at) >= forgetHeard })
}

// Term returns the number of the term.
func (r *Registry) Term() uint64 { return r.term.Number }

func (r *Registry) remember(ctx context.Context) {
	if err := r.ledger.Renew(ctx); err != nil {
		r.log.Warn("no fresh lease for what is to be remembered; using the old one", "error", err)
	}
}

// growEpochs lets the epoch grow of each group whose members came or went.
func (r *Registry) growEpochs(ctx context.Context) {
	r.mu.Lock()
	due := r.changed
	r.changed = make(map[string]bool)
	r.mu.Unlock()
	for name := range due {
		record, message, found := r.view.Group(name)
		if !found {
			continue
		}
		_, err := r.store.Commit(ctx, r.term,
			[]store.Cond{store.Unchanged(view.GroupKey(name), record.Changed), store.Unchanged(view.EpochKey(name), record.EpochChanged)},
			[]store.Op{store.Put(view.EpochKey(name), view.EncodeEpoch(message.GetEpoch()+1))})
		if err != nil {
			r.noteChange(name) // next time
		}
	}
}

// noteChange has the group's epoch grow soon.
func (r *Registry) noteChange(group string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[group] = true
}
