package group

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// The store knows which of several managers are here: each stands for election as long as it runs, under a lease of seconds. The leader writes
// down which managers there are, and since when one is missed, whenever that changes and at no other time.

const (
	// managersInterval is how often the leader looks which managers are here.
	managersInterval = 2 * time.Second
	// forgetManagers is how long a manager that has no part of the store is missed.
	forgetManagers = 24 * time.Hour
	// standsOn is for how long a manager that has died still stands.
	standsOn = 5 * time.Second
)

// sight is when a manager was first seen, if this leader saw it come, and when it was last seen.
type sight struct{ came, last time.Time }

// loadManagers has all managers that were here missed if they are not heard.
func (r *Registry) loadManagers(now time.Time) {
	for _, manager := range r.view.Managers() {
		if !manager.IsAway() {
			r.managers.Heard(manager.Name(), now)
			r.sights[manager.Name()] = sight{last: now}
		}
	}
}

// sweepManagers notes which managers have come, which are missed, and which are no longer missed.
func (r *Registry) sweepManagers(ctx context.Context) {
	if !r.store.Shared() {
		return // nobody could miss the only manager
	}
	standing, err := r.store.Standing(ctx)
	if err != nil {
		return // nothing is known; the view says what is wrong with the store
	}
	now, seen := time.Now(), make(map[string]bool)
	r.sweepMissed(ctx, now) // first of all: then nobody can take the places of those that are forgotten
	for _, one := range standing {
		if seen[one.Name] {
			continue // two managers have the same name, which they say themselves
		}
		seen[one.Name] = true
		r.managers.Heard(one.Name, now)
		r.sights[one.Name] = sight{r.sights[one.Name].came, now}
		r.noteManager(ctx, one, now)
	}
	for _, name := range r.managers.Silent(now) {
		if r.missManager(ctx, name) {
			delete(r.sights, name)
		} else {
			r.managers.Heard(name, now) // next time
		}
	}
}

// noteManager writes down that a manager is here, unless that is known.
func (r *Registry) noteManager(ctx context.Context, standing store.Standing, now time.Time) {
	known, found := r.view.Manager(standing.Name)
	key := view.ManagerKey(standing.Name)
	conditions := []store.Cond{store.Unchanged(key, known.Changed), standing.Stands()}
	record := recordOf(standing)
	switch {
	case record == nil:
		if found {
			r.writeManagers(ctx, conditions, []store.Op{store.Delete(key)})
		}
		return
	case found && proto.Equal(record, known.ManagerRecord):
		return
	}
	put, err := putManager(record)
	if err != nil {
		r.log.Error("a manager cannot be written down", "manager", standing.Name, "error", err)
		return
	}
	changes := []store.Op{put}
	replaced, instead := replacedBy(record, r.view.Managers())
	if instead = instead && !found; instead {
		at := view.ManagerKey(replaced.Name())
		conditions = append(conditions, store.Unchanged(at, replaced.Changed))
		changes = append(changes, store.Delete(at))
	}
	switch written := r.writeManagers(ctx, conditions, changes); {
	case !written:
	case instead:
		r.log.Info("a manager came for one that was missed", "manager", standing.Name, "missed", replaced.Name())
	case found && known.IsAway():
		r.log.Info("a manager is back", "manager", standing.Name)
	case !found && record.GetStoreMember() == "":
		r.sights[standing.Name] = sight{now, now}
	}
}

// recordOf returns what is written of a manager that stands; nil for one of an earlier release, which would not say when it stops.
func recordOf(standing store.Standing) *managerv1.ManagerRecord {
	if standing.Version == "" {
		return nil
	}
	return &managerv1.ManagerRecord{
		Manager: &groupv1.Manager{
			Name: standing.Name, Address: standing.Address, Version: standing.Version, StartTime: timestamppb.New(time.Unix(standing.Started, 0)),
		},
		StoreMember: standing.Member,
	}
}

// replacedBy returns the manager whose place a manager of a new name takes: of those that are missed and have no part of the store, the one
// that has been missed the longest. So it is with a pod for which another was made, and with a machine that was lost.
func replacedBy(newcomer *managerv1.ManagerRecord, all []view.Manager) (longest view.Manager, found bool) {
	for _, one := range all {
		if !one.IsAway() || one.GetStoreMember() != "" || newcomer.GetStoreMember() != "" {
			continue
		}
		if !found || one.GetManager().GetAwayTime().AsTime().Before(longest.GetManager().GetAwayTime().AsTime()) {
			longest, found = one, true
		}
	}
	return longest, found
}

// missManager writes down that a manager is missed, and reports whether nothing is left to do.
func (r *Registry) missManager(ctx context.Context, name string) (done bool) {
	known, found := r.view.Manager(name)
	if !found || known.IsAway() {
		return true // it stopped in order
	}
	key := view.ManagerKey(name)
	asKnown := []store.Cond{store.Unchanged(key, known.Changed)}
	if newcomer, came := r.cameFor(name); came && known.GetStoreMember() == "" {
		if r.writeManagers(ctx, asKnown, []store.Op{store.Delete(key)}) {
			r.sights[newcomer] = sight{last: r.sights[newcomer].last} // it takes only one place
			r.log.Info("a manager came for one that is silent", "manager", newcomer, "missed", name)
			return true
		}
	}
	record := proto.CloneOf(known.ManagerRecord)
	record.Manager.AwayTime = timestamppb.New(r.sights[name].last)
	put, err := putManager(record)
	if err != nil || !r.writeManagers(ctx, asKnown, []store.Op{put}) {
		return false
	}
	r.log.Warn("a manager is silent and counts as offline", "manager", name, "address", record.GetManager().GetAddress())
	return true
}

// cameFor returns a manager that came after a silent one may have died: a pod is often there again before it is known that the one before has
// died.
func (r *Registry) cameFor(silent string) (newcomer string, found bool) {
	before := r.sights[silent]
	for name, seen := range r.sights {
		may := seen.came.After(before.came) && seen.came.After(before.last.Add(-standsOn))
		if may && (!found || seen.came.Before(r.sights[newcomer].came)) {
			newcomer, found = name, true
		}
	}
	return newcomer, found
}

// sweepMissed forgets the managers that are missed and no longer expected.
func (r *Registry) sweepMissed(ctx context.Context, now time.Time) {
	var members []string
	for _, one := range r.view.Managers() {
		if !one.IsAway() {
			continue
		}
		if one.GetStoreMember() != "" && members == nil {
			var err error
			if members, err = r.store.Members(ctx); err != nil {
				return
			}
		}
		if isExpected(one, members, now) {
			continue
		}
		key := view.ManagerKey(one.Name())
		if r.writeManagers(ctx, []store.Cond{store.Unchanged(key, one.Changed)}, []store.Op{store.Delete(key)}) {
			r.log.Info("a manager that was missed is forgotten", "manager", one.Name())
		}
	}
}

// isExpected reports whether a manager that is missed may come back. One that has a part of the store may as long as it has that part, for the
// store does not do without it; any other for a day.
func isExpected(missed view.Manager, members []string, now time.Time) bool {
	if host := missed.GetStoreMember(); host != "" {
		return slices.Contains(members, host)
	}
	return now.Sub(missed.GetManager().GetAwayTime().AsTime()) < forgetManagers
}

// writeManagers commits what was decided. If something has changed meanwhile, it is decided anew next time, and likewise where the store has no
// room, which the status says.
func (r *Registry) writeManagers(ctx context.Context, conditions []store.Cond, changes []store.Op) (written bool) {
	at, err := r.store.Commit(ctx, r.term, conditions, changes)
	switch {
	case err == nil:
		return r.view.Await(ctx, at) == nil
	case !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrFenced) && !errors.Is(err, store.ErrFull) && ctx.Err() == nil:
		r.log.Warn("which managers are here could not be written; trying again", "error", err)
	}
	return false
}

func putManager(record *managerv1.ManagerRecord) (store.Op, error) {
	encoded, err := proto.Marshal(record)
	if err != nil {
		return store.Op{}, err
	}
	return store.Put(view.ManagerKey(record.GetManager().GetName()), encoded), nil
}
