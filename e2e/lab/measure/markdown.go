package measure

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Markdown is the result for people.
func (r *Result) Markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n%s\n\n%s\n", r.Title, strings.TrimSpace(r.About), r.Origin.sentence(r.Seed))
	for _, chart := range r.Charts {
		fmt.Fprintf(&text, "\n![%s](%s.svg)\n", chart.Title, chart.File)
	}
	for _, table := range r.allTables() {
		text.WriteString("\n" + table.Markdown())
	}
	return text.String()
}

func (o Origin) sentence(seed uint64) string {
	return fmt.Sprintf("Measured at commit %s on %s, %d cores, %s, Go %s, seed %d.",
		o.Commit, o.Processor, o.Cores, o.Kernel, o.Go, seed)
}

// allTables are the result's own tables and those of values, flows, links and programs.
func (r *Result) allTables() []Table {
	var tables []Table
	for _, t := range append([]Table{r.values()}, append(r.Tables, r.flows(), r.ways(), r.programs())...) {
		if len(t.Rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

func (r *Result) values() Table {
	t := Table{Title: "Figures", Columns: []string{"", "value", "unit"}}
	for _, v := range r.Values {
		t.Rows = append(t.Rows, []string{v.Name, Short(v.Number), v.Unit})
	}
	return t
}

func (r *Result) flows() Table {
	t := Table{Title: "Flows", Columns: []string{"flow", "congestion control", "MB", "mean Mbit/s"}}
	for _, f := range r.Flows {
		t.Rows = append(t.Rows, []string{f.Name, f.Congestion, Short(float64(f.Bytes) / 1e6), Short(f.Throughput.Mean())})
	}
	return t
}

func (r *Result) ways() Table {
	t := Table{Title: "Links", Columns: []string{
		"direction", "packets", "MB", "queue drops", "lost", "mean queue, packets", "longest queue", "emulator late, 99 %, µs",
	}}
	for _, w := range r.Links {
		t.Rows = append(t.Rows, []string{
			w.Name, strconv.FormatInt(w.Count.Carried.Packets, 10), Short(float64(w.Count.Carried.Bytes) / 1e6),
			strconv.FormatInt(w.Count.Overflowed.Packets, 10), strconv.FormatInt(w.Count.Lost.Packets, 10),
			Short(w.MeanQueue), strconv.Itoa(w.Count.Longest), Short(w.Late99),
		})
	}
	return t
}

func (r *Result) programs() Table {
	t := Table{Title: "Programs", Columns: []string{"program", "host", "processor seconds", "peak memory, MiB"}}
	for _, p := range r.Programs {
		t.Rows = append(t.Rows, []string{p.Name, p.Host, Short(p.Processor), Short(float64(p.PeakMemory) / float64(link.MiB))})
	}
	return t
}

// Markdown is the table for people.
func (t Table) Markdown() string {
	var text strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&text, "## %s\n\n", t.Title)
	}
	row := func(cells []string) { fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | ")) }
	row(t.Columns)
	rule := make([]string, len(t.Columns))
	for i := range rule {
		rule[i] = "---:"
	}
	if len(rule) > 0 {
		rule[0] = "---"
	}
	row(rule)
	for _, cells := range t.Rows {
		row(cells)
	}
	return text.String()
}

// Short writes a number with three or four significant digits.
func Short(number float64) string {
	if number >= 1000 || number <= -1000 {
		return strconv.FormatFloat(number, 'f', 0, 64)
	}
	return strconv.FormatFloat(number, 'g', 3, 64)
}
