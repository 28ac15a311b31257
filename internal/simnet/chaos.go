package simnet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what a Fault does.
type Kind string

// Kinds of faults.
const (
	CutBoth   Kind = "cut"
	CutOne    Kind = "cut-one-way"
	SlowDown  Kind = "slow"
	Break     Kind = "reset" // of all connections between two hosts
	Flip      Kind = "corrupt"
	Swallow   Kind = "swallow-large" // packets, in one direction
	Stop      Kind = "freeze"
	Crash     Kind = "kill"
	LosePower Kind = "power-off"
	TurnAway  Kind = "refuse"
)

var (
	linkKinds = []Kind{CutBoth, CutOne, SlowDown, Break}
	hostKinds = []Kind{Stop, Crash, LosePower, TurnAway}
)

// Fault happens for a time to a link, or to a host alone.
type Fault struct {
	From, Until time.Duration // since the schedule began
	Kind        Kind
	A, B        string // B is empty for a host's fault
	Rate        Rate   // of slow
	Skip        int64  // of corrupt: bytes before the byte that is hit
}

func (f Fault) String() string {
	text := fmt.Sprintf("%v–%v %s %s %s", f.From, f.Until, f.Kind, f.A, f.B)
	switch f.Kind {
	case SlowDown:
		text += fmt.Sprintf(" %d B/s", f.Rate)
	case Flip:
		text += fmt.Sprintf(" after %d bytes", f.Skip)
	}
	return text
}

// Schedule is a list of faults that all end.
type Schedule []Fault

// String has one fault per line.
func (s Schedule) String() string {
	var text strings.Builder
	for _, fault := range s {
		fmt.Fprintln(&text, fault)
	}
	return text.String()
}

// Chaos says which faults a schedule is made of.
type Chaos struct {
	Links  [][2]string // that suffer
	Hosts  []string    // that suffer
	Faults int
	Span   time.Duration // in which all begin; each lasts at most a quarter of it
	Flips  bool          // corrupt bytes, too: only for programs that check them
}

// Schedule draws the faults. No two with the same target overlap, so that the end of one does not
// end another; therefore there may be fewer than Faults.
func (c Chaos) Schedule(random *rand.Rand) Schedule {
	var drawn Schedule
	for range c.Faults {
		fault := c.draw(random)
		if !slices.ContainsFunc(drawn, fault.overlaps) {
			drawn = append(drawn, fault)
		}
	}
	slices.SortStableFunc(drawn, func(a, b Fault) int { return int(a.From - b.From) })
	return drawn
}

func (c Chaos) draw(random *rand.Rand) Fault {
	fault := Fault{From: time.Duration(random.Int64N(int64(c.Span)))}
	fault.Until = fault.From + time.Duration(random.Int64N(int64(c.Span)/4)) + 1
	if target := random.IntN(len(c.Links) + len(c.Hosts)); target >= len(c.Links) {
		fault.A = c.Hosts[target-len(c.Links)]
		fault.Kind = hostKinds[random.IntN(len(hostKinds))]
		return fault
	}
	link := c.Links[random.IntN(len(c.Links))]
	side := random.IntN(2)
	fault.A, fault.B = link[side], link[1-side]
	kinds := linkKinds
	if c.Flips {
		kinds = append(slices.Clone(kinds), Flip)
	}
	fault.Kind = kinds[random.IntN(len(kinds))]
	fault.Rate = 1 << random.IntN(16)
	fault.Skip = random.Int64N(64 << 10)
	return fault
}

func (f Fault) overlaps(other Fault) bool {
	same := f.A == other.A && f.B == other.B || f.A == other.B && f.B == other.A
	return same && f.From <= other.Until && other.From <= f.Until
}

// Run lets the faults happen, and returns when all have ended or ctx is done; in either case
// nothing is left of them. killed and restarted, which may be nil, have to end and start the host's
// program.
func (s Schedule) Run(ctx context.Context, n *Network, killed, restarted func(host string)) {
	type step struct {
		at time.Duration
		do func()
	}
	var steps []step
	for _, fault := range s {
		steps = append(steps,
			step{fault.From, func() { fault.begin(n, killed) }},
			step{fault.Until, func() { fault.finish(n, restarted) }})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	start := time.Now()
	for _, next := range steps {
		select { // once ctx is done, the rest passes at once
		case <-ctx.Done():
		case <-time.After(time.Until(start.Add(next.at))):
		}
		next.do()
	}
	n.HealAll()
}

func (f Fault) begin(n *Network, killed func(string)) {
	switch f.Kind {
	case CutBoth:
		n.Cut(f.A, f.B)
	case CutOne:
		n.CutOneWay(f.A, f.B)
	case SlowDown:
		n.Slow(f.A, f.B, f.Rate)
	case Swallow:
		n.Narrow(f.A, f.B)
	case Break:
		n.Reset(f.A, f.B)
	case Flip:
		n.Corrupt(f.A, f.B, f.Skip)
	case Stop:
		n.Host(f.A).Freeze()
	case Crash:
		n.Host(f.A).Kill()
		call(killed, f.A)
	case LosePower:
		n.Host(f.A).PowerOff()
		call(killed, f.A)
	case TurnAway:
		n.Host(f.A).Refuse(true)
	}
}

func (f Fault) finish(n *Network, restarted func(string)) {
	switch f.Kind {
	case CutBoth, CutOne, SlowDown, Swallow:
		n.Heal(f.A, f.B)
	case Stop:
		n.Host(f.A).Thaw()
	case TurnAway:
		n.Host(f.A).Refuse(false)
	case Crash, LosePower:
		n.Host(f.A).Restart()
		call(restarted, f.A)
	}
}

func call(do func(string), host string) {
	if do != nil {
		do(host)
	}
}
