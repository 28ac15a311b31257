package gathering

import (
	"math"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Seen is what was seen of a case.
type Seen struct {
	Case
	// Rounds are what the gatherer said, at seconds since the start.
	Rounds []Round
	// Queue is of the access link, mean bytes; Utilization in percent.
	Queue, Utilization measure.Series
	Dropped            int64
	Foreign            link.Bytes // received from others
	Late               link.Lateness
	Took               time.Duration
}

// Round is one of the gatherer's.
type Round struct {
	At float64
	gather.Snapshot
}

func (s *Seen) read(start time.Time, rounds []gather.Snapshot) {
	for _, round := range rounds {
		s.Rounds = append(s.Rounds, Round{round.Time.Sub(start).Seconds(), round})
	}
}

// Received is how many bytes of a client had come, over time.
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

// Throughput is a client's rate in Mbit/s, a point for every round of half a second.
func (s *Seen) Throughput(client string) measure.Series { return s.Received(client).Slope(8e-6) }

// Rate is a client's mean rate between two times, in Mbit/s.
func (s *Seen) Rate(client string, from, until float64) float64 {
	points := s.Received(client).Between(from, until).Points
	if len(points) < 2 {
		return 0
	}
	first, last := points[0], points[len(points)-1]
	return (last.Y - first.Y) * 8e-6 / (last.X - first.X)
}

// Worst is the least mean rate over any span of a length between two times, in Mbit/s.
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

// Held is the share of a client's half-second samples that are at least a rate, in Mbit/s.
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

// Target is a terminal's, in Mbit/s.
func (t Terminal) Target() float64 { return float64(t.Share.Target) * 8e-6 }

// Reached is what share of all targets was reached: what is more than a target counts nothing.
func (s *Seen) Reached(from, until float64) float64 {
	got, wanted := 0.0, 0.0
	for _, t := range s.Terminals {
		got += min(t.Target(), s.Rate(t.Name, from, until))
		wanted += t.Target()
	}
	return got / wanted
}

// WorstOf is the least mean rate of those with a priority.
func (s *Seen) WorstOf(priority int, from, until float64) float64 {
	worst := math.Inf(1)
	for _, t := range s.Terminals {
		if t.Share.Priority == priority {
			worst = min(worst, s.Rate(t.Name, from, until))
		}
	}
	return worst
}
