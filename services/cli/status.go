package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
)

var statusColumns = []column[sdk.Status]{
	{title: "MANAGER", cell: func(s sdk.Status) string { return s.Name }},
	{title: "LEADER", cell: func(s sdk.Status) string { return s.Leader }},
	{title: "MANAGERS", cell: managersHere},
	{title: "GROUPS", cell: func(s sdk.Status) string { return fmt.Sprint(s.Groups) }},
	{title: "MEMBERS", cell: func(s sdk.Status) string { return fmt.Sprint(s.Members) }},
	{title: "AGENTS", cell: func(s sdk.Status) string {
		return fmt.Sprintf("%d/%d", s.AgentsOnline, s.AgentsOnline+s.AgentsOffline)
	}},
	{title: "UP", cell: func(s sdk.Status) string { return age(s.Started) }},
	{title: "WRITES", cell: func(s sdk.Status) string {
		if s.ReadOnlyReason != "" {
			return "refused"
		}
		return "accepted"
	}},
	{title: "VERSION", wide: true, cell: func(s sdk.Status) string { return s.Version }},
	{title: "TERM", wide: true, cell: func(s sdk.Status) string { return fmt.Sprint(s.Term) }},
	{title: "REVISION", wide: true, cell: func(s sdk.Status) string { return fmt.Sprint(s.Revision) }},
	{title: "TRUST-DOMAIN", wide: true, cell: func(s sdk.Status) string { return s.TrustDomain }},
}

// managersHere says how many managers are here, of how many there should be. Without a leader nobody knows which are missing.
func managersHere(s sdk.Status) string {
	all := s.ManagersOnline + s.ManagersOffline
	switch {
	case all == 0: // an earlier manager does not say
		return "-"
	case s.Leader == "":
		return fmt.Sprintf("?/%d", all)
	}
	return fmt.Sprintf("%d/%d", s.ManagersOnline, all)
}

func (a *app) statusCommand() *cobra.Command {
	var at installed
	command := &cobra.Command{
		Use: "status", Short: "Show the manager that answers, who leads, what they hold, and who is missed", Args: cobra.NoArgs,
		Long: `Shows the manager that answers, who leads, what they hold, and who is missed.

With --kubernetes it asks no manager, but Kubernetes: which parts of an installation are ready, why others are not, and what to do. It runs
kubectl with its current context, and needs no configuration. The user has to be allowed to list pods, workloads, claims and events in the namespace;
one who may also list the cluster's nodes is told which of them are away.`,
		Example: "  groupcast status\n  groupcast status --kubernetes groupcast",
	}
	flags := command.Flags()
	flags.StringVar(&at.namespace, "kubernetes", "", "`NAMESPACE` of an installation on Kubernetes: say by kubectl why it does not come up")
	flags.StringVar(&at.release, "release", "", "which `RELEASE` is meant, if the namespace has several")
	command.RunE = func(command *cobra.Command, _ []string) error {
		switch isThere := command.Flags().Changed("kubernetes"); {
		case isThere && at.namespace == "":
			return usageError{errors.New("--kubernetes is empty: want a namespace")}
		case isThere:
			return a.statusOfPods(command.Context(), at)
		case at.release != "":
			return usageError{errors.New("--release goes with --kubernetes NAMESPACE")}
		}
		return a.managersStatus(command)
	}
	return command
}

// managersStatus shows what a manager says. If none answers, those of a first installation may not have come up.
func (a *app) managersStatus(command *cobra.Command) error {
	err := a.call(command, func(ctx context.Context, client *sdk.Client) error {
		status, err := client.Status(ctx)
		if err != nil {
			return err
		}
		if status.AgentsOffline > 0 && status.Leader != "" {
			a.sayWhichAgents(ctx, client)
		}
		return a.showStatus(status)
	})
	code := sdk.CodeOf(err)
	if errors.Is(err, errNoConfiguration) || a.inPods && (code == sdk.Unavailable || code == sdk.TimedOut) {
		fmt.Fprintln(a.stderr, "what pods on Kubernetes wait for: groupcast status --kubernetes NAMESPACE")
	}
	return err
}

// mostAway is how many a status names that are away.
const mostAway = 10

// showStatus writes a status, and before it what somebody has to take care of.
func (a *app) showStatus(status sdk.Status) error {
	if status.ReadOnlyReason != "" {
		fmt.Fprintln(a.stderr, status.ReadOnlyReason)
	}
	if status.OwnStoreReason != "" {
		fmt.Fprintf(a.stderr, "manager/%s would refuse writes if it led, and not %s: %s\n", status.Name, status.Leader, status.OwnStoreReason)
	}
	for _, part := range status.Absent {
		fmt.Fprintln(a.stderr, part)
	}
	for _, one := range status.Managers {
		if !one.Away.IsZero() {
			fmt.Fprintf(a.stderr, "manager/%s is absent, %s\n", one.Name, lastSeen(one.Away))
		}
	}
	if status.AgentsOffline > 0 {
		fmt.Fprintf(a.stderr, "%s absent: groupcast agent list\n", isAre(status.AgentsOffline, "agent"))
	}
	for i, one := range status.Away {
		if i == mostAway {
			fmt.Fprintf(a.stderr, "and %d others: groupcast gatherer list, groupcast replicator list\n", len(status.Away)-i)
			break
		}
		when := "not seen since the manager leads that does now"
		if !one.Seen.IsZero() {
			when = lastSeen(one.Seen)
		}
		fmt.Fprintf(a.stderr, "%s is absent, %s\n", one.ID, when)
	}
	return printOne(a, status, statusColumns)
}

// sayWhichAgents names agents that are offline, for operators, who alone may list them. It is no more than a word beside the status, which does not wait for
// a leader that does not answer.
func (a *app) sayWhichAgents(ctx context.Context, client *sdk.Client) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/4)
	defer cancel()
	if agents, err := client.Agents(ctx); err == nil {
		a.sayOffline(agents)
	}
}

// sayOffline names agents that are offline.
func (a *app) sayOffline(agents []sdk.Agent) {
	var names []string
	for _, agent := range agents {
		if agent.State != "online" {
			names = append(names, "agent/"+agent.Name)
		}
	}
	if len(names) > 0 {
		fmt.Fprintf(a.stderr, "offline: %s (groupcast agent list)\n", listed(names))
	}
}

func lastSeen(at time.Time) string {
	return fmt.Sprintf("last seen %s ago, at %s", age(at), at.Local().Format(time.DateTime))
}
