// Package delivery holds the rules of deliveries, as the leading manager applies
// them: who may begin one, who feeds whom and what happens when an agent is lost,
// when a member has it and when it has failed, and how it ends.
//
// A Desk lives as long as a term. What must survive it is written to the store:
// the delivery, its tree, its receipts. How far each node is, is only in the desk's
// memory, from what nodes report: a new leader waits for new reports.
//
// Each delivery that runs or is kept has a keeper, a goroutine that looks at the
// delivery again when something of it changed, and does what is due.
package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/survey"
	"github.com/groupcast/groupcast/services/manager/view"
)

// ReportInterval is how often agents report while they have something to do.
const ReportInterval = time.Second

const (
	// sweepInterval is how often the desk looks for deliveries without a keeper.
	sweepInterval = time.Second
	// forgetInterval is how often the desk looks for old deliveries.
	forgetInterval = 10 * time.Second
	// leastStep is by how much the date has to be set to be noticed: clocks that are only made faster or slower never are off by so much in a moment.
	leastStep = time.Second
)

// Desk is the state and the rules of deliveries at the manager that leads.
type Desk struct {
	ledger  *ledger.Ledger
	store   *store.Store
	view    *view.View
	signer  identity.Source
	survey  *survey.Survey
	hearing Hearing
	metrics *Metrics
	log     *slog.Logger
	started time.Time
	ended   chan struct{} // closed when the desk is no longer kept
	opened  chan *keeper  // keepers to be started
	created *allowance    // what the deliveries of one member write
	looked  time.Time     // when it was last looked whether the date was set; only the desk's goroutine touches this

	mu       sync.Mutex
	keepers  map[string]*keeper
	creating map[string]string // the groups of deliveries on their way, by id
	agents   map[string]*presence
	streams  int // how many session agents are attached
	broken   breakage
	attached map[seat]map[*Attachment]bool
	plans    map[seat]map[string]*groupv1.Assignment // what each has to do, by delivery
	slow     map[string]map[string]slowAgent         // by agent, what each delivery found
	idle     map[string]map[string]time.Time         // agents that lately moved nothing, by the groups that found it, and until when these prefer others
}

// Hearing says whether this manager hears others.
type Hearing interface {
	// IsCutOff reports whether it hears so few that nobody is to be blamed for being silent.
	IsCutOff() bool
	// LastCutOff returns when that was so last; zero if it never was in this term.
	LastCutOff() time.Time
	// LastHeard returns when it last heard a member of a group, also where its session has expired since.
	LastHeard(group, member string) time.Time
}

// seat is where assignments go: a member's place in a group, or an agent.
type seat struct {
	group string // empty for an agent
	id    identity.ID
}

// Lead returns the desk of a term. It has taken over all deliveries of earlier
// terms: whoever attaches to it is told all that there is to do.
func Lead(by *ledger.Ledger, from *store.Store, shown *view.View, signer identity.Source, distances *survey.Survey, hearing Hearing, metrics *Metrics, log *slog.Logger) *Desk {
	d := &Desk{
		ledger: by, store: from, view: shown, signer: signer, survey: distances, hearing: hearing, metrics: metrics,
		log: log.With("term", by.Term().Number), started: time.Now(), looked: time.Now(),
		ended: make(chan struct{}), opened: make(chan *keeper), created: newAllowance(createRate, createBurst),
		keepers: make(map[string]*keeper), creating: make(map[string]string),
		agents: make(map[string]*presence), attached: make(map[seat]map[*Attachment]bool),
		plans: make(map[seat]map[string]*groupv1.Assignment), slow: make(map[string]map[string]slowAgent), idle: make(map[string]map[string]time.Time),
	}
	for _, delivery := range shown.Deliveries(d.live) {
		d.adopt(delivery).progress.inherited = true
	}
	return d
}

// live reports whether a delivery still needs a keeper.
func (d *Desk) live(delivery view.Delivery) bool {
	return delivery.Running() || time.Now().Before(lingerUntil(delivery))
}

// Run keeps all deliveries until ctx is done or the term is over.
func (d *Desk) Run(ctx context.Context) error {
	defer close(d.ended)
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer cancel()
	start := func(k *keeper) {
		if k.started {
			return
		}
		k.started = true
		keeping.Go(func() {
			k.run(ctx)
			d.close(k)
		})
	}
	for _, k := range d.allKeepers() {
		start(k)
	}
	keeping.Go(func() { d.forget(ctx) })
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.ledger.Term().Ended():
			return ledger.ErrNotLeading
		case k := <-d.opened:
			start(k)
		case <-sweep.C:
			d.lookAtDate(time.Now())
			for _, k := range d.unkept() {
				start(k)
			}
		}
	}
}

// Survey returns what is known of distances.
func (d *Desk) Survey() *survey.Survey { return d.survey }

// measured returns a function that looks up what is known of a group's distances when it is first called, and then keeps the answer.
func (d *Desk) measured(group string, policy *groupv1.Policy) func() placement.Measured {
	return sync.OnceValue(func() placement.Measured {
		return d.survey.Measured(group, policy.GetClusterThreshold().AsDuration())
	})
}

// Ended is closed when this desk is no longer kept.
func (d *Desk) Ended() <-chan struct{} { return d.ended }

// adopt gives a delivery a keeper; nil if it has one.
func (d *Desk) adopt(delivery view.Delivery) *keeper {
	k := newKeeper(d, delivery)
	d.mu.Lock()
	_, known := d.keepers[k.id]
	if !known {
		d.keepers[k.id] = k
	}
	d.mu.Unlock()
	if known {
		return nil
	}
	k.takeOver(delivery)
	return k
}

// open gives a delivery that was just created its keeper.
func (d *Desk) open(ctx context.Context, id string) {
	delivery, found := d.view.Delivery(id)
	if !found {
		return
	}
	k := d.adopt(delivery)
	if k == nil {
		return
	}
	select {
	case d.opened <- k:
	case <-d.ended:
	case <-ctx.Done():
		d.close(k) // the sweep finds the delivery
	}
}

// unkept makes keepers for deliveries whose creation was broken off after it was written.
func (d *Desk) unkept() (keepers []*keeper) {
	for _, delivery := range d.view.Deliveries(d.live) {
		if d.find(delivery.ID()) == nil {
			if k := d.adopt(delivery); k != nil {
				keepers = append(keepers, k)
			}
		}
	}
	return keepers
}

func (d *Desk) close(k *keeper) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keepers[k.id] == k {
		delete(d.keepers, k.id)
	}
}

// find returns the keeper of a delivery; nil if it has none.
func (d *Desk) find(id string) *keeper {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keepers[id]
}

func (d *Desk) allKeepers() []*keeper {
	d.mu.Lock()
	defer d.mu.Unlock()
	keepers := make([]*keeper, 0, len(d.keepers))
	for _, k := range d.keepers {
		keepers = append(keepers, k)
	}
	return keepers
}

// lookAtDate has all deliveries looked at if the date was set, or the machine suspended, since it was called last: the capabilities that nodes
// hold may be out of force by the date.
func (d *Desk) lookAtDate(now time.Time) {
	step := now.Round(0).Sub(d.looked.Round(0)) - now.Sub(d.looked) // the second is by the monotonic clock
	d.looked = now
	if step.Abs() < leastStep {
		return
	}
	for _, k := range d.allKeepers() {
		k.poke()
	}
}

// poke has a delivery looked at.
func (d *Desk) poke(id string) {
	if k := d.find(id); k != nil {
		k.poke()
	}
}
