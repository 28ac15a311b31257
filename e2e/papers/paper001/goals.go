package paper001

import (
	"fmt"
	"math"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/internal/algo/window"
)

// The goals are for our own controller, unless another is named.

func of(all []*played, controller string) *played {
	for _, p := range all {
		if p.Controller == controller {
			return p
		}
	}
	return nil
}

func (p *played) median() float64 { return measure.Median(p.busy.Took) }

// full returns the mean utilization during the short uploads, in percent.
func (p *played) full() float64 { return p.mean(p.Utilization, p.short.from, p.until) }

// shortsGain is the goal of scenario 1.
func shortsGain(all []*played) (g experiment.Goals) {
	ours, plain := of(all, window.Groupcast), of(all, window.Traditional)
	slower := ours.median() / measure.Median(ours.idle.Took)
	below := 100 * (1 - measure.Quantile(ours.busy.Took, .95)/measure.Quantile(plain.busy.Took, .95))
	g.Add("the median of short uploads is at most 1.5 times that of the idle link", fmt.Sprintf("%.2f times", slower), slower <= 1.5)
	g.Add("their 95th percentile is at least 80 % below traditional's", fmt.Sprintf("%.0f %%", below), below >= 80)
	g.Add("utilization is at least 95 %", fmt.Sprintf("%.1f %%", ours.full()), ours.full() >= 95)
	return g
}

// busyThough is what the thesis says about scenario 2 (§4.2.2).
func busyThough(all []*played) (g experiment.Goals) {
	plain, spring, mehra := of(all, window.Traditional), of(all, window.Spring).full(), of(all, window.Mehra).full()
	for _, p := range []*played{of(all, window.Groupcast), of(all, window.Proposed)} {
		g.Add(p.Controller+": higher utilization than Spring and Mehra (§4.2.2)", fmt.Sprintf("%.1f %%; %.1f and %.1f", p.full(), spring, mehra),
			p.full() > spring && p.full() > mehra)
		g.Add(p.Controller+": with shorter uploads than traditional", fmt.Sprintf("medians of %.2f s, %.2f", p.median(), plain.median()), p.median() < plain.median())
	}
	return g
}

// evenAmong is the goal of scenario 3.
func evenAmong(all []*played) (g experiment.Goals) {
	ours := of(all, window.Groupcast)
	whole := ours.Fairness(ours.when(ours.short.from), ours.when(ours.until), ours.names("")...)
	parts := ours.fairness(5).Between(ours.when(ours.short.from), ours.when(ours.until)).Mean()
	g.Add("Jain's index among six long connections is at least 0.98", fmt.Sprintf("%.4f", whole), whole >= .98)
	g.Add("also in spans of 5 s, in the mean", fmt.Sprintf("%.4f", parts), parts >= .98)
	return g
}

// usedSpan is the number of seconds over which a link must be used to count as used.
const usedSpan = 2

// freedIsUsed is the goal of scenario 4.
func freedIsUsed(all []*played) (g experiment.Goals) {
	ours := of(all, window.Groupcast)
	g.Add("no packet is lost at the access link", fmt.Sprintf("%d lost", ours.drops()), ours.drops() == 0)
	for _, end := range ends {
		seen, quick := ours.uses(end)
		g.Add(fmt.Sprintf("of the 3 Mbit/s that UDP frees at %.0f s, 95 %% are used within 5 s", end.Seconds()), seen, quick)
	}
	for _, p := range all {
		if p != ours {
			seen, quick := p.uses(ends[0])
			g.Add(fmt.Sprintf("(not a goal) the same at %.0f s with %s", ends[0].Seconds(), p.Controller), seen, quick)
		}
	}
	return g
}

// uses says when the capacity that UDP frees is used, and whether within 5 s.
func (p *played) uses(end time.Duration) (seen string, quick bool) {
	least := 100 * (1 - .05*float64(freed)/float64(accessRate))
	after := p.Used(p.when(end), p.when(p.until), usedSpan, least)
	if math.IsInf(after, 1) {
		return fmt.Sprintf("not before the run ends, %.0f s later", p.when(p.until)-p.when(end)), false
	}
	return fmt.Sprintf("after %.1f s", after), after <= 5
}

// settled is how many seconds after a change the best line should be followed.
const settled = 5

// followed returns what the access link carried of the best line in a phase, in percent. It starts
// when a change may have been followed; if a phase is too short for that, half-way through.
func (p *played) followed(phase phase) float64 {
	from, until := p.when(phase.from), p.when(phase.until)
	from += min(settled, (until-from)/2)
	return p.Utilization.Between(from, until).Mean() * float64(p.access) / float64(phase.total())
}

// followBest is the goal of scenarios 5 and 6.
func followBest(all []*played) (g experiment.Goals) {
	ours := of(all, window.Groupcast)
	worst, where := math.Inf(1), phase{}
	carried, best := 0., 0.
	for _, one := range ours.best {
		if share := ours.followed(one); share < worst {
			worst, where = share, one
		}
		span := (one.until - one.from).Seconds()
		carried += span * ours.mean(ours.Utilization, one.from, one.until) / 100 * float64(ours.access)
		best += span * float64(one.total())
	}
	g.Add(fmt.Sprintf("the total is within 5 %% of the best line, from %d s after each change on", settled),
		fmt.Sprintf("%.1f %% at worst, from %.0f to %.0f s", worst, where.from.Seconds(), where.until.Seconds()), worst >= 95)
	g.Add("and over the whole run, with what changes cost", fmt.Sprintf("%.1f %%", 100*carried/best), carried >= .95*best)
	return g
}

// phases shows how every controller follows the best line.
func phases(all []*played) []measure.Table {
	t := measure.Table{Title: fmt.Sprintf("The total as a share of the best line, from %d s after each change on, %%", settled), Columns: []string{"thesis's seconds", "best, Mbit/s"}}
	groups := measure.Table{Title: "What the groups had of it, Mbit/s with headers", Columns: []string{"thesis's seconds", "best"}}
	for _, p := range all {
		t.Columns, groups.Columns = append(t.Columns, p.Controller), append(groups.Columns, p.Controller)
	}
	for _, one := range all[0].best {
		name := fmt.Sprintf("%.0f to %.0f", one.from.Seconds(), one.until.Seconds())
		row, shares := []string{name, measure.Short(float64(one.total()) / float64(link.Mbit))}, []string{name, one.divided()}
		for _, p := range all {
			row, shares = append(row, measure.Short(p.followed(one))), append(shares, p.divided(one))
		}
		t.Rows, groups.Rows = append(t.Rows, row), append(groups.Rows, shares)
	}
	return []measure.Table{t, groups}
}

// divided names the groups, and what they have at best.
func (p phase) divided() (text string) {
	for _, name := range []string{"A", "B", "C", "D"} {
		if rate, is := p.groups[name]; is {
			text += fmt.Sprintf("%s %s ", name, measure.Short(float64(rate)/float64(link.Mbit)))
		}
	}
	return text
}

func (p *played) divided(one phase) (text string) {
	settle := min(time.Duration(settled*p.faster*float64(time.Second)), (one.until-one.from)/2)
	for _, name := range p.groups() {
		if _, is := one.groups[name]; is {
			text += fmt.Sprintf("%s %s ", name, measure.Short(p.mean(p.group(name), one.from+settle, one.until)))
		}
	}
	return text
}
