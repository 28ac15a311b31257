// Package probe measures the round trips to agents that a manager names. It is the manager's survey
// as seen from agents and members.
package probe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/pause"
)

const (
	// tries is how often a round trip is measured: the shortest counts.
	tries = 3
	// most is how many agents are measured at most in one round, however many are asked for.
	most = 16
	// proofTime is how long the proof counts that an agent is at an address.
	proofTime = time.Hour
	// leastWait is the least time to wait for other agents after the first has answered. If all are near, the time of their
	// answers says less about their distance than what the kernels measure.
	leastWait = 10 * time.Millisecond
	// jitter is the longest wait before a round, so that not all nodes begin at the same time.
	jitter = 200 * time.Millisecond
)

// Prober measures agents when asked, one after the other; but in the first round all at once, as somebody may be waiting for it.
type Prober struct {
	dialer   link.Dialer
	contacts *link.Contacts
	log      *slog.Logger
	asked    chan *groupv1.Measuring
	done     func()
	settled  chan struct{} // closed when the manager knows the result of the first round

	mu       sync.Mutex
	proved   map[place]time.Time
	measured map[string]time.Duration
	first    progress
}

// progress is how far the first round is.
type progress int

const (
	unasked progress = iota
	underWay
	finished
	reported
	known // or there was no first round
)

// place is an agent and an address that is said to be its.
type place struct{ agent, address string }

// New returns a prober that dials as a link is dialled. Connections to agents that have proven where they are are kept among the
// contacts. It calls done after each round.
func New(dialer link.Dialer, contacts *link.Contacts, log *slog.Logger, done func()) *Prober {
	return &Prober{
		dialer: dialer, contacts: contacts, log: log, done: done, asked: make(chan *groupv1.Measuring, 1), settled: make(chan struct{}),
		proved: make(map[place]time.Time), measured: make(map[string]time.Duration),
	}
}

// Measure takes an answer of the manager. If the answer names agents they are measured, in place of
// those named before that were not begun. Measure does not block; only one goroutine may call it.
func (p *Prober) Measure(measuring *groupv1.Measuring) {
	p.noteAnswer(measuring != nil)
	if measuring == nil {
		return
	}
	select {
	case <-p.asked:
	default:
	}
	p.asked <- measuring
}

// Settled returns a channel that is closed when the manager knows the result of the first round, or has asked for none.
func (p *Prober) Settled() <-chan struct{} { return p.settled }

func (p *Prober) noteAnswer(asks bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.first == unasked && asks:
		p.first = underWay
	case p.first == unasked || p.first == reported:
		p.first = known
		close(p.settled)
	}
}

// RoundTrips returns what was measured since the last call.
func (p *Prober) RoundTrips() (measured []*groupv1.RoundTrip) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for agent, rtt := range p.measured {
		measured = append(measured, &groupv1.RoundTrip{Agent: agent, Time: durationpb.New(rtt)})
	}
	clear(p.measured)
	if p.first == finished {
		p.first = reported
	}
	return measured
}

// Run measures until ctx is done.
func (p *Prober) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case measuring := <-p.asked:
			p.round(ctx, measuring.GetAgents())
		}
	}
}

func (p *Prober) round(ctx context.Context, agents []*groupv1.Neighbour) {
	isFirst := p.isFirst()
	if !isFirst && !pause.For(ctx, rand.N(jitter)) {
		return
	}
	p.forget()
	var all errgroup.Group
	all.SetLimit(1)
	if isFirst {
		all.SetLimit(most)
	}
	var nearest sync.Once
	var soon *time.Timer
	begun := time.Now()
	for _, agent := range agents[:min(len(agents), most)] {
		all.Go(func() error {
			if p.note(ctx, agent) && isFirst {
				// All have begun at the same time: an agent that has not answered a little later is not the nearest one.
				nearest.Do(func() { soon = time.AfterFunc(max(time.Since(begun)/4, leastWait), p.finish) })
			}
			return nil
		})
	}
	_ = all.Wait()
	if soon != nil {
		soon.Stop()
	}
	p.finish()
}

// note measures an agent, and reports whether that succeeded.
func (p *Prober) note(ctx context.Context, agent *groupv1.Neighbour) bool {
	rtt, err := p.measure(ctx, agent)
	if err != nil {
		p.log.Debug("an agent could not be measured", "agent", agent.GetName(), "error", err)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measured[agent.GetName()] = max(rtt, time.Microsecond) // the clock may be too coarse for it
	return true
}

func (p *Prober) isFirst() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first == underWay
}

// finish has what was measured so far told to the manager.
func (p *Prober) finish() {
	p.mu.Lock()
	if p.first == underWay {
		p.first = finished
	}
	p.mu.Unlock()
	p.done()
}

var errNoAddress = errors.New("it has no address")

// measure returns the shortest of several round trips to the first address that answers.
func (p *Prober) measure(ctx context.Context, agent *groupv1.Neighbour) (shortest time.Duration, err error) {
	err = errNoAddress
	for _, address := range agent.GetAddresses() {
		if shortest, err = p.measureAt(ctx, place{agent.GetName(), address}); err == nil {
			break
		}
	}
	return shortest, err
}

// measureAt measures several times: all at once in the first round, otherwise one after the other, which tells more where a queue
// comes and goes.
func (p *Prober) measureAt(ctx context.Context, at place) (shortest time.Duration, err error) {
	var measured [tries]time.Duration
	all, ctx := errgroup.WithContext(ctx)
	if !p.isFirst() {
		all.SetLimit(1)
	}
	proves := p.isToProve(at)
	for try := range tries {
		all.Go(func() (err error) {
			if proves && try == 0 {
				measured[try], err = p.prove(ctx, at)
			} else {
				measured[try], err = link.RoundTrip(ctx, p.dialer, at.address)
			}
			return err
		})
	}
	err = all.Wait()
	return slices.Min(measured[:]), err
}

// prove measures once, and makes the agent prove its identity.
func (p *Prober) prove(ctx context.Context, at place) (time.Duration, error) {
	rtt, err := p.contacts.Prove(ctx, at.address, at.id())
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.proved[at] = time.Now()
	}
	return rtt, err
}

// isToProve reports whether an agent has to prove its identity: it has not done so at this address yet, or the contact is gone.
func (p *Prober) isToProve(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, proved := p.proved[at]
	return !proved || p.contacts.Lacks(at.address, at.id())
}

func (p place) id() identity.ID { return identity.ID{Role: identity.Agent, Name: p.agent} }

// forget makes agents prove their identity again after a while.
func (p *Prober) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, since := range p.proved {
		if time.Since(since) > proofTime {
			delete(p.proved, at)
		}
	}
}
