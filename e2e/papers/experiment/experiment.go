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
	Duration time.Duration                    // of one run; zero leaves it to the experiment
	Runs     int                              // how many runs a point is the mean of; zero leaves it to the experiment
	Loads    []float64                        // of traffic, if an experiment varies it; none leaves them to the experiment
	Members  []int                            // in each network, if an experiment varies their number; none leaves it to the experiment
	Scale    int                              // by which a network is smaller than the paper's; zero leaves it to the experiment
	Progress func(format string, args ...any) // one line at a time
}
