// Package paper003 reproduces the evaluation of paper 003, receive buffers and parallel
// connections of an information gathering server (003 §IV), with the product's gatherer.
package paper003

import (
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/sdk/gather"
)

// The shares of Table I, in bytes per second. The minimums are ours.
var (
	high = gather.Share{Target: 125_000, Minimum: 62_500, Priority: 1}
	low  = gather.Share{Target: 62_500, Minimum: 31_250}
)

// The text of 003 gives neither the speeds nor the delays of figures 2 and 4. These are ours.
const (
	modelRate  = 8 * link.Mbit // of the link to the server: the sum of Table II is 7.5
	modelQueue = 50            // packets, what ns-2 has
	routerRate = 5 * link.Mbit // of model 2's link from router 2 to router 3
	stepRate   = 10 * link.Mbit
	stepQueue  = 200 * link.KiB
)

// terminals returns six terminals; the nearest is at a given distance, and each next one a step
// farther. In model 1 those of high priority are farther away, because in figure 3 the compared
// method gets them less.
func terminals(shares []gather.Share, nearest, step time.Duration) []gathering.Terminal {
	all := make([]gathering.Terminal, len(shares))
	for i, share := range shares {
		all[i] = gathering.Terminal{Name: fmt.Sprint("t", i), Delay: nearest + time.Duration(i)*step, Share: share}
	}
	return all
}

// model1 is figure 2: six clients, one server, and one link that all share.
func model1(controller, congestion string, seed uint64) gathering.Case {
	return gathering.Case{
		Seed: seed, Controller: controller, Congestion: congestion,
		Access:    link.Shape{Rate: modelRate, Queue: link.Packets(modelQueue)},
		Terminals: terminals([]gather.Share{low, low, low, high, high, high}, 10*time.Millisecond, 10*time.Millisecond),
	}
}

// model2 is figure 4: terminals 0 to 2 are behind router 1, and 3 to 5 behind router 2, whose link
// is shared with interference. Terminals 0, 2 and 3 have high priority: the text says so of 3, says
// that 2 is like 0, and 5 like 4.
func model2(controller, congestion string, seed uint64) gathering.Case {
	c := gathering.Case{
		Seed: seed, Controller: controller, Congestion: congestion,
		Access:    link.Shape{Rate: modelRate, Queue: link.Packets(modelQueue)},
		Routers:   []link.Shape{{Rate: routerRate, Queue: link.Packets(modelQueue)}, {Rate: routerRate, Queue: link.Packets(modelQueue)}},
		Terminals: terminals([]gather.Share{high, low, high, high, low, low}, 20*time.Millisecond, 4*time.Millisecond),
	}
	for i := range c.Terminals {
		c.Terminals[i].Router = 1 + i/3
	}
	for i := range 3 {
		c.Others = append(c.Others, gathering.Other{Name: fmt.Sprint("i", i), Delay: time.Duration(15+5*i) * time.Millisecond, Router: 2, Past: true})
	}
	return c
}

// amid is a case of our own: targets of 4.5 Mbit/s on a link of 10, round trips of 20 to 120 ms,
// and a number of TCP connections beside it that take what they can.
func amid(controller, congestion string, seed uint64, interferers int) gathering.Case {
	c := gathering.Case{
		Seed: seed, Controller: controller, Congestion: congestion,
		Access:    link.Shape{Rate: stepRate, Queue: link.Size(stepQueue)},
		Terminals: terminals([]gather.Share{high, low, high, low, high, low}, 10*time.Millisecond, 10*time.Millisecond),
	}
	for i := range interferers {
		c.Others = append(c.Others, gathering.Other{Name: fmt.Sprint("i", i), Delay: time.Duration(15+10*i) * time.Millisecond})
	}
	return c
}
