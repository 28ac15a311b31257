package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

var clientColumns = []column[gather.ClientStatus]{
	{title: "CLIENT", cell: func(c gather.ClientStatus) string { return c.Name }},
	{title: "PRIORITY", cell: func(c gather.ClientStatus) string { return fmt.Sprint(c.Share.Priority) }},
	{title: "TARGET", cell: func(c gather.ClientStatus) string { return rateOf(uint64(c.Share.Target)) }},
	{title: "RATE", cell: func(c gather.ClientStatus) string { return unlessPaused(c, rateOf(c.Rate)) }},
	{title: "ROUND TRIP", cell: func(c gather.ClientStatus) string { return milliseconds(c.RTT) }},
	{title: "WINDOW", cell: func(c gather.ClientStatus) string { return bytesize.Short(c.Window) }},
	{title: "CONNECTIONS", cell: func(c gather.ClientStatus) string { return fmt.Sprintf("%d of %d", c.Connections, max(c.Wanted, 1)) }},
	{title: "STATE", cell: func(c gather.ClientStatus) string { return clientState(c) }},
	{title: "HELD UP", cell: func(c gather.ClientStatus) string { return unlessPaused(c, c.Bottleneck) }},
	{title: "WHY", wide: true, cell: func(c gather.ClientStatus) string { return unlessPaused(c, c.Reason) }},
	{title: "UPLOADS", wide: true, cell: func(c gather.ClientStatus) string { return fmt.Sprint(c.Uploads) }},
	{title: "RECEIVED", wide: true, cell: func(c gather.ClientStatus) string { return bytesize.Short(c.Received) }},
}

// clientsSpared are the columns that are left out, in this order, on a terminal that is not wide enough for all.
var clientsSpared = []string{"ROUND TRIP", "WINDOW", "CONNECTIONS", "PRIORITY", "HELD UP"}

func clientState(c gather.ClientStatus) string {
	switch {
	case !c.Attached:
		return "gone"
	case c.Paused != "":
		return "paused: " + strings.ReplaceAll(c.Paused, "_", " ")
	case c.Connections == 0:
		return "idle"
	}
	return c.State
}

// unlessPaused is a cell about a client that is empty while the client is paused: its state says why then.
func unlessPaused(c gather.ClientStatus, said string) string {
	if c.Paused != "" {
		return ""
	}
	return said
}

// rateOf writes bytes per second the way network speeds are given.
func rateOf(bytesPerSecond uint64) string {
	bits := float64(bytesPerSecond) * 8
	switch {
	case bytesPerSecond == 0:
		return ""
	case bits >= 1e9:
		return fmt.Sprintf("%.2f Gbit/s", bits/1e9)
	case bits >= 1e6:
		return fmt.Sprintf("%.2f Mbit/s", bits/1e6)
	}
	return fmt.Sprintf("%.0f kbit/s", bits/1e3)
}

func milliseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
}

func (a *app) gatherCommand() *cobra.Command {
	command := &cobra.Command{Use: "gather", Short: "See and decide what a gatherer's clients get"}
	policy := &cobra.Command{Use: "policy", Short: "Read and set who is to get what"}
	policy.AddCommand(a.gatherPolicyGet(), a.gatherPolicySet())
	command.AddCommand(a.gatherClients(), a.gatherWatch(), policy)
	return command
}

// withGatherer makes an operator's command that talks to a gatherer.
func (a *app) withGatherer(command *cobra.Command, do func(ctx context.Context, client *gather.Client, args []string) error) *cobra.Command {
	var to string
	a.gathererFlags(command, &to)
	command.RunE = func(command *cobra.Command, args []string) error {
		client, err := a.gatherer(command.Context(), to, gather.Options{})
		if err != nil {
			return err
		}
		defer client.Close()
		return forOperators(do(command.Context(), client, args))
	}
	return command
}

// forOperators adds to a gatherer's refusal that the call is for operators.
func forOperators(err error) error {
	var reported *sdk.Error
	if errors.As(err, &reported) && reported.Reason == "DENIED" && strings.HasSuffix(reported.Message, "not allowed") {
		return fmt.Errorf("%w (it is for operators)", err)
	}
	return err
}

// bounded ends a call after the time that calls may take.
func (a *app) bounded(do func(ctx context.Context, client *gather.Client, args []string) error) func(context.Context, *gather.Client, []string) error {
	return func(ctx context.Context, client *gather.Client, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		defer a.sayNoGatherer()()
		return do(ctx, client, args)
	}
}

// sayNoGatherer tells the user, unless it is stopped before, that the command waits for a gatherer: a call that reaches nobody is tried
// again for some seconds before it fails.
func (a *app) sayNoGatherer() (stop func() bool) {
	return time.AfterFunc(answerPatience, func() {
		fmt.Fprintf(a.stderr, "no gatherer has answered yet; there should be one at %s\n", a.gathererAt)
	}).Stop
}

func (a *app) gatherClients() *cobra.Command {
	command := &cobra.Command{Use: "clients", Short: "List the clients: what each should get, and gets", Args: cobra.NoArgs}
	return a.withGatherer(command, a.bounded(func(ctx context.Context, client *gather.Client, _ []string) error {
		all, err := client.Clients(ctx)
		if err != nil {
			return err
		}
		return printList(a, all.Clients, clientColumns, clientsSpared...)
	}))
}

func (a *app) gatherWatch() *cobra.Command {
	command := &cobra.Command{
		Use: "watch", Short: "Watch what the clients get, round by round", Args: cobra.NoArgs,
		Long: `Shows all clients after every round, in which the gatherer measures what each gets and
decides what it is to get: on a terminal as a table that is drawn again. Elsewhere it writes
a line for each client that stands otherwise than before, with two spaces between when, who,
its rate, its target and its state; (all) is all of them, with what the link carries.`,
	}
	return a.withGatherer(command, func(ctx context.Context, client *gather.Client, _ []string) error {
		shown, changes := newScreen(a.stdout), make(clientChanges)
		defer shown.end()
		answered := a.sayNoGatherer()
		defer answered()
		return a.keepWatching(ctx, shown, func(seen func()) error {
			return a.watchClients(ctx, client, shown, changes, func() {
				answered()
				seen()
			})
		})
	})
}

// keepWatching watches again while a gatherer that was seen is away, and says so once each time. Every watch ends after a while: that is
// only told if the next does not begin at once.
func (a *app) keepWatching(ctx context.Context, shown *screen, watch func(seen func()) error) error {
	begun, told := false, false
	for {
		from, here := time.Now(), false
		err := watch(func() {
			if told && shown.terminal == nil { // a terminal shows what it says
				fmt.Fprintln(a.stderr, "the gatherer is back")
			}
			begun, here, told = true, true, false
		})
		switch {
		case !begun || sdk.CodeOf(err) != sdk.Unavailable || ctx.Err() != nil:
			return interrupted(ctx, err)
		case here && time.Since(from) > awayPause:
			continue
		case !told:
			told = true
			shown.end() // draw below the line from now on
			fmt.Fprintf(a.stderr, "the gatherer is away, and is asked again: %v\n", err)
		}
		if !pause.For(ctx, awayPause) {
			return interrupted(ctx, ctx.Err())
		}
	}
}

// awayPause is how long to wait before a gatherer that is away is asked again.
const awayPause = 2 * time.Second

// watchClients shows all clients until the watch ends, and calls seen each time.
func (a *app) watchClients(ctx context.Context, client *gather.Client, shown *screen, changes clientChanges, seen func()) error {
	for all, err := range client.Watch(ctx) {
		if err != nil {
			return err
		}
		seen()
		if err := a.showClients(shown, changes, all); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showClients(shown *screen, changes clientChanges, all gather.Snapshot) error {
	switch {
	case a.output == "json" || a.output == "yaml":
		return a.event(all, "")
	case shown.terminal == nil:
		for _, line := range changes.in(all) {
			if err := a.event(all, line); err != nil {
				return err
			}
		}
		return nil
	}
	line := fmt.Sprintf("%s: %s of %s, windows of %s", all.Controller, orDash(rateOf(all.Received)), orDash(rateOf(all.Available)), bytesize.Short(all.Window))
	width, height := shown.size()
	table, err := clientTable(all.Clients, a.output == "wide", width, height-2) // the line above it, and the cursor's
	if err != nil {
		return err
	}
	shown.drawLines(append([]string{line}, table...))
	return nil
}

// clientTable draws clients for a screen that has room for so many lines.
func clientTable(clients []gather.ClientStatus, wide bool, width, fit int) ([]string, error) {
	table, err := fitted(clients, clientColumns, clientsSpared, wide, width)
	if err != nil {
		return nil, err
	}
	rows := within(table[1:], max(fit-1, 1), func(left int) string { return togetherLine(clients[len(clients)-left:]) })
	return append(table[:1:1], rows...), nil
}

// togetherLine says what some clients get together.
func togetherLine(clients []gather.ClientStatus) string {
	rate, paused := uint64(0), 0
	for _, c := range clients {
		rate += c.Rate
		if c.Attached && c.Paused != "" {
			paused++
		}
	}
	return fmt.Sprintf("%s together, %d paused", cmp.Or(rateOf(rate), "nothing"), paused)
}

func (a *app) gatherPolicyGet() *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Write the policy, as YAML that can be set again", Args: cobra.NoArgs}
	return a.withGatherer(command, a.bounded(func(ctx context.Context, client *gather.Client, _ []string) error {
		policy, _, err := client.Policy(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"json", "yaml"}, a.output) {
			a.output = "yaml"
		}
		_, err = a.printData(policy)
		return err
	}))
}

func (a *app) gatherPolicySet() *cobra.Command {
	command := &cobra.Command{
		Use: "set FILE|-", Short: "Set the policy from a YAML file", Args: cobra.ExactArgs(1),
		Long: `Sets who gets what. The first rule that fits a client holds for it; default is for the
others. It holds from the next half second on. Rates are bytes per second.

  rules:
  - clients: [ward-*]        # names, with * and ?
    target: 125kB            # what they should get,
    minimum: 60kB            # and get even where targets do not fit
    priority: 1              # the higher comes first
  - groups: [archive]        # that the managers let the client join
    max: 1MB
    maxConnections: 2
    maxStored: 100GiB        # on the gatherer's disk
  - labels: {site: b}        # all that a rule names must fit
    target: 30kB
  default: {target: 62kB}
  trustLabels: false         # whether labels count that clients say of themselves
  link: 0                    # what the link carries; 0 is found out
  admission: admit           # or, with a link: queue, refuse`,
	}
	var policy gather.Policy
	a.withGatherer(command, a.bounded(func(ctx context.Context, client *gather.Client, _ []string) error {
		revision, err := client.SetPolicy(ctx, policy, 0)
		if err == nil {
			fmt.Fprintf(a.stderr, "policy set, revision %d\n", revision)
		}
		return err
	}))
	set := command.RunE
	command.RunE = func(command *cobra.Command, args []string) (err error) {
		if policy, err = readPolicy(command.Context(), args[0]); err != nil {
			return err
		}
		return set(command, args)
	}
	return command
}

// readPolicy reads a policy to its end, however long the user takes to write it.
func readPolicy(ctx context.Context, name string) (gather.Policy, error) {
	text, err := readAll(ctx, name)
	if err != nil {
		return gather.Policy{}, err
	}
	policy, err := gather.ParsePolicy(text)
	if err != nil && name != "-" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return policy, err
}

// maxPolicyText is how many bytes a policy may have.
const maxPolicyText = 4 << 20

// readAll reads a file, or standard input until ctx is done.
func readAll(ctx context.Context, name string) ([]byte, error) {
	from := io.NopCloser(&until{ctx, os.Stdin})
	if name != "-" {
		var err error
		if from, err = os.Open(name); err != nil {
			return nil, usageError{err}
		}
		defer from.Close()
	}
	text, err := io.ReadAll(io.LimitReader(from, maxPolicyText+1))
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	if err == nil && len(text) > maxPolicyText {
		err = usageError{errors.New("the policy is longer than 4 MiB")}
	}
	return text, err
}
