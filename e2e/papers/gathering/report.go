package gathering

import (
	"fmt"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// Summary is a row of a table.
func (s *Seen) Summary(from, until float64) []string {
	return []string{
		s.Controller, s.Congestion, measure.Short(s.Reached(from, until)), measure.Short(s.WorstOf(1, from, until)), measure.Short(s.WorstOf(0, from, until)),
		measure.Short(s.Utilization.Between(from, until).Mean()), measure.Short(s.Queue.Between(from, until).Mean() / 1024),
		fmt.Sprint(s.Dropped), measure.Short(float64(s.Foreign) * 8e-6 / s.Took.Seconds()), s.Late.Within(.99).String(),
	}
}

// SummaryColumns name what is in a Summary.
func SummaryColumns() []string {
	return []string{
		"controller", "congestion control", "share of targets", "worst high-priority client, Mbit/s", "worst low-priority client, Mbit/s",
		"utilization, %", "mean queue, KiB", "queue drops", "others, Mbit/s", "emulator late, 99 %",
	}
}

// Clients returns a table of every client's rate in every case.
func Clients(title string, all []*Seen, from, until float64) measure.Table {
	t := measure.Table{Title: title, Columns: []string{"client", "round trip", "target, Mbit/s"}}
	for _, s := range all {
		t.Columns = append(t.Columns, s.Controller+", "+s.Congestion+": mean", "least over 10 s", "half seconds at target, %")
	}
	for _, one := range all[0].Terminals {
		row := []string{one.Name, (2 * one.Delay).String(), measure.Short(one.Target())}
		for _, s := range all {
			row = append(row, measure.Short(s.Rate(one.Name, from, until)), measure.Short(s.Worst(one.Name, 10, from, until)),
				measure.Short(100*s.Held(one.Name, one.Target(), from, until)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Mean returns the mean throughput of some clients over time, in Mbit/s.
func (s *Seen) Mean(name string, clients ...string) measure.Series {
	mean := measure.Series{Name: name}
	for i, client := range clients {
		for j, p := range s.Throughput(client).Points {
			switch {
			case i == 0:
				mean.Points = append(mean.Points, measure.Point{X: p.X, Y: p.Y / float64(len(clients))})
			case j < len(mean.Points):
				mean.Points[j].Y += p.Y / float64(len(clients))
			}
		}
	}
	return mean
}

// OfPriority returns the names of the terminals with a priority.
func (s *Seen) OfPriority(priority int) (names []string) {
	for _, t := range s.Terminals {
		if t.Share.Priority == priority {
			names = append(names, t.Name)
		}
	}
	return names
}
