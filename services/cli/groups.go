package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

var groupColumns = []column[sdk.Group]{
	{title: "NAME", cell: func(g sdk.Group) string { return g.Name }},
	{title: "MEMBERS", cell: func(g sdk.Group) string { return fmt.Sprint(g.Members) }},
	{title: "MODE", cell: func(g sdk.Group) string { return string(g.Policy.ControlMode) }},
	{title: "ACK", cell: func(g sdk.Group) string { return string(g.Policy.AckLevel) }},
	{title: "SLOW", cell: func(g sdk.Group) string { return string(g.Policy.SlowMember.Action) }},
	{title: "LIMITS", cell: func(g sdk.Group) string { return limits(g.Policy.Limits) }},
	{title: "AGE", cell: func(g sdk.Group) string { return age(g.Created) }},
	{title: "SLOW-WHEN", wide: true, cell: func(g sdk.Group) string { return slowWhen(g.Policy.SlowMember) }},
	{title: "ROLES", wide: true, cell: func(g sdk.Group) string { return join(g.Policy.AllowedRoles) }},
	{title: "LATENCY-BOUND", wide: true, cell: func(g sdk.Group) string { return duration(g.Policy.LatencyBound) }},
	{title: "CLUSTER-THRESHOLD", wide: true, cell: func(g sdk.Group) string { return duration(g.Policy.ClusterThreshold) }},
	{title: "DATA-PLANE", wide: true, cell: func(g sdk.Group) string { return string(g.Policy.DataPlane) }},
	{title: "CONGESTION", wide: true, cell: func(g sdk.Group) string { return string(g.Policy.Congestion) }},
	{title: "MEMBERS-RELAY", wide: true, cell: func(g sdk.Group) string { return fmt.Sprint(g.Policy.MembersRelay) }},
	{title: "DEADLINE", wide: true, cell: func(g sdk.Group) string { return duration(g.Policy.Deadline) }},
	{title: "KEEP", wide: true, cell: func(g sdk.Group) string { return kept(g.Policy.Keep) }},
	{title: "EPOCH", wide: true, cell: func(g sdk.Group) string { return fmt.Sprint(g.Epoch) }},
	{title: "ETAG", wide: true, cell: func(g sdk.Group) string { return g.Etag }},
}

// slowWhen says from when on what happens to slow members ends or fails them. It is empty if nothing does.
func slowWhen(slow sdk.SlowMember) string {
	if slow.FloorBytesPerSecond > 0 {
		return "below " + bytesize.Short(slow.FloorBytesPerSecond) + "/s"
	}
	var lags []string
	if slow.LagBytes > 0 {
		lags = append(lags, bytesize.Short(slow.LagBytes))
	}
	if slow.LagTime > 0 {
		lags = append(lags, slow.LagTime.String())
	}
	if len(lags) == 0 {
		return ""
	}
	return strings.Join(lags, " or ") + " behind"
}

// limits says what a group's limits are.
func limits(l sdk.Limits) string {
	var all []string
	add := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	add(l.MaxMembers > 0, fmt.Sprintf("%d members", l.MaxMembers))
	add(l.MaxDeliveries > 0, fmt.Sprintf("%d deliveries", l.MaxDeliveries))
	add(l.MaxObjectBytes > 0, "objects of "+bytesize.Short(l.MaxObjectBytes))
	add(l.MaxBytesPerSecond > 0, bytesize.Short(l.MaxBytesPerSecond)+"/s")
	return strings.Join(all, ", ")
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// notKept is for how long agents hold what they shall not hold: zero leaves it to others.
const notKept = time.Nanosecond

// keep returns for how long agents are to hold an object, by the flag of that name.
func keep(flags *pflag.FlagSet, given time.Duration) time.Duration {
	if flags.Changed("keep") && given == 0 {
		return notKept
	}
	return given
}

// kept says for how long agents hold an object.
func kept(keep time.Duration) string {
	if keep == notKept {
		return "0s"
	}
	return duration(keep)
}

// policyFlags are the flags that set a policy, and the fields that they set.
type policyFlags struct {
	policy sdk.Policy
	roles  []string
	fields map[string]string // by flag
}

// What the words of a policy mean. Flags of groups and of deliveries say this, and then their default.
const (
	usageMode = "when agents acknowledge: hop (what they have) or end-to-end (what all below them have)"
	usageAck  = "when a member counts as complete: relayed or received (it has all, verified and in its place) or durable (and synced to its disk)"
	usageSlow = "what happens when a member cannot keep up: pace (all wait for it), detach (it is fed from caches) or evict (it fails)"
)

func addPolicyFlags(flags *pflag.FlagSet) *policyFlags {
	p := &policyFlags{fields: make(map[string]string)}
	add := func(flag, field string) {
		p.fields[flag] = field
		sets(flags, map[string]string{flag: "policy." + field})
	}
	flags.StringSliceVar(&p.roles, "roles", nil, "roles that members may have when they join: send, receive (all if empty); members that have joined keep theirs")
	add("roles", "allowed_roles")
	flags.StringVar((*string)(&p.policy.ControlMode), "mode", "", usageMode+" (hop)")
	add("mode", "control_mode")
	flags.StringVar((*string)(&p.policy.AckLevel), "ack", "", usageAck+" (durable)")
	add("ack", "ack_level")
	flags.StringVar((*string)(&p.policy.SlowMember.Action), "slow", "", usageSlow+" (detach with hop, pace with end-to-end)")
	add("slow", "slow_member.action")
	sets(flags, map[string]string{"slow": "policy.slow_member"})
	addSize(flags, (*bytesize.Size)(&p.policy.SlowMember.FloorBytesPerSecond), "slow-floor", "with pace: bytes per second below which a member is given up (never)")
	add("slow-floor", "slow_member.floor_bytes_per_second")
	addSize(flags, (*bytesize.Size)(&p.policy.SlowMember.LagBytes), "slow-lag-bytes", "with evict: bytes that a member may lag behind, as 64MiB (no bound; evict needs one of both)")
	add("slow-lag-bytes", "slow_member.lag_bytes")
	flags.DurationVar(&p.policy.SlowMember.LagTime, "slow-lag-time", 0, "with evict: time that a member may lag behind, as 30s (no bound; evict needs one of both)")
	add("slow-lag-time", "slow_member.lag_time")
	flags.DurationVar(&p.policy.LatencyBound, "latency-bound", 0, "latency from sender to member within which a tree begins, as 50ms; explain says who is beyond it later (no bound)")
	add("latency-bound", "latency_bound")
	flags.DurationVar(&p.policy.ClusterThreshold, "cluster-threshold", 0, "round trip up to which agents and members without a zone are one cluster (2ms)")
	add("cluster-threshold", "cluster_threshold")
	flags.StringVar((*string)(&p.policy.DataPlane), "data-plane", "", "how bytes travel: tls, or plaintext for networks that only trusted machines reach (tls)")
	add("data-plane", "data_plane")
	flags.StringVar((*string)(&p.policy.Congestion), "congestion", "", "congestion control of deliveries: cubic, bbr (for far networks) or reno (each machine's own)")
	add("congestion", "congestion")
	flags.DurationVar(&p.policy.Deadline, "deadline", 0, "how long a delivery that is no stream may take, where push names no deadline (no limit)")
	add("deadline", "deadline")
	flags.DurationVar(&p.policy.Keep, "keep", 0, "how long agents hold an object for members that join late, where push does not say so, 24h at most; 0s does not hold it (10m)")
	add("keep", "keep")
	flags.BoolVar(&p.policy.MembersRelay, "members-relay", false, "let members relay what is delivered, as session agents of this group (pull --relay)")
	add("members-relay", "members_relay")
	flags.Uint32Var(&p.policy.Limits.MaxMembers, "max-members", 0, "members at most, those that push among them (no limit)")
	add("max-members", "limits.max_members")
	flags.Uint32Var(&p.policy.Limits.MaxDeliveries, "max-deliveries", 0, "deliveries at once at most (256)")
	add("max-deliveries", "limits.max_deliveries")
	addSize(flags, (*bytesize.Size)(&p.policy.Limits.MaxObjectBytes), "max-object-bytes", "size of an object at most, as 10GiB (no limit)")
	add("max-object-bytes", "limits.max_object_bytes")
	addSize(flags, (*bytesize.Size)(&p.policy.Limits.MaxBytesPerSecond), "max-rate", "bytes per second at most that a sender sends of a delivery that begins, as 100MB, 4096 at least; agents pass on what they have as fast as their links take it (no limit)")
	add("max-rate", "limits.max_bytes_per_second")
	return p
}

// addLabels adds a flag for labels. Its help shows no default.
func addLabels(flags *pflag.FlagSet, labels *map[string]string, usage string) {
	flags.StringToStringVar(labels, "label", nil, usage)
	flags.Lookup("label").DefValue = ""
}

// addSize adds a flag for a number of bytes. Its help shows no default.
func addSize(flags *pflag.FlagSet, size *bytesize.Size, name, usage string) {
	flags.Var(size, name, usage)
	flags.Lookup(name).DefValue = ""
}

// read returns the policy, and the fields that were set.
func (p *policyFlags) read(flags *pflag.FlagSet) (policy sdk.Policy, fields []string) {
	p.policy.Keep = keep(flags, p.policy.Keep)
	for _, role := range p.roles {
		p.policy.AllowedRoles = append(p.policy.AllowedRoles, sdk.Role(role))
	}
	flags.Visit(func(flag *pflag.Flag) {
		if field, is := p.fields[flag.Name]; is {
			fields = append(fields, field)
		}
	})
	return p.policy, fields
}

func (a *app) groupCommand() *cobra.Command {
	group := &cobra.Command{Use: "group", Short: "Create and manage groups", Aliases: []string{"groups"}}
	group.AddCommand(a.groupCreate(), a.groupGet(), a.groupList(), a.groupUpdate(), a.groupDelete(), a.groupWatch())
	return group
}

func (a *app) groupCreate() *cobra.Command {
	command := &cobra.Command{
		Use: "create NAME", Short: "Create a group", Args: cobra.ExactArgs(1),
		Long:    "Creates a group. What stands in parentheses holds where a flag is not given.",
		Example: "  groupcast group create models --ack durable --max-members 64",
	}
	policy := addPolicyFlags(command.Flags())
	command.RunE = func(command *cobra.Command, args []string) error {
		return a.call(command, func(ctx context.Context, client *sdk.Client) error {
			chosen, _ := policy.read(command.Flags())
			group, err := client.CreateGroup(ctx, args[0], chosen)
			if err != nil {
				return err
			}
			return printOne(a, group, groupColumns)
		})
	}
	return command
}

func (a *app) groupGet() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a group", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				group, err := client.Group(ctx, args[0])
				if err != nil {
					return err
				}
				return printOne(a, group, groupColumns)
			})
		},
	}
}

func (a *app) groupList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the groups", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				groups, err := client.Groups(ctx)
				if err != nil {
					return err
				}
				return printList(a, groups, groupColumns, "LIMITS", "AGE", "SLOW")
			})
		},
	}
}

func (a *app) groupUpdate() *cobra.Command {
	command := &cobra.Command{
		Use: "update NAME", Short: "Change a group's policy; what is not named stays as it is", Args: cobra.ExactArgs(1),
		Long:    "Changes a group's policy. What is not named stays as it is: what stands in parentheses is\nwhat a new group has. Deliveries that run go on as they began.",
		Example: "  groupcast group update models --mode end-to-end --slow evict --slow-lag-time 30s",
	}
	policy := addPolicyFlags(command.Flags())
	etag := command.Flags().String("etag", "", "change only the group that has this etag, which 'groupcast group get NAME -o json' shows")
	command.RunE = func(command *cobra.Command, args []string) error {
		chosen, fields := policy.read(command.Flags())
		if len(fields) == 0 {
			return usageError{fmt.Errorf("nothing to change: name at least one policy flag (see '%s --help')", command.CommandPath())}
		}
		return a.call(command, func(ctx context.Context, client *sdk.Client) error {
			group, err := client.UpdateGroup(ctx, args[0], chosen, *etag, fields...)
			if err != nil {
				return err
			}
			return printOne(a, group, groupColumns)
		})
	}
	return command
}

func (a *app) groupDelete() *cobra.Command {
	command := &cobra.Command{Use: "delete NAME", Short: "Delete a group", Args: cobra.ExactArgs(1)}
	force := command.Flags().Bool("force", false, "delete although members are joined or deliveries run: they end")
	command.RunE = func(command *cobra.Command, args []string) error {
		return a.call(command, func(ctx context.Context, client *sdk.Client) error {
			if err := client.DeleteGroup(ctx, args[0], *force); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "group %s deleted\n", args[0])
			return nil
		})
	}
	return command
}

func (a *app) groupWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch [NAME]", Short: "Show groups, and every change as it happens", Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
				for event, err := range client.WatchGroups(ctx, name) {
					if err == nil {
						err = a.groupEvent(event)
					}
					if err != nil {
						return err
					}
				}
				return errInterrupted
			})
		},
	}
}

// groupChange is a step of a watch as JSON.
type groupChange struct {
	Snapshot []sdk.Group    `json:"snapshot,omitzero"`
	Change   sdk.ChangeType `json:"change,omitempty"`
	Group    *sdk.Group     `json:"group,omitempty"`
}

func (a *app) groupEvent(event sdk.GroupEvent) error {
	if event.Change == "" {
		names := make([]string, len(event.Snapshot))
		for i, group := range event.Snapshot {
			names[i] = group.Name
		}
		return a.event(groupChange{Snapshot: event.Snapshot}, fmt.Sprintf("%s: %s", plural(len(names), "group"), orDash(strings.Join(names, ", "))))
	}
	g := event.Group
	line := fmt.Sprintf("%s group %s: %d members, %s, %s, slow members %s, epoch %d", a.sign(event.Change), g.Name, g.Members,
		g.Policy.ControlMode, g.Policy.AckLevel, g.Policy.SlowMember.Action, g.Epoch)
	return a.event(groupChange{Change: event.Change, Group: &g}, line)
}

// sign shows a change as one character.
func (a *app) sign(change sdk.ChangeType) string {
	switch change {
	case sdk.Added:
		return a.paint(green, "+")
	case sdk.Removed:
		return a.paint(red, "-")
	}
	return a.paint(yellow, "~")
}
