package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
)

var replicatorColumns = []column[sdk.Replicator]{
	{title: "NAME", cell: func(r sdk.Replicator) string { return r.Name }},
	{title: "NODE", cell: func(r sdk.Replicator) string { return r.Node }},
	{title: "LANS", cell: func(r sdk.Replicator) string { return join(r.LANs) }},
	{title: "STATE", cell: func(r sdk.Replicator) string { return string(r.State) }},
	{title: "REPLICATIONS", cell: func(r sdk.Replicator) string { return fmt.Sprint(r.Replications) }},
	{title: "LABELS", cell: func(r sdk.Replicator) string { return labels(r.Labels) }},
	{title: "AGE", cell: func(r sdk.Replicator) string { return age(r.Registered) }},
	{title: "SOURCES", wide: true, cell: func(r sdk.Replicator) string { return join(r.Sources) }},
	{title: "TARGETS", wide: true, cell: func(r sdk.Replicator) string { return join(r.Targets) }},
	{title: "INCARNATION", wide: true, cell: func(r sdk.Replicator) string { return fmt.Sprint(r.Incarnation) }},
}

func (a *app) replicatorCommand() *cobra.Command {
	replicator := &cobra.Command{Use: "replicator", Short: "See the replicators, which send to whole LANs and receive", Aliases: []string{"replicators"}}
	replicator.AddCommand(&cobra.Command{
		Use: "list", Short: "List the replicators, their LANs and labels; with -o wide what may be read and written there", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				all, err := client.Replicators(ctx)
				if err != nil {
					return err
				}
				return printList(a, all, replicatorColumns, "LABELS", "AGE", "REPLICATIONS", "NODE")
			})
		},
	})
	return replicator
}
