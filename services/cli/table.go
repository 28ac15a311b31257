package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/groupcast/groupcast/internal/printable"
)

// column is a column of a table.
type column[R any] struct {
	title string
	wide  bool // only in wide tables
	cell  func(R) string
	long  bool // cells may have any length: on a terminal they are cut, except in wide tables
	prose bool // cells are sentences: where it is the last column, they go on below on a terminal that is too narrow
}

const (
	// mostCell is how many characters of a long cell a terminal shows, lessCell where the table would not fit otherwise.
	mostCell = 40
	lessCell = 24
	// leastProse is how many characters are wanted for a column of sentences.
	leastProse = 20
	// between is what stands between columns.
	between = "   "
)

// cutMiddle leaves out the middle of a text that has too many characters: how a name begins and ends tells most about it.
func cutMiddle(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := (most - 1) / 2
	return string(runes[:most-1-end]) + "…" + string(runes[len(runes)-end:])
}

// printList writes records in the output format that was asked for. On a terminal that is not wide enough for the table, the spared columns
// are left out, in this order.
func printList[R any](a *app, records []R, columns []column[R], spared ...string) error {
	if records == nil {
		records = []R{} // an empty list, not null
	}
	if done, err := a.printData(records); done {
		return err
	}
	return showTable(a, records, columns, spared...)
}

// printOne writes one record. On a terminal that is not wide enough for its row, it has a line for each column.
func printOne[R any](a *app, record R, columns []column[R]) error {
	if done, err := a.printData(record); done {
		return err
	}
	isWide, records := a.output == "wide", []R{record}
	if width := a.width(); width > 0 {
		if lines, err := fitted(records, columns, nil, isWide, width); err != nil || !fit(lines, width) {
			return printUpright(a.stdout, record, columns, isWide)
		}
	}
	return showTable(a, records, columns)
}

// width returns how many columns the terminal on standard output has; 0 if that is none.
func (a *app) width() int {
	shown := newScreen(a.stdout)
	if shown.terminal == nil {
		return 0
	}
	width, _ := shown.size()
	return width
}

// showTable writes a table, which is made to fit if that is to a terminal, and not wide.
func showTable[R any](a *app, records []R, columns []column[R], spared ...string) error {
	isWide, width := a.output == "wide", a.width()
	if width == 0 {
		return printTable(a.stdout, records, columns, isWide)
	}
	lines, err := laidOut(records, columns, spared, isWide, width)
	if err == nil {
		_, err = fmt.Fprintln(a.stdout, strings.Join(lines, "\n"))
	}
	return err
}

// laidOut returns the lines of a table on a terminal. A wide one has all that there is, though it may not fit.
func laidOut[R any](records []R, columns []column[R], spared []string, wide bool, width int) ([]string, error) {
	if wide {
		spared = nil
	}
	lines, err := fitted(records, columns, spared, wide, width)
	if err != nil || fit(lines, width) {
		return lines, err
	}
	shown := lacking(visible(columns, wide), spared)
	if shown[len(shown)-1].prose {
		lines, err = folded(records, shown, lines, wide, width)
	}
	if wide {
		return lines, err
	}
	for i, line := range lines {
		lines[i] = cutColumns(line, width-1)
	}
	return lines, err
}

// printTable writes a table of which nothing is cut.
func printTable[R any](w io.Writer, records []R, columns []column[R], wide bool) error {
	return writeTable(w, records, columns, wide, 0)
}

// writeTable writes a table in which long cells have at most so many characters; 0 is any number.
func writeTable[R any](w io.Writer, records []R, columns []column[R], wide bool, most int) error {
	table := tabwriter.NewWriter(w, 0, 0, len(between), ' ', 0)
	shown := visible(columns, wide)
	row := func(cell func(column[R]) string) {
		cells := make([]string, len(shown))
		for i, c := range shown {
			cells[i] = cell(c)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row(func(c column[R]) string { return c.title })
	for _, record := range records {
		row(func(c column[R]) string {
			if c.long && most > 0 {
				return cutMiddle(c.text(record), most)
			}
			return c.text(record)
		})
	}
	return table.Flush()
}

func (c column[R]) text(record R) string { return orDash(printable.Text(c.cell(record))) }

// visible returns the columns that a table has.
func visible[R any](columns []column[R], wide bool) []column[R] {
	return slices.DeleteFunc(slices.Clone(columns), func(c column[R]) bool { return c.wide && !wide })
}

// printUpright writes a record as lines, each with the title of a column and what stands in it.
func printUpright[R any](w io.Writer, record R, columns []column[R], wide bool) error {
	table := tabwriter.NewWriter(w, 0, 0, len(between), ' ', 0)
	for _, c := range visible(columns, wide) {
		fmt.Fprintf(table, "%s\t%s\n", c.title, c.text(record))
	}
	return table.Flush()
}

// fitted returns the lines of a table. It shortens long cells, except in wide tables, and then leaves out the spared columns, one after
// the other, until the table is at most so many characters wide.
func fitted[R any](records []R, columns []column[R], spared []string, wide bool, width int) (lines []string, err error) {
	attempt := func(most, left int) bool {
		if wide {
			most = 0
		}
		lines, err = tableLines(records, lacking(columns, spared[:left]), wide, most)
		return err != nil || fit(lines, width)
	}
	if attempt(mostCell, 0) {
		return lines, err
	}
	for left := range len(spared) + 1 {
		if attempt(lessCell, left) {
			break
		}
	}
	return lines, err
}

func tableLines[R any](records []R, columns []column[R], wide bool, most int) ([]string, error) {
	var text strings.Builder
	err := writeTable(&text, records, columns, wide, most)
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n"), err
}

// lacking returns columns without those of some titles.
func lacking[R any](columns []column[R], titles []string) []column[R] {
	return slices.DeleteFunc(slices.Clone(columns), func(c column[R]) bool { return slices.Contains(titles, c.title) })
}

// fit reports whether lines fit on a terminal, whose last column stays empty.
func fit(lines []string, width int) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return span(line) >= width })
}

// folded returns the lines of a table whose last column has sentences, which go on below; the lines as they are if there is no room for that.
func folded[R any](records []R, columns []column[R], lines []string, wide bool, width int) ([]string, error) {
	last, most := len(columns)-1, lessCell
	if wide {
		most = 0
	}
	before, err := tableLines(records, columns[:last], wide, most)
	widest := 0
	for _, line := range before {
		widest = max(widest, span(line))
	}
	room := width - 1 - widest - len(between)
	if err != nil || room < leastProse {
		return lines, err
	}
	var all []string
	for i, line := range before {
		text := columns[last].title
		if i > 0 {
			text = columns[last].text(records[i-1])
		}
		for _, part := range wrapped(text, room) {
			all = append(all, line+strings.Repeat(" ", widest-span(line))+between+part)
			line = ""
		}
	}
	return all, nil
}

// wrapped returns a text as lines of at most so many characters, which end between words; a word that is longer is broken.
func wrapped(text string, most int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && span(line)+1+span(word) <= most {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		runes := []rune(word)
		for ; len(runes) > most; runes = runes[most:] {
			lines = append(lines, string(runes[:most]))
		}
		line = string(runes)
	}
	return append(lines, line)
}
