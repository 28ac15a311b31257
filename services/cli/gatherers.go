package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
)

var gathererColumns = []column[sdk.Gatherer]{
	{title: "NAME", cell: func(g sdk.Gatherer) string { return g.Name }},
	{title: "STATE", cell: func(g sdk.Gatherer) string { return string(g.State) }},
	{title: "ADDRESSES", cell: func(g sdk.Gatherer) string { return join(g.Addresses) }},
	{title: "CLIENTS", cell: func(g sdk.Gatherer) string { return fmt.Sprint(g.Clients) }},
	{title: "RATE", cell: func(g sdk.Gatherer) string { return rateOf(g.BytesPerSecond) }},
	{title: "LABELS", cell: func(g sdk.Gatherer) string { return labels(g.Labels) }},
	{title: "AGE", cell: func(g sdk.Gatherer) string { return age(g.Registered) }},
	{title: "INCARNATION", wide: true, cell: func(g sdk.Gatherer) string { return fmt.Sprint(g.Incarnation) }},
}

func (a *app) gathererCommand() *cobra.Command {
	gatherer := &cobra.Command{Use: "gatherer", Short: "See the gatherers, to which others upload", Aliases: []string{"gatherers"}}
	gatherer.AddCommand(&cobra.Command{
		Use: "list", Short: "List the gatherers, where they are and what they take in", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				all, err := client.Gatherers(ctx)
				if err != nil {
					return err
				}
				return printList(a, all, gathererColumns, "LABELS", "AGE", "RATE")
			})
		},
	})
	return gatherer
}
