package replication

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/view"
)

// eventful are groups beside whose making something happens.
type eventful struct {
	Groups
	before, after func()
}

func (e eventful) CreateGroup(ctx context.Context, caller identity.ID, asked *groupv1.CreateGroupRequest) (*groupv1.CreateGroupResponse, error) {
	e.before()
	defer e.after()
	return e.Groups.CreateGroup(ctx, caller, asked)
}

// A group in which session agents carry a replication is gone when the replication has ended, or is forgotten, in whatever moment that
// is. Groups that are not of replications stay.
func TestGroupsGoWithTheirReplications(t *testing.T) {
	for what, tt := range map[string]struct {
		before, after func(t *testing.T, d *Desk)
		runs          bool // whether it still does
	}{
		"it goes on":                              {runs: true},
		"it ends before its group is made":        {before: cancels},
		"it ends before its group is noted":       {after: cancels},
		"the leader is killed before it is noted": {after: changes, runs: true},
		"that, and it ends under the next leader": {after: func(t *testing.T, d *Desk) { changes(t, d); cancels(t, d) }},
		"it is not in a store that was restored": {after: func(t *testing.T, d *Desk) {
			r, _ := d.view.Replication(someID)
			d.remove(t.Context(), view.ReplicationKey(someID), r.Changed)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			d, r := unreached(t)
			registry := d.groups
			for _, name := range []string{"replication-plans", "other", "s"} {
				if _, err := registry.CreateGroup(t.Context(), identity.ID{}, &groupv1.CreateGroupRequest{Name: name}); err != nil {
					t.Fatal(err)
				}
			}
			then := func(do func(*testing.T, *Desk)) func() {
				return func() {
					if do != nil {
						do(t, d)
					}
				}
			}
			d.groups = eventful{registry, then(tt.before), then(tt.after)}
			if err := d.writeVerdict(t.Context(), r, time.Now()); err != nil {
				t.Fatal(err)
			}
			if got := groupNames(d); !slices.Contains(got, GroupPrefix+someID) {
				t.Fatalf("there are the groups %v, and none of the replication", got)
			}
			d.forget(t.Context())
			want := []string{"other", "replication-plans", "s"}
			if tt.runs {
				want = []string{"other", GroupPrefix + someID, "replication-plans", "s"}
			}
			if got := groupNames(d); !slices.Equal(got, want) {
				t.Errorf("there are the groups %v, want %v", got, want)
			}
			cancels(t, d)
			if d.forget(t.Context()); len(groupNames(d)) != 3 {
				t.Errorf("canceled and forgotten, there are the groups %v", groupNames(d))
			}
		})
	}
}

// unreached is leading with an agent, and a replication of which a hears nothing.
func unreached(t *testing.T) (*Desk, view.Replication) {
	t.Helper()
	d, r := leading(t)
	d.metrics = NewMetrics(prometheus.NewRegistry())
	d.groups = group.Lead(d.ledger, d.store, d.view, nil, d.log)
	d.put(t, view.AgentKey("agent"), &agentv1.Agent{Name: "agent"})
	for _, name := range []string{"s", "a", "b"} {
		d.Attach(name, 1)
	}
	d.of(someID).hear(&replicav1.SendReport{Replication: someID, Reason: NoMulticast})
	return d, r
}

// changes has the replication changed by somebody else, so that what was to be written of it is not.
func changes(t *testing.T, d *Desk) {
	t.Helper()
	r, _ := d.view.Replication(someID)
	d.put(t, view.ReplicationKey(someID), r.ReplicationRecord)
}

func cancels(t *testing.T, d *Desk) {
	t.Helper()
	if _, found := d.view.Replication(someID); !found {
		return
	}
	if _, err := d.Cancel(t.Context(), someID); err != nil {
		t.Error(err)
	}
}

func groupNames(d *Desk) (names []string) {
	page, _ := d.view.Groups("", 10)
	for _, g := range page {
		names = append(names, g.GetName())
	}
	return names
}
