// Package controller has the gatherer's clients get what they should: every half second it
// observes, decides and applies.
package controller

import (
	"context"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// Plant is what is controlled.
type Plant interface {
	// Review gives every client the share that the policy has for it now.
	Review()
	// Observe reads how everything stands, and returns when it did.
	Observe() (facts window.Facts, at time.Time)
	// Apply sets what was decided about what was observed last.
	Apply(facts window.Facts, decision window.Decision)
}

// Round is what one round found and decided.
type Round struct {
	At        time.Time
	Received  window.Rate
	Available window.Rate
	Window    int           // the sum of all windows
	First     int           // of a connection that is accepted
	Took      time.Duration // including to show it
	Facts     window.Facts
	Decision  window.Decision
}

// Controller controls a plant.
type Controller struct {
	Name   string
	rules  window.Controller
	plant  Plant
	others func() window.Rate

	mu      sync.Mutex
	last    Round
	changed chan struct{} // closed after a round
}

// New returns a controller. others tells how much comes over the link in all, uploads included; zero if that is not known.
func New(name string, options window.Options, plant Plant, others func() window.Rate) (*Controller, error) {
	rules, err := window.New(name, options)
	if err != nil {
		return nil, err
	}
	return &Controller{Name: name, rules: rules, plant: plant, others: others, changed: make(chan struct{})}, nil
}

// First is the window of a connection that was just accepted; zero leaves it alone.
func (c *Controller) First() int { return c.rules.First() }

// Run controls until ctx is done, and calls each, unless it is nil, with every round.
func (c *Controller) Run(ctx context.Context, each func(Round)) error {
	pause := time.NewTimer(window.Interval)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
			// On a busy machine the timer fired long ago, and may be about to fire again.
			round := c.step()
			if each != nil {
				each(round)
			}
			round.Took = time.Since(round.At)
			pause.Reset(window.Interval - round.Took)
			c.publish(round)
		}
	}
}

// step is one round.
func (c *Controller) step() Round {
	round := Round{At: time.Now()}
	c.plant.Review()
	var now time.Time // Review may have taken a while
	round.Facts, now = c.plant.Observe()
	for _, client := range round.Facts.Clients {
		round.Received += client.Throughput
	}
	round.Facts.Link.Others = max(0, c.others()-round.Received)
	round.Decision = c.rules.Step(now, round.Facts)
	c.plant.Apply(round.Facts, round.Decision)
	round.Available = round.Decision.Available
	round.First = c.rules.First()
	for _, share := range round.Decision.Shares {
		for _, one := range share.Windows {
			round.Window += one.Bytes
		}
	}
	return round
}

func (c *Controller) publish(round Round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = round
	close(c.changed)
	c.changed = make(chan struct{})
}

// Last returns the last round, and a channel that is closed after the next.
func (c *Controller) Last() (Round, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.changed
}
