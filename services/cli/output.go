package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/printable"
)

var outputs = []string{"table", "wide", "json", "yaml"}

func (a *app) checkOutput() error {
	if !slices.Contains(outputs, a.output) {
		return usageError{fmt.Errorf("--output %q is not one of %s", a.output, strings.Join(outputs, ", "))}
	}
	return nil
}

// outlastReaders has a command end in order, or go on, when nobody reads its output any more: writes fail then. By default Go would end
// the process, and with it what it has begun.
func outlastReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// column is a column of a table.
type column[R any] struct {
	title string
	wide  bool // only in wide tables
	cell  func(R) string
	long  bool // cells may have any length: they are cut, except in wide tables
}

// mostCell is how many characters of a long cell a table shows.
const mostCell = 40

// cutMiddle leaves out the middle of a text that has too many characters: how a name begins and ends tells most about it.
func cutMiddle(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := (most - 1) / 2
	return string(runes[:most-1-end]) + "…" + string(runes[len(runes)-end:])
}

// printList writes records in the output format that was asked for.
func printList[R any](a *app, records []R, columns []column[R]) error {
	if records == nil {
		records = []R{} // an empty list, not null
	}
	if done, err := a.printData(records); done {
		return err
	}
	return printTable(a.stdout, records, columns, a.output == "wide")
}

// printOne writes one record.
func printOne[R any](a *app, record R, columns []column[R]) error {
	if done, err := a.printData(record); done {
		return err
	}
	return printTable(a.stdout, []R{record}, columns, a.output == "wide")
}

// printData writes JSON or YAML if that was asked for, and reports whether it has.
func (a *app) printData(value any) (done bool, err error) {
	switch a.output {
	case "json":
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		return true, encoder.Encode(value)
	case "yaml":
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = a.stdout.Write(text)
		}
		return true, err
	}
	return false, nil
}

func printTable[R any](w io.Writer, records []R, columns []column[R], wide bool) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(cell func(column[R]) string) {
		var cells []string
		for _, c := range columns {
			if wide || !c.wide {
				cells = append(cells, cell(c))
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row(func(c column[R]) string { return c.title })
	for _, record := range records {
		row(func(c column[R]) string {
			text := orDash(printable.Text(c.cell(record)))
			if c.long && !wide {
				return cutMiddle(text, mostCell)
			}
			return text
		})
	}
	return table.Flush()
}

// fitted returns the lines of a table. It leaves out the spared columns, one after the other, until the table is at most so many
// characters wide.
func fitted[R any](records []R, columns []column[R], spared []string, wide bool, width int) (lines []string, err error) {
	for left := range len(spared) + 1 {
		kept := slices.DeleteFunc(slices.Clone(columns), func(c column[R]) bool { return slices.Contains(spared[:left], c.title) })
		var text strings.Builder
		if err := printTable(&text, records, kept, wide); err != nil {
			return nil, err
		}
		lines = strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
		if !slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) >= width }) {
			break
		}
	}
	return lines, nil
}

// event writes one step of a stream: a JSON line, a YAML document, or a line for people.
func (a *app) event(value any, line string) error {
	switch a.output {
	case "json":
		return json.NewEncoder(a.stdout).Encode(value)
	case "yaml":
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = fmt.Fprintf(a.stdout, "---\n%s", text)
		}
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
	return err
}

// paint colours text on a terminal, unless NO_COLOR is set.
func (a *app) paint(color int, text string) string {
	file, isFile := a.stdout.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", color, text)
}

// Terminal colours.
const (
	red    = 31
	green  = 32
	yellow = 33
)

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// plural counts something, in the singular or the plural.
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// isAre is plural with the verb.
func isAre(n int, what string) string {
	if n == 1 {
		return plural(n, what) + " is"
	}
	return plural(n, what) + " are"
}

func age(since time.Time) string {
	if since.IsZero() || since.Unix() == 0 {
		return ""
	}
	passed := max(time.Since(since), 0)
	switch {
	case passed < time.Minute:
		return fmt.Sprintf("%ds", int(passed.Seconds()))
	case passed < time.Hour:
		return fmt.Sprintf("%dm", int(passed.Minutes()))
	case passed < 48*time.Hour:
		return fmt.Sprintf("%dh", int(passed.Hours()))
	}
	return fmt.Sprintf("%dd", int(passed.Hours()/24))
}

func join[S ~string](items []S) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, ",")
}

func labels(from map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(from)) {
		pairs = append(pairs, key+"="+from[key])
	}
	return strings.Join(pairs, ",")
}
