package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/sdk"
)

var memberColumns = []column[sdk.Member]{
	{title: "NAME", cell: func(m sdk.Member) string { return m.Name }},
	{title: "NODE", cell: func(m sdk.Member) string { return m.Node }},
	{title: "ROLES", cell: func(m sdk.Member) string { return join(m.Roles) }},
	{title: "STATE", cell: func(m sdk.Member) string { return string(m.State) }},
	{title: "AGE", cell: func(m sdk.Member) string { return age(m.Joined) }},
	{title: "ADDRESSES", wide: true, cell: func(m sdk.Member) string { return join(m.Addresses) }},
	{title: "LABELS", wide: true, cell: func(m sdk.Member) string { return labels(m.Labels) }},
	{title: "INCARNATION", wide: true, cell: func(m sdk.Member) string { return fmt.Sprint(m.Incarnation) }},
}

func (a *app) memberCommand() *cobra.Command {
	member := &cobra.Command{Use: "member", Short: "See who is in a group", Aliases: []string{"members"}}
	member.AddCommand(
		&cobra.Command{
			Use: "list GROUP", Short: "List the members of a group", Aliases: []string{"ls"}, Args: cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, args []string) error {
				return a.call(command, func(ctx context.Context, client *sdk.Client) error {
					members, err := client.Members(ctx, args[0])
					if err != nil {
						return err
					}
					return printList(a, members, memberColumns, "AGE", "ROLES", "NODE")
				})
			},
		},
		&cobra.Command{
			Use: "watch GROUP", Short: "Show the members of a group, and every change as it happens", Args: cobra.ExactArgs(1),
			RunE: func(command *cobra.Command, args []string) error {
				return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
					for event, err := range client.WatchMembers(ctx, args[0]) {
						if err == nil {
							err = a.memberEvent(event)
						}
						if err != nil {
							return err
						}
					}
					return errInterrupted
				})
			},
		})
	return member
}

// memberChange is a step of a watch as JSON.
type memberChange struct {
	Snapshot []sdk.Member   `json:"snapshot,omitzero"`
	Change   sdk.ChangeType `json:"change,omitempty"`
	Member   *sdk.Member    `json:"member,omitempty"`
}

func (a *app) memberEvent(event sdk.MemberEvent) error {
	if event.Change == "" {
		names := make([]string, len(event.Snapshot))
		for i, member := range event.Snapshot {
			names[i] = member.Name
		}
		return a.event(memberChange{Snapshot: event.Snapshot}, fmt.Sprintf("%s: %s", plural(len(names), "member"), orDash(strings.Join(names, ", "))))
	}
	m := event.Member
	line := fmt.Sprintf("%s %s joined from %s (%s)", a.sign(event.Change), m.Name, orDash(m.Node), join(m.Roles))
	if event.Change == sdk.Removed {
		line = fmt.Sprintf("%s %s %s", a.sign(event.Change), m.Name, farewells[m.State])
	}
	return a.event(memberChange{Change: event.Change, Member: &m}, line)
}

// farewells say how a session ended.
var farewells = map[sdk.MemberState]string{
	"left":     "left",
	"expired":  "was silent and expired",
	"fenced":   "was replaced by a newer session",
	"expelled": "was expelled",
}

// nodeVariable names the machine if the host's name does not, as in a pod.
const nodeVariable = "GROUPCAST_NODE"

// thisNode returns the name of this machine, as agents on it call it.
func thisNode() string {
	hostname, _ := os.Hostname()
	return cmp.Or(os.Getenv(nodeVariable), hostname)
}

func (a *app) joinCommand() *cobra.Command {
	var join sdk.Join
	var roles []string
	command := &cobra.Command{
		Use: "join GROUP --as NAME", Short: "Be a member of a group until interrupted, and show who comes and goes", Args: cobra.ExactArgs(1),
		Long:    "Joins a group and stays until interrupted, which leaves it: the exit status is then 130.\nA session that expired, as on a machine that slept, is begun anew.",
		Example: "  groupcast join models --as node-7 --label zone=eu-1 --role receive",
	}
	flags := command.Flags()
	flags.StringVar(&join.Name, "as", "", "name of the member: up to 63 lower-case letters, digits and hyphens")
	flags.StringVar(&join.Node, "node", thisNode(), "machine that the member runs on ("+nodeVariable+")")
	flags.StringSliceVar(&join.Addresses, "address", nil, "where others reach the member, as host:port (nowhere)")
	addLabels(flags, &join.Labels, "labels, as zone=eu-1")
	flags.StringSliceVar(&roles, "role", nil, "what the member will do: send, receive (all that the group allows)")
	if err := command.MarkFlagRequired("as"); err != nil {
		panic("cli: " + err.Error())
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		join.Group = args[0]
		for _, role := range roles {
			join.Roles = append(join.Roles, sdk.Role(role))
		}
		return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
			a.sayReplaced(ctx, client, join)
			session, err := a.join(ctx, client, join)
			for err == nil {
				if err = a.holdSession(ctx, session); !isExpired(err) {
					return err
				}
				fmt.Fprintf(a.stderr, "%v; joining again\n", err)
				session, err = a.joinAgain(ctx, client, join)
			}
			return err
		})
	}
	return command
}

// leaveTimeout is how long an interrupted member may take to leave.
const leaveTimeout = 3 * time.Second

// holdSession shows events until the session ends, or until ctx is done: then it leaves.
func (a *app) holdSession(ctx context.Context, session *sdk.Session) error {
	defer session.Close()
	joined := session.Member()
	fmt.Fprintf(a.stderr, "joined %s as %s; interrupt to leave\n", joined.Group, joined.Name)
	events, stop := whileJoined(ctx, session)
	defer stop()
	for event, err := range session.Events(events) {
		if err == nil {
			err = a.memberEvent(event)
		}
		if err != nil {
			return err
		}
	}
	if err := session.Err(); err != nil {
		return err
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := session.Leave(leaving); err != nil {
		return fmt.Errorf("leave %s: %w", joined.Group, err)
	}
	fmt.Fprintf(a.stderr, "left %s\n", joined.Group)
	return errInterrupted
}
