package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

var agentColumns = []column[sdk.Agent]{
	{title: "NAME", cell: func(a sdk.Agent) string { return a.Name }},
	{title: "NODE", cell: func(a sdk.Agent) string { return a.Node }},
	{title: "CLUSTER", cell: func(a sdk.Agent) string { return cmp.Or(a.Cluster, a.Zone) }},
	{title: "STATE", cell: func(a sdk.Agent) string { return a.State }},
	{title: "LINKS", cell: func(a sdk.Agent) string { return fmt.Sprint(a.Links) }},
	{title: "DELIVERIES", cell: deliveriesAt},
	{title: "CACHE", cell: func(a sdk.Agent) string { return bytesize.Short(a.CacheUsed) + " of " + bytesize.Short(a.CacheLimit) }},
	{title: "AGE", cell: func(a sdk.Agent) string { return age(a.Registered) }},
	{title: "HOLDS", wide: true, cell: held},
	{title: "ZONE", wide: true, cell: func(a sdk.Agent) string { return a.Zone }},
	{title: "ADDRESSES", wide: true, cell: func(a sdk.Agent) string { return join(a.Addresses) }},
	{title: "LABELS", wide: true, cell: func(a sdk.Agent) string { return labels(a.Labels) }},
	{title: "INCARNATION", wide: true, cell: func(a sdk.Agent) string { return fmt.Sprint(a.Incarnation) }},
}

// outlined is how many deliveries of an agent the managers tell in a list.
const outlined = 32

func deliveriesAt(a sdk.Agent) string {
	if len(a.Deliveries) >= outlined {
		return fmt.Sprintf("%d or more", outlined)
	}
	return fmt.Sprint(len(a.Deliveries))
}

// heldMost is how many deliveries of an agent are listed; JSON has all.
const heldMost = 4

// held lists those deliveries of which an agent has something, or feeds somebody, the largest first: how much of each it has, and for how many.
func held(a sdk.Agent) string {
	var all []string
	largest := slices.SortedStableFunc(slices.Values(a.Deliveries), func(a, b sdk.AgentDelivery) int { return cmp.Compare(b.Held, a.Held) })
	for _, d := range largest {
		if d.Held > 0 || d.Children > 0 {
			all = append(all, fmt.Sprintf("%.8s: %s for %d", d.ID, bytesize.Short(d.Held), d.Children))
		}
	}
	if more := len(all) - heldMost; more > 0 {
		all = append(all[:heldMost], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, "; ")
}

func (a *app) agentCommand() *cobra.Command {
	agent := &cobra.Command{Use: "agent", Short: "See the session agents, which cache what is delivered and pass it on", Aliases: []string{"agents"}}
	agent.AddCommand(&cobra.Command{
		Use: "list", Short: "List the session agents", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				agents, err := client.Agents(ctx)
				if err != nil {
					return err
				}
				return printList(a, agents, agentColumns, "AGE", "NODE", "LINKS", "DELIVERIES")
			})
		},
	}, a.agentDistances())
	return agent
}

// distance is how far one agent is from another.
type distance struct {
	Agent   string `json:"agent"`
	Cluster string `json:"cluster,omitempty"`
	To      string `json:"to"`
	Time    string `json:"time"`
}

var distanceColumns = []column[distance]{
	{title: "AGENT", cell: func(d distance) string { return d.Agent }},
	{title: "CLUSTER", cell: func(d distance) string { return d.Cluster }},
	{title: "TO", cell: func(d distance) string { return d.To }},
	{title: "ROUND-TRIP", cell: func(d distance) string { return d.Time }},
}

func (a *app) agentDistances() *cobra.Command {
	return &cobra.Command{
		Use: "distances [NAME]", Short: "List the round trips that agents have measured to each other, the nearest first", Args: cobra.MaximumNArgs(1),
		Long: "Lists the round trips that agents have measured to each other, of each the nearest first;\nwith a name, those of that agent.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				agents, err := client.Agents(ctx)
				if err != nil {
					return err
				}
				isAgent := func(agent sdk.Agent) bool { return agent.Name == args[0] }
				if len(args) > 0 && !slices.ContainsFunc(agents, isAgent) {
					return &sdk.Error{Code: sdk.NotFound, Message: fmt.Sprintf("there is no agent %s", args[0])}
				}
				var all []distance
				for _, agent := range agents {
					if len(args) > 0 && args[0] != agent.Name {
						continue
					}
					for _, one := range agent.RoundTrips {
						all = append(all, distance{agent.Name, agent.Cluster, one.Agent, one.Time.String()})
					}
				}
				return printList(a, all, distanceColumns)
			})
		},
	}
}
