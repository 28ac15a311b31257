// Command papers reruns the experiments of the papers on the network lab.
//
//	papers list
//	papers run [-seed N] [-duration D] [-runs N] [-loads L,L] [-members N,N] [-scale N] [-png] [-results FOLDER] PAPER[/EXPERIMENT]...
//	papers draw FOLDER...
//
// A run replaces the folder of its results; draw makes tables and charts again from the figures in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/groupcast/groupcast/e2e/lab/measure"
	"github.com/groupcast/groupcast/e2e/papers/experiment"
	"github.com/groupcast/groupcast/e2e/papers/paper000"
	"github.com/groupcast/groupcast/e2e/papers/paper001"
	"github.com/groupcast/groupcast/e2e/papers/paper002"
	"github.com/groupcast/groupcast/e2e/papers/paper003"
	"github.com/groupcast/groupcast/e2e/papers/paper004"
	"github.com/groupcast/groupcast/internal/testprocess"
)

var experiments = []experiment.Experiment{
	paper000.Traditional,
	paper000.Split,
	paper001.Traditional,
	paper001.Gathered,
	paper001.Scenario2,
	paper001.Scenario3,
	paper001.Scenario4,
	paper001.Scenario5,
	paper001.Scenario6,
	paper002.Parallel,
	paper002.Children,
	paper002.Neighbour,
	paper002.Start,
	paper003.Targets,
	paper003.Model1,
	paper003.Model2,
	paper003.Versions,
	paper004.Congested,
	paper004.Wired,
	paper004.Joined,
	paper004.Feedback,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	testprocess.Remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: papers run [flags] PAPER[/EXPERIMENT]... | papers draw FOLDER... | papers list")

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
	case "draw":
		return draw(arguments[1:])
	default:
		return errUsage
	}
}

func list() {
	for _, e := range experiments {
		fmt.Printf("%-24s %s\n", e.ID(), e.About)
	}
}

type settings struct {
	experiment.Options
	results string
	png     bool
}

func runSome(ctx context.Context, arguments []string) error {
	s := settings{Options: experiment.Options{Origin: measure.Here(), Progress: progress}}
	flags := flag.NewFlagSet("papers run", flag.ContinueOnError)
	flags.Uint64Var(&s.Seed, "seed", 1, "from which all that is random follows")
	flags.DurationVar(&s.Duration, "duration", 0, "of one run; 0 is as long as the experiment has it")
	flags.IntVar(&s.Runs, "runs", 0, "that a point is the mean of; 0 is as many as the experiment has")
	flags.IntVar(&s.Scale, "scale", 0, "by which rates and sizes are smaller than the paper's, where an experiment can; 0 is as the experiment has it")
	flags.Func("loads", "of traffic, with commas, where an experiment varies it", s.setLoads)
	flags.Func("members", "in each network, with commas, where an experiment varies their number", s.setMembers)
	flags.StringVar(&s.results, "results", "e2e/papers/results", "`folder` to write to")
	flags.BoolVar(&s.png, "png", false, "draw the charts as PNG too")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	for _, e := range chosen {
		if err := s.runOne(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", e.ID(), err)
		}
	}
	return nil
}

func (s *settings) setLoads(text string) error {
	for field := range strings.SplitSeq(text, ",") {
		load, err := strconv.ParseFloat(field, 64)
		if err != nil || load <= 0 || load > 1 {
			return fmt.Errorf("%q is no load: want more than 0, 1 at most", field)
		}
		s.Loads = append(s.Loads, load)
	}
	return nil
}

func (s *settings) setMembers(text string) error {
	for field := range strings.SplitSeq(text, ",") {
		members, err := strconv.Atoi(field)
		if err != nil || members < 1 || members > 5 {
			return fmt.Errorf("%q is no number of members: want 1 to 5", field)
		}
		s.Members = append(s.Members, members)
	}
	return nil
}

func (s settings) runOne(ctx context.Context, e experiment.Experiment) error {
	progress("%s: %s", e.ID(), e.About)
	result, err := e.Run(ctx, s.Options)
	if err != nil {
		return err
	}
	folder := filepath.Join(s.results, e.Paper, e.Name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := result.Write(folder); err != nil {
		return err
	}
	progress("%s: written to %s", e.ID(), folder)
	if s.png {
		return result.Draw(folder, ".png")
	}
	return nil
}

func draw(folders []string) error {
	for _, folder := range folders {
		result, err := measure.Read(folder)
		if err != nil {
			return err
		}
		if err := result.Write(folder); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the experiments that are named, singly or by their paper.
func choose(names []string) ([]experiment.Experiment, error) {
	var chosen []experiment.Experiment
	for _, name := range names {
		before := len(chosen)
		for _, e := range experiments {
			if e.Paper == name || e.ID() == strings.TrimSuffix(name, "/") {
				chosen = append(chosen, e)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no experiment is called %s; see papers list", name)
		}
	}
	if len(chosen) == 0 {
		return nil, errUsage
	}
	return chosen, nil
}

func progress(format string, arguments ...any) { fmt.Fprintf(os.Stderr, format+"\n", arguments...) }
