package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// completionTime is how long completing a name may wait for the managers.
const completionTime = 2 * time.Second

// source lists what a word can be completed to.
type source func(ctx context.Context, client *sdk.Client) ([]cobra.Completion, error)

// completed has the sources of arguments, by what follows the command's name.
var completed = map[string]source{
	"delivery get": deliveryIDs, "delivery watch": deliveryIDs, "delivery explain": deliveryIDs, "delivery cancel": runningIDs,
	"replication get": replicationIDs, "replication watch": replicationIDs, "replication cancel": replicationIDs,
	"group get": groupNames, "group update": groupNames, "group delete": groupNames, "group watch": groupNames,
	"member list": groupNames, "member watch": groupNames, "join": groupNames, "agent distances": agentNames,
}

// readsFiles are the commands whose argument is a local file.
var readsFiles = map[string]bool{"push": true, "upload": true, "gather policy set": true, "soma decode": true, "soma figures": true}

// words are what flags are completed to: those of one command by its path and the flag, and those that all commands have in common by
// the flag alone.
var words = map[string][]cobra.Completion{
	"output": {"table", "wide", "json", "yaml"}, "mode": {"hop", "end-to-end"}, "ack": {"relayed", "received", "durable"},
	"slow": {"pace", "detach", "evict"}, "congestion": {"cubic", "bbr", "reno"}, "data-plane": {"tls", "plaintext"},
	"roles": {"send", "receive"}, "format": {"svg", "png"},
	"join role": {"send", "receive"}, "token create role": {"member", "agent", "gatherer", "replicator", "operator"},
	"replicate slow": {"pace", "detach"},
}

// complete sets up completion for a command, and for all below it.
func (a *app) complete(command *cobra.Command) {
	_, path, _ := strings.Cut(command.CommandPath(), " ")
	if list, is := completed[path]; is {
		command.ValidArgsFunction = a.first(list)
	} else if !readsFiles[path] && command.ValidArgsFunction == nil {
		command.ValidArgsFunction = cobra.NoFileCompletions
	}
	command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		all, is := words[path+" "+flag.Name]
		if !is {
			all, is = words[flag.Name]
		}
		if is {
			_ = command.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	if command.LocalFlags().Lookup("group") != nil {
		_ = command.RegisterFlagCompletionFunc("group", a.listed(groupNames))
	}
	for _, below := range command.Commands() {
		a.complete(below)
	}
}

// first completes the first argument.
func (a *app) first(list source) cobra.CompletionFunc {
	complete := a.listed(list)
	return func(command *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(command, args, word)
	}
}

// listed completes to what the managers list, and to nothing if they cannot be asked.
func (a *app) listed(list source) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, _ string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
		client, err := a.client(command.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(command.Context()), completionTime)
		defer cancel()
		if all, err = list(ctx, client); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

func groupNames(ctx context.Context, client *sdk.Client) (names []cobra.Completion, err error) {
	groups, err := client.Groups(ctx)
	for _, group := range groups {
		names = append(names, group.Name)
	}
	return names, err
}

func agentNames(ctx context.Context, client *sdk.Client) (names []cobra.Completion, err error) {
	agents, err := client.Agents(ctx)
	for _, agent := range agents {
		names = append(names, cobra.CompletionWithDesc(agent.Name, agent.State))
	}
	return names, err
}

func deliveryIDs(ctx context.Context, client *sdk.Client) ([]cobra.Completion, error) {
	return deliveriesThat(ctx, client, func(sdk.Delivery) bool { return true })
}

func runningIDs(ctx context.Context, client *sdk.Client) ([]cobra.Completion, error) {
	return deliveriesThat(ctx, client, func(d sdk.Delivery) bool { return d.State == sdk.DeliveryRunning })
}

func deliveriesThat(ctx context.Context, client *sdk.Client, is func(sdk.Delivery) bool) (ids []cobra.Completion, err error) {
	deliveries, err := client.Deliveries(ctx, "")
	for _, d := range deliveries {
		if is(d) {
			ids = append(ids, cobra.CompletionWithDesc(d.ID, printable.Text(d.Name)+" to "+d.Group+", "+string(d.State)))
		}
	}
	return ids, err
}

func replicationIDs(ctx context.Context, client *sdk.Client) (ids []cobra.Completion, err error) {
	replications, err := client.Replications(ctx)
	for _, r := range replications {
		ids = append(ids, cobra.CompletionWithDesc(r.ID, printable.Text(r.Name)+" from "+r.Sender+", "+string(r.State)))
	}
	return ids, err
}
