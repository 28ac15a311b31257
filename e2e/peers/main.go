// Command peers compares tools that get one file, or what has changed in a directory, to many receivers.
//
//	peers list
//	peers run [-size MiB] [-runs N] [-tools a,b] [-results FOLDER] [PLACE...]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/peers/tool"
	"github.com/groupcast/groupcast/internal/testprocess"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	testprocess.Remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: peers list | peers run [flags] [PLACE...]")

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return errUsage
	}
	switch arguments[0] {
	case "list":
		list()
		return nil
	case "run":
		return runSome(ctx, arguments[1:])
	default:
		return errUsage
	}
}

func list() {
	for _, p := range places {
		fmt.Printf("%-10s %s\n", p.name, p.about)
	}
	for _, t := range tool.All() {
		state := "installed"
		if missing := tool.Missing(t); len(missing) > 0 {
			state = "missing: " + strings.Join(missing, ", ")
		}
		fmt.Printf("%-20s %s\n", t.Name(), state)
	}
}

// settings are the caller's choices.
type settings struct {
	size    link.Bytes
	runs    int
	seed    uint64
	tools   []tool.Tool
	results string
	origin  measure.Origin
}

func runSome(ctx context.Context, arguments []string) error {
	s := settings{origin: measure.Here()}
	flags := flag.NewFlagSet("peers run", flag.ContinueOnError)
	size := flags.Int64("size", 0, "of the file or directory, in `MiB`; 0 is what the place has")
	flags.IntVar(&s.runs, "runs", 3, "of which the median counts")
	flags.Uint64Var(&s.seed, "seed", 1, "of what is sent and of the network")
	names := flags.String("tools", "", "`names` to compare, or their first words, with commas; empty is all")
	flags.StringVar(&s.results, "results", "e2e/peers/results", "`folder` to write to")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	s.size, s.tools = link.Bytes(*size)*link.MiB, chooseTools(*names)
	if len(s.tools) == 0 {
		return fmt.Errorf("no tool is called %s; see peers list", *names)
	}
	chosen, err := choosePlaces(flags.Args())
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if err := s.comparePlace(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func chooseTools(names string) []tool.Tool {
	var chosen []tool.Tool
	wanted := strings.Split(names, ",")
	for _, t := range tool.All() {
		first, _, _ := strings.Cut(t.Name(), " ")
		if names == "" || slices.Contains(wanted, first) || slices.Contains(wanted, t.Name()) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

func choosePlaces(names []string) ([]place, error) {
	if len(names) == 0 {
		return places, nil
	}
	var chosen []place
	for _, name := range names {
		i := slices.IndexFunc(places, func(p place) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no place is called %s; see peers list", name)
		}
		chosen = append(chosen, places[i])
	}
	return chosen, nil
}

func (s settings) comparePlace(ctx context.Context, p place) error {
	progress("%s: %s", p.name, p.about)
	rows, err := s.compare(ctx, p.among(s.tools), p)
	if err != nil {
		return err
	}
	for _, r := range rows {
		progress("  %-24s %s", r.tool, r)
	}
	return s.report(p, rows).Write(filepath.Join(s.results, p.name))
}

func progress(format string, arguments ...any) { fmt.Fprintf(os.Stderr, format+"\n", arguments...) }
