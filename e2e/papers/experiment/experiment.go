// Package experiment is what every paper's reproduction has in common.
package experiment

import (
	"context"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// Experiment reproduces some figures of one paper.
type Experiment struct {
	Paper string // as its file is numbered: 000
	Name  string // folder of its results
	About string // one line
	Run   func(context.Context, Options) (*measure.Result, error)
}

// ID is paper/name.
func (e Experiment) ID() string { return e.Paper + "/" + e.Name }

// Options are what the caller decides.
type Options struct {
	Origin   measure.Origin
	Seed     uint64
	Duration time.Duration                    // of one run; zero is what the experiment has
	Runs     int                              // that a point is the mean of; zero is what the experiment has
	Loads    []float64                        // of traffic, where an experiment varies it; none are what the experiment has
	Scale    int                              // by which a network is smaller than the paper's; zero is what the experiment has
	Progress func(format string, args ...any) // one line at a time
}
