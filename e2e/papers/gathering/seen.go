package gathering

import (
	"math"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Seen is what was seen of a case.
type Seen struct {
	Case
	// Rounds are what the gatherer reported, at seconds since the start.
	Rounds []Round
	// Queue is the access link's mean queue in bytes; Utilization is in percent.
	Queue, Utilization measure.Series
	// Overflowed and Offered are total packets over time: those that the link's queue dropped, and those that came to it.
	Overflowed, Offered measure.Series
	Dropped             int64
	Foreign             link.Bytes // received from others
	Late                link.Lateness
	Took                time.Duration
}

// Round is one of the gatherer's rounds.
type Round struct {
	At float64
	gather.Snapshot
}

func (s *Seen) read(start time.Time, rounds []gather.Snapshot) {
	for _, round := range rounds {
		s.Rounds = append(s.Rounds, Round{round.Time.Sub(start).Seconds(), round})
	}
}

// Received returns how many bytes of a client had come, over time.
func (s *Seen) Received(client string) measure.Series {
	series := measure.Series{Name: client}
	for _, round := range s.Rounds {
		for _, c := range round.Clients {
			if c.Name == client {
				series.Points = append(series.Points, measure.Point{X: round.At, Y: float64(c.Received)})
			}
		}
	}
	return series
}

// Throughput returns a client's rate in Mbit/s, with a point for every round of half a second.
func (s *Seen) Throughput(client string) measure.Series { return s.Received(client).Slope(8e-6) }

// Rate returns a client's mean rate between two times, in Mbit/s.
func (s *Seen) Rate(client string, from, until float64) float64 {
	points := s.Received(client).Between(from, until).Points
	if len(points) < 2 {
		return 0
	}
	first, last := points[0], points[len(points)-1]
	return (last.Y - first.Y) * 8e-6 / (last.X - first.X)
}

// Drops returns how many packets the access link's queue dropped between two times.
func (s *Seen) Drops(from, until float64) int { return int(grown(s.Overflowed, from, until)) }

// LossRate returns the share of the access link's packets that its queue dropped, in percent, with a point for each span.
func (s *Seen) LossRate(span float64) measure.Series {
	rate := measure.Series{Name: "loss"}
	for from := 0.; from < s.Took.Seconds(); from += span {
		if offered := grown(s.Offered, from, from+span); offered > 0 {
			rate.Points = append(rate.Points, measure.Point{X: from + span, Y: 100 * grown(s.Overflowed, from, from+span) / offered})
		}
	}
	return rate
}

// grown returns by how much a total has grown between two times.
func grown(total measure.Series, from, until float64) float64 {
	first, last := math.NaN(), 0.
	for _, p := range total.Points {
		if p.X > until {
			break
		}
		if p.X <= from || math.IsNaN(first) {
			first = p.Y
		}
		last = p.Y
	}
	if math.IsNaN(first) {
		return 0
	}
	return last - first
}

// Fairness returns Jain's index of clients' mean rates between two times: 1 if all have the same, 1/n if one of n has everything.
func (s *Seen) Fairness(from, until float64, clients ...string) float64 {
	var rates []float64
	for _, name := range clients {
		rates = append(rates, s.Rate(name, from, until))
	}
	return window.Fairness(rates)
}

// Used returns how many seconds it takes from a time on until the link carries a share of its rate,
// in percent, over the following span of seconds; infinite if that does not happen before the end.
func (s *Seen) Used(from, until, span, share float64) float64 {
	for _, p := range s.Utilization.Between(from, until-span).Points {
		if s.Utilization.Between(p.X+.1, p.X+span+.1).Mean() >= share {
			return p.X - from
		}
	}
	return math.Inf(1)
}

// Worst returns the lowest mean rate over any span of a length between two times, in Mbit/s.
func (s *Seen) Worst(client string, span, from, until float64) float64 {
	worst := math.Inf(1)
	points := s.Received(client).Between(from, until).Points
	last := 0
	for i := range points {
		for last < len(points) && points[last].X < points[i].X+span-.25 {
			last++
		}
		if last < len(points) {
			worst = min(worst, (points[last].Y-points[i].Y)*8e-6/(points[last].X-points[i].X))
		}
	}
	return worst
}

// Held returns the share of a client's half-second samples that are at least a rate, in Mbit/s.
func (s *Seen) Held(client string, least, from, until float64) float64 {
	points := s.Throughput(client).Between(from, until).Points
	held := 0
	for _, p := range points {
		if p.Y >= least {
			held++
		}
	}
	return float64(held) / float64(max(1, len(points)))
}

// Target returns a terminal's target in Mbit/s.
func (t Terminal) Target() float64 { return float64(t.Share.Target) * 8e-6 }

// Reached returns the share of all targets that was reached; what exceeds a target does not count.
func (s *Seen) Reached(from, until float64) float64 {
	got, wanted := 0.0, 0.0
	for _, t := range s.Terminals {
		got += min(t.Target(), s.Rate(t.Name, from, until))
		wanted += t.Target()
	}
	return got / wanted
}

// WorstOf returns the lowest mean rate of the terminals with a priority.
func (s *Seen) WorstOf(priority int, from, until float64) float64 {
	worst := math.Inf(1)
	for _, t := range s.Terminals {
		if t.Share.Priority == priority {
			worst = min(worst, s.Rate(t.Name, from, until))
		}
	}
	return worst
}
