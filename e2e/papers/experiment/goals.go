package experiment

import "github.com/groupcast/groupcast/e2e/lab/measure"

// Goal is something that an experiment should show, and what was seen.
type Goal struct {
	Wanted, Seen string
	Reached      bool
}

// Goals are the goals of one experiment.
type Goals []Goal

// Add adds a goal.
func (g *Goals) Add(wanted, seen string, reached bool) { *g = append(*g, Goal{wanted, seen, reached}) }

// Table is the goals as a table.
func (g Goals) Table() measure.Table {
	t := measure.Table{Title: "Goals, and what the paper says", Columns: []string{"wanted", "seen", "reached"}}
	for _, one := range g {
		t.Rows = append(t.Rows, []string{one.Wanted, one.Seen, map[bool]string{true: "yes", false: "no"}[one.Reached]})
	}
	return t
}

// Tell reports all goals, one line each.
func (g Goals) Tell(progress func(format string, args ...any)) {
	for _, one := range g {
		progress("  %s: %s: reached %v", one.Wanted, one.Seen, one.Reached)
	}
}
