package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"
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
