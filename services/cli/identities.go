package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
)

func (a *app) identityCommand() *cobra.Command {
	identity := &cobra.Command{Use: "identity", Short: "Revoke identities, and let pods in again"}
	identity.AddCommand(&cobra.Command{
		Use: "revoke ROLE/NAME", Short: "Refuse all certificates of an identity, and end its sessions", Args: cobra.ExactArgs(1),
		Example: "  groupcast identity revoke member/node-7",
		RunE: func(command *cobra.Command, args []string) error {
			role, name, err := splitIdentity(args[0])
			if err != nil {
				return err
			}
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				known := a.isKnown(ctx, client, role, name) // before its sessions are ended
				if err := client.Revoke(ctx, role, name); err != nil {
					return err
				}
				if !known {
					fmt.Fprintf(a.stderr, "warning: the managers know no %s %s at present: it has stopped, or has another name\n", role, name)
				}
				fmt.Fprintf(a.stderr, "%s revoked: whoever has a certificate of that name is refused, and a new join token lets it back in; pods of Kubernetes, 'groupcast identity admit'\n", args[0])
				return nil
			})
		},
	}, a.admitCommand())
	return identity
}

// byAccount are the roles that Kubernetes can vouch for.
var byAccount = []string{"agent", "gatherer", "replicator", "member"}

func (a *app) admitCommand() *cobra.Command {
	var groups []string
	admit := &cobra.Command{
		Use: "admit ROLE/NAME", Short: "Let pods of an identity that was revoked in again by their ServiceAccount", Args: cobra.ExactArgs(1),
		Long: `Lets pods of an identity that was revoked in again by their ServiceAccount, as agents, gatherers,
replicators and members on Kubernetes are. All others come back with a new join token (groupcast token create).`,
		Example: "  groupcast identity admit agent/node-7\n  groupcast identity admit member/training-publisher-d2d9e5da --group models",
		RunE: func(command *cobra.Command, args []string) error {
			role, name, err := splitIdentity(args[0])
			if err != nil {
				return err
			}
			if !slices.Contains(byAccount, role) {
				return usageError{fmt.Errorf("%q is not the role of pods: want one of %s", role, strings.Join(byAccount, ", "))}
			}
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				if err := client.Admit(ctx, role, name, groups...); err != nil {
					return err
				}
				fmt.Fprintf(a.stderr, "%s admitted: its ServiceAccount lets its pods in again, which try by themselves\n", args[0])
				return nil
			})
		},
	}
	admit.Flags().StringSliceVar(&groups, "group", nil, "for a member: groups that it may join until its next pod gets in, one at least; '*' stands for all")
	sets(admit.Flags(), map[string]string{"group": "groups"})
	return admit
}

// splitIdentity reads ROLE/NAME.
func splitIdentity(text string) (role, name string, err error) {
	role, name, ok := strings.Cut(text, "/")
	if !ok {
		return "", "", usageError{fmt.Errorf("%q is not ROLE/NAME, as in member/node-7", text)}
	}
	return role, name, nil
}

// isKnown reports whether the managers know somebody of a name now; true if they cannot be asked.
func (a *app) isKnown(ctx context.Context, client *sdk.Client, role, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/2)
	defer cancel()
	switch role {
	case "agent":
		all, err := client.Agents(ctx)
		return err != nil || slices.ContainsFunc(all, func(one sdk.Agent) bool { return one.Name == name })
	case "gatherer":
		all, err := client.Gatherers(ctx)
		return err != nil || slices.ContainsFunc(all, func(one sdk.Gatherer) bool { return one.Name == name })
	case "replicator":
		all, err := client.Replicators(ctx)
		return err != nil || slices.ContainsFunc(all, func(one sdk.Replicator) bool { return one.Name == name })
	case "member":
		return isInGroup(ctx, client, name)
	}
	return true
}

// isInGroup reports whether a member is in any group, even with a session in which it only pushes; true if that cannot be told.
func isInGroup(ctx context.Context, client *sdk.Client, name string) bool {
	groups, err := client.Groups(ctx)
	for _, group := range groups {
		members, failed := client.Members(ctx, group.Name)
		if failed != nil || slices.ContainsFunc(members, func(one sdk.Member) bool { return one.Name == name || strings.HasPrefix(one.Name, name+".") }) {
			return true
		}
	}
	return err != nil
}
