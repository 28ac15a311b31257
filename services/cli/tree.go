package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

// branch is a node of a delivery's tree, and the line on which it is drawn.
type branch struct {
	sdk.TreeNode
	drawn    string
	delivery sdk.Delivery
}

// branches draws a delivery's tree: a line per node, below the one that feeds it.
func branches(d sdk.Delivery) (lines []branch) {
	children := make(map[string][]sdk.TreeNode)
	for _, node := range d.Tree {
		children[node.Parent] = append(children[node.Parent], node)
	}
	var draw func(node sdk.TreeNode, first, rest string)
	draw = func(node sdk.TreeNode, first, rest string) {
		lines = append(lines, branch{node, first + node.ID, d})
		below := children[node.ID]
		for i, child := range below {
			if i == len(below)-1 {
				draw(child, rest+"└─ ", rest+"   ")
			} else {
				draw(child, rest+"├─ ", rest+"│  ")
			}
		}
	}
	for _, root := range children[""] {
		draw(root, "", "")
	}
	return lines
}

// share says how much of the delivery a node has.
func (b branch) share() string {
	if b.delivery.Length == 0 {
		return bytesize.Short(b.Bytes)
	}
	return fmt.Sprintf("%.0f%%", 100*float64(min(b.Bytes, b.delivery.Length))/float64(b.delivery.Length))
}

// rate says how fast it gets more, or why it does not.
func (b branch) rate() string {
	switch {
	case b.Absent:
		return "absent"
	case b.delivery.State != sdk.DeliveryRunning || b.BytesPerSecond == 0 || b.delivery.Length > 0 && b.Bytes >= b.delivery.Length:
		return ""
	}
	return bytesize.Short(b.BytesPerSecond) + "/s"
}

var branchColumns = []column[branch]{
	{title: "NODE", long: true, cell: func(b branch) string { return b.drawn }},
	{title: "HAS", cell: branch.share},
	{title: "RATE", cell: branch.rate},
	{title: "WHY", prose: true, cell: func(b branch) string { return b.Why }},
}

var clusterColumns = []column[sdk.TreeCluster]{
	{title: "CLUSTER", cell: func(c sdk.TreeCluster) string { return cmp.Or(c.Name, "(not known)") }},
	{title: "AGENTS", cell: func(c sdk.TreeCluster) string { return fmt.Sprint(c.Agents) }},
	{title: "MEMBERS", cell: func(c sdk.TreeCluster) string { return fmt.Sprint(c.Members) }},
	{title: "ENTERED", cell: func(c sdk.TreeCluster) string { return fmt.Sprint(c.Entered) }},
	{title: "DIRECTIVES", cell: func(c sdk.TreeCluster) string { return fmt.Sprint(c.Directives) }},
}

var changeColumns = []column[sdk.TreeChange]{
	{title: "VERSION", cell: func(c sdk.TreeChange) string { return fmt.Sprint(c.Version) }},
	{title: "AGE", cell: func(c sdk.TreeChange) string { return age(c.Time) }},
	{title: "CAUSE", cell: func(c sdk.TreeChange) string { return c.Cause }},
	{title: "WHAT", prose: true, cell: func(c sdk.TreeChange) string { return c.Detail }},
}

func (a *app) deliveryExplain() *cobra.Command {
	var group string
	return inGroup(&group, &cobra.Command{
		Use: "explain [ID]", Short: "Show who feeds whom in a delivery, why, and what has changed", Args: cobra.MaximumNArgs(1),
		Long: "Draws a delivery's tree, says why each node sits where it does, and lists the tree's\n" +
			"clusters, with how often the nodes of each were told whom they feed and who feeds them\n" +
			"(directives), and its last changes with their causes. The tree is known while the\n" +
			"delivery runs, and as long as agents keep it for those who come late. The first digits\n" +
			"of the id are enough; without any it is the newest delivery, of --group if that is given.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				d, err := named(ctx, client, group, args)
				if err != nil {
					return err
				}
				if done, err := a.printData(d); done {
					return err
				}
				return a.printTree(d)
			})
		},
	})
}

// errNoDelivery says that there is none to show.
var errNoDelivery = errors.New("there is no delivery: begin one with groupcast push")

// inGroup lets a command without an id mean the newest delivery of one group: members may not ask for those of all.
func inGroup(group *string, command *cobra.Command) *cobra.Command {
	command.Flags().StringVar(group, "group", "", "without an id, the newest of this group (members name theirs)")
	return command
}

// named returns the delivery that the arguments name, or the newest, of all groups if none is named.
func named(ctx context.Context, client *sdk.Client, group string, args []string) (sdk.Delivery, error) {
	switch {
	case len(args) > 0 && group != "":
		return sdk.Delivery{}, usageError{fmt.Errorf("--group %s is for the newest delivery, and %s names one", group, args[0])}
	case len(args) > 0:
		return client.Delivery(ctx, args[0])
	}
	newest, err := client.NewestDelivery(ctx, group)
	if sdk.CodeOf(err) == sdk.NotFound && group == "" {
		err = errNoDelivery
	}
	return newest, err
}

// printTree shows a delivery's tree, and how it came to be.
func (a *app) printTree(d sdk.Delivery) error {
	isLeftOut := slices.Contains(d.LeftOut, "tree")
	if len(d.Tree) == 0 && !isLeftOut {
		return fmt.Errorf("delivery %s is %s, and nobody is fed any more: its tree is forgotten", shortID(d), strings.ToLower(deliveryState(d)))
	}
	if isLeftOut {
		fmt.Fprintf(a.stderr, "of %d members the tree does not fit into one answer: these are its clusters, and why it changed\n", d.Members)
	} else {
		if err := showTable(a, branches(d), branchColumns); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	if err := showTable(a, d.TreeClusters, clusterColumns); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return showTable(a, d.TreeChanges, changeColumns)
}

const (
	// besidesNode is how many characters of a line are not the node's, leastNode how many are at least.
	besidesNode = 19
	leastNode   = 8
)

// treeLines draws a delivery's tree for a screen of a width that has room for so many lines. Its last column stays empty: see drawLines.
func treeLines(d sdk.Delivery, width, fit int) (lines []string) {
	drawn, widest := branches(d), 0
	for _, b := range drawn {
		widest = max(widest, len([]rune(b.drawn)))
	}
	widest = min(widest, max(width-1-besidesNode, leastNode))
	for _, b := range drawn {
		lines = append(lines, fmt.Sprintf("%-*s %5s %12s", widest, cutMiddle(b.drawn, widest), b.share(), b.rate()))
	}
	return within(lines, fit, func(int) string { return fmt.Sprintf("%d of %d complete", d.Complete, d.Members) })
}
