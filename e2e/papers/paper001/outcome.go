package paper001

import (
	"context"
	"fmt"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
)

// Gathered is scenario 1 with uploads to the product's gatherer; the other scenarios follow.
var (
	Gathered  = gathered("scenario1-gathered", "figures 8 and 9: ours, proposed, spring, mehra and traditional with the gatherer, reno, a fifth of the time, 6 minutes", scenario1Gathered)
	Scenario2 = gathered("scenario2", "figure 10: the same with D 255 ms away and a buffer of 32 KB, 6 minutes", scenario2)
	Scenario3 = gathered("scenario3", "figure 11: the same with six long uploads, 6 minutes", scenario3)
	Scenario4 = gathered("scenario4", "figure 12: the same beside UDP at 1, 2 and 3 Mbit/s, 10 minutes", scenario4)
	Scenario5 = gathered("scenario5", "figure 14: the same with UDP on the way of one of two, 7 minutes", scenario5)
	Scenario6 = gathered("scenario6", "figure 15: the same with four groups of five and UDP on the way of two, 11 minutes", scenario6)
)

// views are what is reported of a scenario.
type views struct {
	title  string
	charts func([]*played) []measure.Chart
	tables func([]*played) []measure.Table
	goals  func([]*played) experiment.Goals
}

func gathered(name, about string, of func() (scenario, views)) experiment.Experiment {
	return experiment.Experiment{Paper: "001", Name: name, About: about, Run: func(ctx context.Context, options experiment.Options) (*measure.Result, error) {
		s, v := of()
		all, err := s.play(ctx, options)
		if err != nil {
			return nil, err
		}
		goals := v.goals(all)
		goals.Tell(options.Progress)
		return &measure.Result{
			Title: v.title, Seed: options.Seed, Origin: options.Origin, About: s.explain(s.scale(options)),
			Tables: append([]measure.Table{goals.Table()}, v.tables(all)...), Charts: v.charts(all),
		}, nil
	}}
}

func (s scenario) explain(scale float64) string {
	text := fmt.Sprintf(`%s Uploads to a gatherer are in place of downloads; TCP is reno. **A second stands for %s of the thesis's**, whose clock the figures have; rates, delays and sizes are its own.
"proposed" compares round trips every %v, which is as often as the thesis does. Two networks ran at a time, in the order of the tables.`,
		s.about, measure.Short(scale), time.Duration(float64(check)/scale).Round(time.Millisecond))
	if s.short.count == 0 {
		return text
	}
	return text + fmt.Sprintf(` From %v on, %s uploads %d files of 30 KB, one every %v in the mean. Establishment is the TCP handshake of a file's data connection. The whole upload takes seven
round trips at least on an idle link, where the thesis's transfer takes three: it asks the gatherer, has handshakes of TCP, TLS and the data protocol, and ends when the file is on the gatherer's
disk. So the column to compare with is that of the idle link, the same uploads before all else.`, s.short.from, s.short.name, s.short.count, shortMean)
}

// summarized has a row for each controller, for the time since the short uploads began or, if there
// are none, since the beginning.
func summarized(all []*played) measure.Table {
	s := all[0].scenario
	t := measure.Table{Title: "All", Columns: []string{"controller"}}
	if s.short.count > 0 {
		t.Columns = append(t.Columns, "idle link: upload median, s", "establishment median, s", "95 %, s", "upload median, s", "95 %, s")
	}
	t.Columns = append(t.Columns, "utilization, %", "mean queue, KiB", "queue drops", "of all packets, %")
	if len(s.best) == 0 {
		t.Columns = append(t.Columns, "fairness of the long ones", "in 5 s, mean")
	}
	groups := s.groups()
	for _, name := range groups {
		t.Columns = append(t.Columns, name+", Kbit/s")
	}
	t.Columns = append(t.Columns, "emulator late, 99 %")
	for _, p := range all {
		row := append([]string{p.Controller}, p.shortColumns()...)
		from, until := p.when(s.short.from), p.when(s.until)
		offered := max(1, p.Seen.Offered.Points[len(p.Seen.Offered.Points)-1].Y)
		row = append(row, measure.Short(p.mean(p.Utilization, s.short.from, s.until)), measure.Short(p.mean(p.Queue, s.short.from, s.until)/float64(link.KiB)),
			fmt.Sprint(p.drops()), measure.Short(100*float64(p.drops())/offered))
		if len(s.best) == 0 {
			row = append(row, measure.Short(p.Fairness(from, until, p.names("")...)), measure.Short(p.fairness(5).Between(from, until).Mean()))
		}
		for _, name := range groups {
			sum := 0.
			for _, client := range p.names(name) {
				sum += 1000 * p.Rate(client, from, until)
			}
			row = append(row, measure.Short(sum))
		}
		t.Rows = append(t.Rows, append(row, p.Late.Within(.99).String()))
	}
	return t
}

func (p *played) shortColumns() []string {
	if p.short.count == 0 {
		return nil
	}
	return []string{
		measure.Short(measure.Median(p.idle.Took)), measure.Short(measure.Median(p.busy.Established)), measure.Short(measure.Quantile(p.busy.Established, .95)),
		measure.Short(measure.Median(p.busy.Took)), measure.Short(measure.Quantile(p.busy.Took, .95)),
	}
}

// drops returns the drops at the access link, from the beginning of the thesis's time to its end.
func (p *played) drops() int { return p.Drops(p.begin, p.when(p.until)) }

// fairness returns Jain's index among the long uploads, with a point for each span of seconds.
func (p *played) fairness(span float64) measure.Series {
	series := measure.Series{Name: p.Controller}
	for from := p.begin; from+span <= p.when(p.until); from += span {
		series.Points = append(series.Points, measure.Point{X: from + span, Y: p.Fairness(from, from+span, p.names("")...)})
	}
	return series
}
