package paper000

import (
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/papers/experiment"
)

// paperLike is what the paper's text says, as figures.
func paperLike() measured {
	m := measured{scale: 5, loads: []float64{0.2, 1}, members: []int{1, 5}, at: map[method]map[point]outcome{byUnicast: {}, byEndToEnd: {}, byHop: {}}}
	for _, p := range m.points() {
		sent := 100 * p.load
		if p.senders == 1 {
			m.at[byUnicast][p] = outcome{consumption: min(100, 3*sent*float64(p.members)), sent: sent, reception: 20 * (1 - p.load), sources: 1}
			split := outcome{consumption: sent, sent: sent, reception: 0.95 * sent, sources: 1, cache: 0.05}
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

func TestVerdictSaysNo(t *testing.T) {
	m := paperLike()
	o := m.at[byEndToEnd][m.many(1)]
	o.cache = 0.9
	m.at[byEndToEnd][m.many(1)] = o
	var no []string
	for _, row := range m.verdicts().Rows {
		if row[2] == "no" {
			no = append(no, row[0])
		}
	}
	if len(no) != 1 || !strings.Contains(no[0], "suppresses the cache ratio") {
		t.Errorf("no: %q", no)
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
