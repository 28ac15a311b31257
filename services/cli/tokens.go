package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
)

func (a *app) tokenCommand() *cobra.Command {
	token := &cobra.Command{Use: "token", Short: "Make join tokens"}
	var asked sdk.Token
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a join token: it can be exchanged once, within 10 minutes, for an identity", Args: cobra.ExactArgs(1),
		Example: "  groupcast token create node-7 --group models\n  groupcast token create agent-3 --role agent",
		RunE: func(command *cobra.Command, args []string) error {
			if asked.Lifetime == 0 { // which is the longest for managers
				return usageError{errors.New("--lifetime: is 0s: want 1s to 10m0s")}
			}
			asked.Name = args[0]
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				text, lifetime, err := client.CreateToken(ctx, asked)
				if err != nil {
					return err
				}
				for _, group := range asked.Groups {
					if _, err := client.Group(ctx, group); sdk.CodeOf(err) == sdk.NotFound && group != "*" {
						fmt.Fprintf(a.stderr, "note: there is no group %s so far\n", group)
					}
				}
				fmt.Fprintf(a.stderr, "for %s %s, once, within %v: %s\n", asked.Role, asked.Name, lifetime, tokenUse(asked.Role))
				if done, err := a.printData(map[string]string{"token": text}); done {
					return err
				}
				_, err = fmt.Fprintln(a.stdout, text)
				return err
			})
		},
	}
	create.Flags().StringVar(&asked.Role, "role", "member", "member, agent, gatherer, replicator or operator")
	create.Flags().StringSliceVar(&asked.Groups, "group", nil, "for a member: groups that it may join, one at least; '*' stands for all")
	create.Flags().DurationVar(&asked.Lifetime, "lifetime", 10*time.Minute, "how long the token can be used, 1s to 10m")
	sets(create.Flags(), map[string]string{"role": "role", "group": "groups", "lifetime": "lifetime"})
	token.AddCommand(create)
	return token
}

// tokenUse says how to use a token: services enroll by themselves.
func tokenUse(role string) string {
	switch role {
	case "agent", "gatherer", "replicator":
		return "groupcast-" + role + " --managers HOST:PORT --join-token-file FILE, which has the token in it"
	}
	return "groupcast enroll --endpoint HOST:PORT --token-file FILE, which has the token in it; - is standard input"
}
