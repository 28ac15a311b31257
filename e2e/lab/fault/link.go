package fault

import (
	"fmt"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// onWay is a change of one direction's shape, with the shape to go back to and
// a tally that grows when the change bites.
type onWay struct {
	way     lab.Way
	healthy link.Shape
	before  link.Tally
}

func (o *onWay) begin(way lab.Way, tally func(link.Count) link.Tally, change func(*link.Shape)) error {
	o.way, o.healthy = way, way.Shape()
	o.before = tally(way.Read().Count)
	return way.Change(change)
}

// since is how many packets the tally has grown by.
func (o *onWay) since(tally func(link.Count) link.Tally) int64 {
	return tally(o.way.Read().Count).Packets - o.before.Packets
}

func lost(c link.Count) link.Tally       { return c.Lost }
func cutOff(c link.Count) link.Tally     { return c.CutOff }
func blackHoled(c link.Count) link.Tally { return c.BlackHoled }
func carried(c link.Count) link.Tally    { return c.Carried }

// Loss loses packets at random.
type Loss struct {
	Way         lab.Way
	Probability float64
	state       onWay
}

// Begin implements Fault.
func (f *Loss) Begin() error {
	return f.state.begin(f.Way, lost, func(s *link.Shape) { s.Loss = f.Probability })
}

// Proof implements Fault.
func (f *Loss) Proof() error {
	if f.state.since(lost) == 0 {
		return noEffect(f, "no packet lost")
	}
	return nil
}

// End implements Fault.
func (f *Loss) End() error {
	return f.Way.Change(func(s *link.Shape) { s.Loss = f.state.healthy.Loss })
}

func (f *Loss) String() string {
	return fmt.Sprintf("loss of %g %% on %s", 100*f.Probability, f.Way.Name())
}

// BurstLoss loses packets in runs.
type BurstLoss struct {
	Way   lab.Way
	Burst link.Burst
	state onWay
}

// Begin implements Fault.
func (f *BurstLoss) Begin() error {
	return f.state.begin(f.Way, lost, func(s *link.Shape) { s.Burst = f.Burst })
}

// Proof implements Fault.
func (f *BurstLoss) Proof() error {
	if f.state.since(lost) == 0 {
		return noEffect(f, "no packet lost")
	}
	return nil
}

// End implements Fault.
func (f *BurstLoss) End() error {
	return f.Way.Change(func(s *link.Shape) { s.Burst = f.state.healthy.Burst })
}

func (f *BurstLoss) String() string {
	return fmt.Sprintf("bursts of %g lost packets on %s", f.Burst.Length, f.Way.Name())
}

// OneWay loses everything in one direction.
type OneWay struct {
	Way   lab.Way
	state onWay
}

// Begin implements Fault.
func (f *OneWay) Begin() error {
	return f.state.begin(f.Way, cutOff, func(s *link.Shape) { s.Cut = true })
}

// Proof implements Fault.
func (f *OneWay) Proof() error {
	if f.state.since(cutOff) == 0 {
		return noEffect(f, "nobody has sent a packet into the cut")
	}
	return nil
}

// End implements Fault.
func (f *OneWay) End() error { return f.Way.Heal() }

func (f *OneWay) String() string { return "one-way partition of " + f.Way.Name() }

// Partition loses everything in both directions.
type Partition struct {
	Link *lab.Link
	ways [2]OneWay
}

// Begin implements Fault.
func (f *Partition) Begin() error {
	for side, way := range f.Link.Ways() {
		f.ways[side] = OneWay{Way: way}
		if err := f.ways[side].Begin(); err != nil {
			return err
		}
	}
	return nil
}

// Proof implements Fault. One direction suffices: with nothing arriving, the
// other may well be silent.
func (f *Partition) Proof() error {
	if f.ways[0].Proof() == nil {
		return nil
	}
	return f.ways[1].Proof()
}

// End implements Fault.
func (f *Partition) End() error { return f.Link.Heal() }

func (f *Partition) String() string { return "partition of " + f.Link.Name() }

// BlackHole swallows packets above a size without notice.
type BlackHole struct {
	Way   lab.Way
	Above link.Bytes
	state onWay
}

// Begin implements Fault.
func (f *BlackHole) Begin() error {
	return f.state.begin(f.Way, blackHoled, func(s *link.Shape) { s.BlackHole = f.Above })
}

// Proof implements Fault.
func (f *BlackHole) Proof() error {
	if f.state.since(blackHoled) == 0 {
		return noEffect(f, "no packet above %d bytes", f.Above)
	}
	return nil
}

// End implements Fault.
func (f *BlackHole) End() error {
	return f.Way.Change(func(s *link.Shape) { s.BlackHole = f.state.healthy.BlackHole })
}

func (f *BlackHole) String() string {
	return fmt.Sprintf("black hole above %d bytes on %s", f.Above, f.Way.Name())
}

// Firewall swallows UDP from one host without notice, and lets everything else through.
type Firewall struct {
	Way   lab.Way
	From  *lab.Host
	state onWay
}

// Begin implements Fault.
func (f *Firewall) Begin() error {
	return f.state.begin(f.Way, blackHoled, func(s *link.Shape) { s.NoUDP = f.From.Addr() })
}

// Proof implements Fault.
func (f *Firewall) Proof() error {
	if f.state.since(blackHoled) == 0 {
		return noEffect(f, "no UDP from %s", f.From.Name())
	}
	return nil
}

// End implements Fault.
func (f *Firewall) End() error {
	return f.Way.Change(func(s *link.Shape) { s.NoUDP = f.state.healthy.NoUDP })
}

func (f *Firewall) String() string {
	return fmt.Sprintf("firewall against UDP of %s on %s", f.From.Name(), f.Way.Name())
}

// RateStep changes the rate.
type RateStep struct {
	Way   lab.Way
	Rate  link.Rate
	state onWay
}

// Begin implements Fault.
func (f *RateStep) Begin() error {
	return f.state.begin(f.Way, carried, func(s *link.Shape) { s.Rate = f.Rate })
}

// Proof implements Fault. The rate itself is exact; what has to be seen is that
// packets went at it.
func (f *RateStep) Proof() error {
	if f.Way.Shape().Rate != f.Rate || f.state.since(carried) == 0 {
		return noEffect(f, "no packet sent at the new rate")
	}
	return nil
}

// End implements Fault.
func (f *RateStep) End() error { return f.Way.Step(f.state.healthy.Rate) }

func (f *RateStep) String() string { return fmt.Sprintf("rate of %s at %v", f.Way.Name(), f.Rate) }
