package paper000

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/papers/experiment"
)

// paperLike returns figures that agree with the paper's text.
func paperLike() measured {
	m := measured{scale: 5, loads: []float64{0.2, 1}, members: []int{1, 5}, at: map[method]map[point]outcome{byUnicast: {}, byEndToEnd: {}, byHop: {}}}
	for _, p := range m.points() {
		sent := 100 * p.load
		if p.senders == 1 {
			least := 20 * (1 - p.load)
			if p.trunkDelay != delays[0] {
				least /= 5
			}
			m.at[byUnicast][p] = outcome{consumption: min(100, 3*sent*float64(p.members)), sent: sent, reception: least, near: 60, far: 10, sources: 1}
			split := outcome{consumption: 0.96 * sent, sent: sent, reception: 0.95 * sent, near: sent, far: sent, sources: 1, cache: 0.05}
			m.at[byHop][p], m.at[byEndToEnd][p] = split, split
			continue
		}
		m.at[byUnicast][p] = outcome{consumption: 70, sent: sent, reception: 30 * (1 - p.load), sources: 3}
		m.at[byHop][p] = outcome{consumption: sent, sent: sent, reception: 50 * (1 - p.load), sources: 3, cache: 0.8 * p.load}
		m.at[byEndToEnd][p] = outcome{consumption: min(60, sent), sent: sent, reception: 50, sources: 3, cache: 0.3 * p.load}
	}
	return m
}

func TestVerdictsOnThePapersOwnFiguresAreYes(t *testing.T) {
	for _, row := range paperLike().verdicts().Rows {
		if row[2] != "yes" {
			t.Errorf("%s: %s, seen %s", row[2], row[0], row[1])
		}
	}
}

// A run may have only some of the points: sentences that speak of none of them have no verdict.
func TestSentencesOfNoPointHaveNoVerdict(t *testing.T) {
	few := paperLike()
	few.loads, few.members = []float64{1}, []int{1}
	without := 0
	for _, row := range few.verdicts().Rows {
		switch row[2] {
		case "not measured":
			without++
		case "yes":
		default:
			t.Errorf("%s: %s, seen %s", row[2], row[0], row[1])
		}
	}
	if without == 0 {
		t.Error("one member in each network is said to be enough for all")
	}
}

// refused returns the sentences that do not hold everywhere, with what is said instead of yes.
func (m measured) refused() (list []string) {
	for _, row := range m.verdicts().Rows {
		if row[2] != "yes" {
			list = append(list, row[2]+": "+row[0]+": "+row[1])
		}
	}
	return list
}

// Each sentence is checked at all points that it is about: a single point at which it fails is reported.
func TestVerdictLooksAtEveryPoint(t *testing.T) {
	for name, tt := range map[string]struct {
		how    method
		at     func(measured) point
		change func(*outcome)
		want   []string
	}{
		"what end-to-end caches": {
			byEndToEnd, func(m measured) point { return m.many(delays[1], 1) }, func(o *outcome) { o.cache = 0.75 },
			[]string{"at 3 of 4 points: V-C: with four senders end-to-end suppresses the cache ratio"},
		},
		"less, but by less than a tenth": {
			byEndToEnd, func(m measured) point { return m.many(delays[0], 1) }, func(o *outcome) { o.cache = 0.78 },
			[]string{"at 3 of 4 points: V-C: with four senders end-to-end suppresses the cache ratio"},
		},
		"a cache with many members": {
			byHop, func(m measured) point { return m.one(5, delays[0], 1) }, func(o *outcome) { o.cache = 0.125 },
			[]string{"at 7 of 8 points: V-C: with one sender the cache ratio is below 10 %"},
		},
		"a cache on a long way": {
			byHop, func(m measured) point { return m.one(1, delays[1], 0.2) }, func(o *outcome) { o.cache = 0.58 },
			[]string{"at 7 of 8 points: V-C: with one sender the cache ratio is below 10 %", "at 3 of 4 points: V-C: with four senders it is higher"},
		},
		"far members that get as much": {
			byUnicast, func(m measured) point { return m.one(1, delays[0], 0.2) }, func(o *outcome) { o.far = 59.5 },
			[]string{"at 7 of 8 points: V-A: with the traditional method a member with a longer round trip"},
		},
		"near members that take half": {
			byUnicast, func(m measured) point { return m.one(5, delays[1], 1) }, func(o *outcome) { o.far = 30 },
			[]string{"at 3 of 4 points: V-A: with a high load members with short round trips"},
		},
		"competition that takes nothing": {
			byUnicast, func(m measured) point { return m.many(delays[1], 1) }, func(o *outcome) { o.reception = 24 },
			[]string{"at 1 of 2 points: V-B: the traditional reception throughput falls"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := paperLike()
			o := m.at[tt.how][tt.at(m)]
			tt.change(&o)
			m.at[tt.how][tt.at(m)] = o
			got := m.refused()
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("refused %q, want %q", got, tt.want)
			}
			for _, refused := range got {
				if !strings.Contains(refused, ": not with ") {
					t.Errorf("%q does not say where", refused)
				}
			}
		})
	}
}

func TestVerdictThatHoldsNowhereIsNo(t *testing.T) {
	m := paperLike()
	for _, p := range m.together() {
		o := m.at[byEndToEnd][p]
		o.cache = 0.9
		m.at[byEndToEnd][p] = o
	}
	if got := m.refused(); len(got) != 1 || !strings.HasPrefix(got[0], "no: V-C: with four senders end-to-end suppresses") {
		t.Errorf("refused %q", got)
	}
}

// Every method is measured where the figures show it, and everything that the verdicts use is measured.
func TestPointsOfSplitAreMeasuredOnce(t *testing.T) {
	m := measured{scale: splitScale, loads: splitLoads, members: []int{1, 3, 5}}
	seen, runs := map[point]bool{}, 0
	for _, p := range m.points() {
		if seen[p] {
			t.Errorf("%v twice", p)
		}
		seen[p] = true
		runs += len(m.methodsAt(p))
	}
	if len(seen) != 20 || runs != 76 {
		t.Errorf("%d points and %d runs", len(seen), runs)
	}
	for _, delay := range delays {
		for _, load := range m.ends() {
			for _, p := range []point{m.one(1, delay, load), m.one(3, delay, load), m.one(5, delay, load), m.many(delay, load)} {
				if !seen[p] {
					t.Errorf("%v is not measured", p)
				}
			}
		}
	}
}

func TestReportHasAllFigures(t *testing.T) {
	r := paperLike().report(experiment.Options{Runs: 1, Duration: time.Second})
	if len(r.Charts) != 7 {
		t.Errorf("%d charts, want figures 6 to 12", len(r.Charts))
	}
	if text := r.Markdown(); !strings.Contains(text, "| Node-Node | 4 | 1 | 10ms | 1 |") {
		t.Errorf("no row for four senders:\n%s", text)
	}
}
