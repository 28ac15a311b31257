package paper001

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/lab/traffic"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
)

// played is a scenario with one controller.
type played struct {
	*gathering.Seen
	scenario
	faster     float64 // how many seconds of the thesis a second stands for
	begin      float64 // the second of the run at which the thesis's time begins
	idle, busy gathering.Transfers
}

// play runs a scenario with every controller.
func (s scenario) play(ctx context.Context, options experiment.Options) ([]*played, error) {
	scale := s.scale(options)
	cases, runs := make([]gathering.Case, len(everyone)), map[string]*played{}
	for i, name := range everyone {
		cases[i] = s.network(name, options.Seed, scale)
		runs[name] = &played{scenario: s, faster: scale}
	}
	all, err := gathering.Beside(ctx, cases, func(site *gathering.Site) error { return runs[site.Controller].happen(site) })
	if err != nil {
		return nil, err
	}
	ordered := make([]*played, len(all))
	for i, seen := range all {
		ordered[i] = runs[seen.Controller]
		ordered[i].Seen = seen
	}
	return ordered, nil
}

// span returns how long a time of the thesis takes here.
func (p *played) span(of time.Duration) time.Duration {
	return time.Duration(float64(of) / p.faster)
}

// when returns a time of the thesis in seconds of the run.
func (p *played) when(at time.Duration) float64 { return p.begin + p.span(at).Seconds() }

// happen plays the scenario.
func (p *played) happen(s *gathering.Site) (err error) {
	short := gathering.Short{Terminal: strings.ToLower(p.short.name), Count: p.short.idle, Size: shortSize}
	if p.short.count > 0 {
		if p.idle, err = s.Upload(short); err != nil {
			return err
		}
	}
	begin := s.Now()
	p.begin = begin.Seconds()
	for _, one := range p.udp {
		s.Broadcast(one.name, p.schedule(one.schedule))
	}
	uploads := make(chan error, 1)
	go func() { uploads <- p.upload(s, begin, short) }()
	err = p.stream(s, begin)
	return cmp.Or(err, <-uploads)
}

// upload makes the short uploads.
func (p *played) upload(s *gathering.Site, begin time.Duration, short gathering.Short) (err error) {
	if p.short.count == 0 {
		return nil
	}
	if err := s.Until(begin + p.span(p.short.from)); err != nil {
		return err
	}
	short.Count, short.Interval, short.Seed = p.short.count, p.span(shortMean), s.Seed
	p.busy, err = s.Upload(short)
	return err
}

// stream makes the long uploads come and go at their times, until the end.
func (p *played) stream(s *gathering.Site, begin time.Duration) error {
	type event struct {
		at time.Duration
		do func() error
	}
	var events []event
	for _, one := range p.long {
		leave := func() {}
		events = append(events,
			event{one.from, func() (err error) {
				leave, err = s.Stream(strings.ToLower(one.name))
				return err
			}},
			event{one.until, func() error { leave(); return nil }})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, event := range events {
		if err := s.Until(begin + p.span(event.at)); err != nil {
			return err
		}
		if err := event.do(); err != nil {
			return err
		}
	}
	return s.Until(begin + p.span(p.until))
}

func (p *played) schedule(all []traffic.Period) (faster []traffic.Period) {
	for _, one := range all {
		faster = append(faster, traffic.Period{From: p.span(one.From), Until: p.span(one.Until), Rate: one.Rate})
	}
	return faster
}

// clock converts a series to the thesis's time.
func (p *played) clock(series measure.Series) measure.Series {
	moved := measure.Series{Name: series.Name}
	for _, point := range series.Points {
		if x := (point.X - p.begin) * p.faster; x >= 0 && x <= p.until.Seconds() {
			moved.Points = append(moved.Points, measure.Point{X: x, Y: point.Y})
		}
	}
	return moved
}

// mean returns the mean of a series between two times of the thesis.
func (p *played) mean(series measure.Series, from, until time.Duration) float64 {
	return series.Between(p.when(from), p.when(until)).Mean()
}

// headers is the size of a packet divided by that of the segment in it.
const headers = 1500. / 1448

// group returns what a group got over time, in Mbit/s including the packets' headers.
func (p *played) group(name string) measure.Series {
	sum := measure.Series{Name: name}
	totals := map[float64]float64{}
	for _, client := range p.names(name) {
		for _, point := range p.Throughput(client).Points {
			totals[point.X] += headers * point.Y
		}
	}
	for _, round := range p.Rounds[min(1, len(p.Rounds)):] { // a rate is from one to the next
		sum.Points = append(sum.Points, measure.Point{X: round.At, Y: totals[round.At]})
	}
	return sum
}
