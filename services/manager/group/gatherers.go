package group

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

// heard is what a gatherer said last, and when. Only the leader knows it.
type heard struct {
	at     time.Time
	report *gatherv1.GathererReport
}

// RegisterGatherer notes a gatherer and returns its incarnation. A gatherer that goes on as an incarnation that is still the newest keeps that.
func (r *Registry) RegisterGatherer(ctx context.Context, name string, asked *gatherv1.GathererRegistration) (incarnation uint64, err error) {
	var problems ledger.Checks
	problems.That(len(asked.GetAddresses()) > 0, "addresses", "is empty: say where clients reach the gatherer")
	checkPlace(&problems, "", asked.GetAddresses(), asked.GetLabels())
	if err := problems.Err(); err != nil {
		return 0, err
	}
	err = r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		current, _ := r.view.Gatherer(name)
		goesOn, err := ledger.GoesOn(asked.GetIncarnation(), current.GetIncarnation())
		if err != nil {
			return ledger.Plan{}, fmt.Errorf("gatherer %q, %w", name, err)
		}
		if incarnation = current.GetIncarnation(); !goesOn {
			incarnation = r.ledger.Next()
		}
		return ledger.PutMessage(view.GathererKey(name), &gatherv1.Gatherer{
			Name: name, Incarnation: incarnation, Addresses: asked.GetAddresses(), Labels: asked.GetLabels(), RegisterTime: timestamppb.Now(),
		}, current.Changed)
	})
	if err == nil {
		r.hear(name, nil)
	}
	return incarnation, err
}

func (r *Registry) hear(name string, report *gatherv1.GathererReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gatherers[name] = heard{time.Now(), report}
}

// ReportGatherer notes that a gatherer lives, and how it is. It returns FENCED if a newer
// incarnation has come, and OFFLINE if the gatherer was forgotten and must register again.
func (r *Registry) ReportGatherer(name string, incarnation uint64, report *gatherv1.GathererReport) gatherv1.GathererState {
	known, found := r.view.Gatherer(name)
	switch {
	case found && known.GetIncarnation() > incarnation:
		return gatherv1.GathererState_GATHERER_STATE_FENCED
	case !found:
		return gatherv1.GathererState_GATHERER_STATE_OFFLINE
	}
	r.hear(name, report)
	return gatherv1.GathererState_GATHERER_STATE_ONLINE
}

// ForgetGatherer forgets a gatherer that stops, or was silent for long.
func (r *Registry) ForgetGatherer(ctx context.Context, name string, incarnation uint64) error {
	var another bool
	err := r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		known, found := r.view.Gatherer(name)
		another = found && known.GetIncarnation() != incarnation
		if !found || another {
			return ledger.Plan{}, nil
		}
		return ledger.Remove(view.GathererKey(name), known.Changed), nil
	})
	if err == nil && !another { // otherwise the gatherer that has the name by now was heard
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.gatherers, name)
	}
	return err
}

// sweepGatherers forgets gatherers that have been silent for long.
func (r *Registry) sweepGatherers(ctx context.Context) {
	for _, gatherer := range r.view.AllGatherers() {
		if time.Since(r.lastHeard(gatherer.GetName()).at) < forgetAgents {
			continue
		}
		if err := r.ForgetGatherer(ctx, gatherer.GetName(), gatherer.GetIncarnation()); err != nil {
			r.log.Warn("a gatherer that is gone could not be forgotten; trying again", "gatherer", gatherer.GetName(), "error", err)
		}
	}
}

// lastHeard returns what a gatherer said last. One that has said nothing to this leader may have spoken until this leader began.
func (r *Registry) lastHeard(name string) heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.gatherers[name]; known {
		return last
	}
	return heard{at: r.led}
}

// GetGatherer returns a gatherer as it is.
func (r *Registry) GetGatherer(name string) (*gatherv1.Gatherer, error) {
	record, found := r.view.Gatherer(name)
	if !found {
		return nil, fmt.Errorf("gatherer %q %w", name, ledger.ErrNotFound)
	}
	return r.showGatherer(record.Gatherer), nil
}

// Gatherers returns up to limit gatherers, as they are now, whose names come after the one given.
func (r *Registry) Gatherers(after string, limit int) (page []*gatherv1.Gatherer, more bool) {
	records, more := r.view.Gatherers(after, limit)
	for _, record := range records {
		page = append(page, r.showGatherer(record))
	}
	return page, more
}

func (r *Registry) showGatherer(record *gatherv1.Gatherer) *gatherv1.Gatherer {
	shown, last := proto.CloneOf(record), r.lastHeard(record.GetName())
	shown.State, shown.Report = gatherv1.GathererState_GATHERER_STATE_OFFLINE, last.report
	if time.Since(last.at) < Expiry {
		shown.State = gatherv1.GathererState_GATHERER_STATE_ONLINE
	}
	return shown
}

// AwayGatherers lists the gatherers that have registered and are silent, and when this leader last heard each, if it did.
func (r *Registry) AwayGatherers() (away []*groupv1.Away) {
	for _, gatherer := range r.view.AllGatherers() {
		id := identity.ID{Role: identity.Gatherer, Name: gatherer.GetName()}
		away = r.view.AppendAway(away, id, gatherer.GetIncarnation(), r.lastHeard(gatherer.GetName()).at, r.led, Expiry)
	}
	return away
}
