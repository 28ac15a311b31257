package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

var replicationColumns = []column[sdk.Replication]{
	{title: "ID", cell: shortReplicationID},
	{title: "NAME", long: true, cell: replicationName},
	{title: "SENDER", cell: func(r sdk.Replication) string { return r.Sender }},
	{title: "ON", long: true, cell: func(r sdk.Replication) string { return r.Spec.Selector }},
	{title: "STATE", cell: replicationState},
	{title: "COMPLETE", cell: func(r sdk.Replication) string { return fmt.Sprintf("%d/%d", r.Complete, r.ReplicaCount) }},
	{title: "SIZE", cell: replicationSize},
	{title: "AGE", cell: func(r sdk.Replication) string { return age(r.Created) }},
	{title: "SOURCE", wide: true, cell: func(r sdk.Replication) string { return r.Spec.SourcePath }},
	{title: "TO", wide: true, cell: func(r sdk.Replication) string { return r.Spec.TargetPath }},
	{title: "SLOW", wide: true, cell: func(r sdk.Replication) string { return string(r.Spec.Slow) }},
	{title: "ROOT", wide: true, cell: func(r sdk.Replication) string { return fmt.Sprintf("%x", r.Root) }},
}

// shortReplicationID returns enough of an id to name the replication by.
func shortReplicationID(r sdk.Replication) string { return fmt.Sprintf("%.8s", r.ID) }

// replicationName returns the name of the source: until the sender has opened it, its path.
func replicationName(r sdk.Replication) string {
	return printable.Text(cmp.Or(r.Name, path.Base(r.Spec.SourcePath)))
}

func replicationState(r sdk.Replication) string {
	if r.Reason == "" {
		return strings.ToUpper(string(r.State))
	}
	return fmt.Sprintf("%s(%s)", strings.ToUpper(string(r.State)), r.Reason)
}

// replicationSize returns how long the source is, which is not known until the sender has opened it.
func replicationSize(r sdk.Replication) string {
	if r.Name == "" {
		return ""
	}
	return bytesize.Short(r.Length)
}

// legs says how many replicas are on which LANs.
func legs(r sdk.Replication) string {
	var all []string
	for _, leg := range r.Legs {
		all = append(all, fmt.Sprintf("%s on LAN %s (%s)", plural(leg.Replicas, "replica"), leg.LAN, leg.Group))
	}
	return strings.Join(all, ", ")
}

var replicaColumns = []column[sdk.Replica]{
	{title: "REPLICA", cell: func(r sdk.Replica) string { return r.Name }},
	{title: "LAN", cell: func(r sdk.Replica) string { return r.LAN }},
	{title: "BY", cell: carriedBy},
	{title: "STATE", cell: replicaState},
	{title: "BYTES", cell: func(r sdk.Replica) string { return known(r.Bytes, r.BytesUnknown) }},
	{title: "TIME", cell: func(r sdk.Replica) string { return seconds(r.Elapsed) }},
	{title: "LOST", cell: func(r sdk.Replica) string { return fmt.Sprintf("%.2f%%", 100*r.Lost) }},
	{title: "NODE", wide: true, cell: func(r sdk.Replica) string { return r.Node }},
	{title: "RESUMED", wide: true, cell: func(r sdk.Replica) string { return bytesize.Short(r.Resumed) }},
	{title: "DETAIL", wide: true, prose: true, cell: func(r sdk.Replica) string { return r.Detail }},
}

// carriedBy says what brings it to a replica. If agents were to and could not, what is there came by multicast.
func carriedBy(r sdk.Replica) string {
	if r.OverAgents && r.Reason != "no_multicast" {
		return "agents"
	}
	return "multicast"
}

func replicaState(r sdk.Replica) string {
	text := strings.ToUpper(string(r.State))
	switch r.State {
	case sdk.ReplicaFailed:
		text += "(" + r.Reason + ")"
	case sdk.ReplicaUnknown:
		text += "(" + age(r.Changed) + ")"
	}
	if r.Detached {
		text += ", detached"
	}
	return text
}

var legColumns = []column[lanStanding]{
	{title: "LAN", cell: func(l lanStanding) string { return l.LAN }},
	{title: "GROUP", cell: func(l lanStanding) string { return l.Group }},
	{title: "COMPLETE", cell: func(l lanStanding) string { return fmt.Sprintf("%d/%d", l.complete, l.Replicas) }},
	{title: "LEAST", cell: func(l lanStanding) string { return known(l.least, l.unknown) }},
}

// lanStanding is how far a replication is on one LAN.
type lanStanding struct {
	sdk.Leg
	complete, ended int
	least           uint64 // how much the slowest has that has not failed
	unknown         bool   // nobody knows how much one of these has
}

// lanStandings returns how far a replication is on each LAN.
func lanStandings(r sdk.Replication) (all []lanStanding) {
	for _, leg := range r.Legs {
		l, first := lanStanding{Leg: leg}, true
		for _, replica := range r.Replicas {
			switch {
			case replica.LAN != leg.LAN:
				continue
			case replica.State == sdk.ReplicaFailed:
				l.ended++
				continue
			case replica.State == sdk.ReplicaComplete:
				l.complete++
				l.ended++
			}
			l.unknown = l.unknown || replica.BytesUnknown
			if l.least = min(l.least, replica.Bytes); first {
				l.least, first = replica.Bytes, false
			}
		}
		all = append(all, l)
	}
	return all
}

func (l lanStanding) line(length uint64) string {
	text := fmt.Sprintf("LAN %s: %d of %d complete", l.LAN, l.complete, l.Replicas)
	if l.ended < l.Replicas && length > 0 && !l.unknown {
		text += fmt.Sprintf(", "+l.rest(), 100*min(float64(l.least)/float64(length), 1))
	}
	return text
}

// rest says how much those have that have not ended.
func (l lanStanding) rest() string {
	switch left := l.Replicas - l.ended; {
	case left == 1 && l.ended == 0:
		return "it has %.0f%%"
	case left == 1:
		return "the last one has %.0f%%"
	case l.ended == 0:
		return "each has %.0f%% at least"
	}
	return "the others have %.0f%% at least"
}

// showReplication shows a replication as it is now: per LAN, and per replica.
func (p *progress) showReplication(r sdk.Replication) { p.present(p.standingOf(r)) }

// seenReplication returns a replication with nothing less than was seen of it before.
func (p *progress) seenReplication(r sdk.Replication) sdk.Replication {
	r.SentBytes, r.Replicas = p.atLeast("", r.SentBytes), slices.Clone(r.Replicas)
	for i, replica := range r.Replicas {
		r.Replicas[i].Bytes = p.atLeast(replica.Name, replica.Bytes)
		r.Replicas[i].BytesUnknown = replica.BytesUnknown && r.Replicas[i].Bytes == 0
	}
	return r
}

func (p *progress) standingOf(r sdk.Replication) standing {
	r = p.seenReplication(r)
	s := standing{complete: r.Complete, all: r.ReplicaCount, length: r.Length}
	var lans []string
	for _, l := range lanStandings(r) {
		lans = append(lans, l.line(r.Length))
	}
	s.title = fmt.Sprintf("%s  %s → %s  %s", shortReplicationID(r), replicationName(r), r.Spec.Selector, replicationSize(r))
	s.sent = fmt.Sprintf("%s: %s of %s sent; %s", shortReplicationID(r), bytesize.Short(r.SentBytes), orDash(replicationSize(r)), strings.Join(lans, "; "))
	for _, replica := range r.Replicas {
		moving := replica.State == sdk.ReplicaReceiving || replica.State == sdk.ReplicaWaiting
		s.parts = append(s.parts, part{
			replica.Name, string(replica.State), replicaState(replica), moving, moving || replica.State == sdk.ReplicaUnknown, replica.Bytes, replica.Elapsed, replica.BytesUnknown,
		})
	}
	s.drawn = func(fit int) []string {
		shown := lans[:min(len(lans), max(fit/3, 1))]
		width, _ := p.size()
		return append(shown, p.partLines(s, width, max(fit-len(shown), 1))...)
	}
	return s
}

// printReplication shows a replication with its replicas; wide, with its LANs.
func (a *app) printReplication(r sdk.Replication) error {
	if done, err := a.printData(r); done {
		return err
	}
	if err := showTable(a, r.Replicas, replicaColumns, "LOST", "TIME", "BY", "LAN"); err != nil || a.output != "wide" {
		return err
	}
	fmt.Fprintln(a.stdout)
	return printTable(a.stdout, lanStandings(r), legColumns, true)
}

// replicationSummary says how a replication went, and why replicas failed: each reason once or, if its details differ, each of these.
func replicationSummary(r sdk.Replication) string {
	text := fmt.Sprintf("replication %s of %s (%s) from %s is %s: %d of %d replicas are complete", shortReplicationID(r), replicationName(r),
		orDash(replicationSize(r)), r.Sender, strings.ToLower(replicationState(r)), r.Complete, r.ReplicaCount)
	if r.State == sdk.ReplicationComplete {
		text += " after " + seconds(r.Ended.Sub(r.Created))
	}
	type why struct{ reason, detail string }
	told := make(map[why]bool)
	if r.Detail != "" {
		text += "\n" + r.Reason + ": " + printable.Text(r.Detail)
	}
	for _, replica := range r.Replicas {
		one := why{replica.Reason, replica.Detail}
		if one.detail == "" || told[one] || r.Detail != "" && one.reason == r.Reason {
			continue
		}
		if len(told) == mostReasons {
			return text + fmt.Sprintf("\nand others: groupcast replication get %s -o wide", shortReplicationID(r))
		}
		text, told[one] = text+fmt.Sprintf("\n%s (%s): %s", one.reason, replica.Name, printable.Text(one.detail)), true
	}
	return text
}

func (a *app) replicationCommand() *cobra.Command {
	replication := &cobra.Command{Use: "replication", Short: "See replications and cancel them", Aliases: []string{"replications"}}
	replication.AddCommand(a.replicationList(), a.replicationGet(), a.replicationWatch(), a.replicationCancel())
	return replication
}

func (a *app) replicationList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List replications, the newest first", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				all, err := client.Replications(ctx)
				if err != nil {
					return err
				}
				return printList(a, all, replicationColumns, "ON", "AGE", "SENDER", "SIZE")
			})
		},
	}
}

// errNoReplication says that there is none to show.
var errNoReplication = errors.New("there is no replication: begin one with groupcast replicate")

// namedReplication returns the replication that the arguments name, or the newest.
func namedReplication(ctx context.Context, client *sdk.Client, args []string) (sdk.Replication, error) {
	if len(args) > 0 {
		return client.Replication(ctx, args[0])
	}
	newest, err := client.NewestReplication(ctx)
	if sdk.CodeOf(err) == sdk.NotFound {
		err = errNoReplication
	}
	return newest, err
}

func (a *app) replicationGet() *cobra.Command {
	return &cobra.Command{
		Use: "get [ID]", Short: "Show a replication and who has it", Args: cobra.MaximumNArgs(1),
		Long: "Shows a replication and what is known of every replica; with -o wide also every LAN.\nThe first digits of the id are enough; without any it is the newest replication.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				r, err := namedReplication(ctx, client, args)
				if err != nil {
					return err
				}
				if a.output == "table" || a.output == "wide" {
					fmt.Fprintln(a.stderr, replicationSummary(r))
				}
				return a.printReplication(r)
			})
		},
	}
}

func (a *app) replicationWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Short: "Show how a replication goes on, until it has ended", Args: cobra.MaximumNArgs(1),
		Long: "Shows how a replication goes on at each LAN and replica, until it has ended; the exit\n" +
			"status is that of 'groupcast replicate'. Interrupted, the replication goes on. Without\n" +
			"an id it is the newest replication.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
				named, err := namedReplication(ctx, client, args)
				if err != nil {
					return err
				}
				shown := newProgress(a)
				last, err := watchToEnd(a, client.WatchReplication(ctx, named.ID), shown.showReplication, shown)
				if err != nil {
					return err
				}
				if a.output == "json" || a.output == "yaml" {
					return replicationOutcome(last)
				}
				return a.concludeReplication(last, shown)
			})
		},
	}
}

func (a *app) replicationCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "End a replication: replicas that are not complete get no more of it", Args: cobra.ExactArgs(1),
		Long:    "Ends a replication for all who do not have it. The first digits of the id are enough, as 'groupcast replication list'\nshows them. One that has ended stays as it is, which is said.",
		Example: "  groupcast replication cancel 4f1c09aa",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				before, failed := client.Replication(ctx, args[0])
				r, err := client.CancelReplication(ctx, args[0])
				if err != nil {
					return err
				}
				if failed == nil && !before.Ended.IsZero() {
					a.sayEnded("replication", shortReplicationID(r), before.Ended)
				}
				return printOne(a, r, replicationColumns)
			})
		},
	}
}
