package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

var deliveryColumns = []column[sdk.Delivery]{
	{title: "ID", cell: shortID},
	{title: "NAME", long: true, cell: func(d sdk.Delivery) string { return d.Name }},
	{title: "GROUP", cell: func(d sdk.Delivery) string { return d.Group }},
	{title: "SENDER", cell: func(d sdk.Delivery) string { return d.Sender }},
	{title: "STATE", cell: deliveryState},
	{title: "COMPLETE", cell: func(d sdk.Delivery) string { return fmt.Sprintf("%d/%d", d.Complete, d.Members) }},
	{title: "SIZE", cell: deliverySize},
	{title: "AGE", cell: func(d sdk.Delivery) string { return age(d.Created) }},
	{title: "KIND", wide: true, cell: func(d sdk.Delivery) string { return string(d.Kind) }},
	{title: "MODE", wide: true, cell: func(d sdk.Delivery) string { return string(d.ControlMode) }},
	{title: "ACK", wide: true, cell: func(d sdk.Delivery) string { return string(d.AckLevel) }},
	{title: "TREE", wide: true, cell: func(d sdk.Delivery) string { return fmt.Sprint(d.TreeVersion) }},
	{title: "ROOT", wide: true, cell: func(d sdk.Delivery) string { return fmt.Sprintf("%x", d.Root) }},
}

// shortID returns enough of an id to name the delivery by.
func shortID(d sdk.Delivery) string { return fmt.Sprintf("%.8s", d.ID) }

func deliveryState(d sdk.Delivery) string {
	if d.Reason == "" {
		return strings.ToUpper(string(d.State))
	}
	return fmt.Sprintf("%s(%s)", strings.ToUpper(string(d.State)), d.Reason)
}

func deliverySize(d sdk.Delivery) string {
	if d.Kind == sdk.Stream && !d.Sealed {
		return bytesize.Short(d.SentBytes) + "…"
	}
	return bytesize.Short(content(d.Kind, d.Length))
}

// headOnly is how many bytes a directory has in which there is nothing: internal/object begins each with a head.
const headOnly = 16

// content returns how much of some bytes people take for what was delivered: nothing, if they are not more than a directory's head.
func content(kind sdk.DeliveryKind, bytes uint64) uint64 {
	if kind == sdk.Directory && bytes <= headOnly {
		return 0
	}
	return bytes
}

var receiptColumns = []column[sdk.Receipt]{
	{title: "MEMBER", cell: func(r sdk.Receipt) string { return r.Member }},
	{title: "STATE", cell: receiptState},
	{title: "BYTES", cell: func(r sdk.Receipt) string { return known(r.Bytes, r.BytesUnknown) }},
	{title: "TIME", cell: func(r sdk.Receipt) string { return seconds(r.Elapsed) }},
	{title: "STRETCH", cell: stretch},
	{title: "PARENT", wide: true, cell: func(r sdk.Receipt) string { return r.Parent }},
	{title: "DETAIL", wide: true, prose: true, cell: func(r sdk.Receipt) string { return r.Detail }},
}

func receiptState(r sdk.Receipt) string {
	text := strings.ToUpper(string(r.State))
	switch r.State {
	case sdk.ReceiptFailed:
		text += "(" + r.Reason + ")"
	case sdk.ReceiptUnknown:
		text += "(" + age(r.Changed) + ")"
	}
	if r.Late {
		text += ", late"
	}
	return text
}

// known returns how much somebody has, if anybody knows.
func known(bytes uint64, isUnknown bool) string {
	if isUnknown {
		return ""
	}
	return bytesize.Short(bytes)
}

func stretch(r sdk.Receipt) string {
	if r.Stretch == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.Stretch)
}

func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

var linkColumns = []column[sdk.LinkUse]{
	{title: "LINK", cell: func(l sdk.LinkUse) string { return l.From + " → " + l.To }},
	{title: "BYTES", cell: func(l sdk.LinkUse) string { return bytesize.Short(l.Bytes) }},
	{title: "RATE", cell: func(l sdk.LinkUse) string { return bytesize.Short(l.BytesPerSecond) + "/s" }},
	{title: "STRIPES", cell: stripes},
}

// stripes says how many there are, and why; for a link that may only have one, nothing.
func stripes(l sdk.LinkUse) string {
	if l.Stripes == 0 {
		return ""
	}
	return fmt.Sprintf("%d (%s)", l.Stripes, l.StripesReason)
}

var cacheColumns = []column[sdk.CacheUse]{
	{title: "AGENT", cell: func(c sdk.CacheUse) string { return c.Agent }},
	{title: "CACHED", cell: func(c sdk.CacheUse) string { return bytesize.Short(c.Bytes) }},
	{title: "MOST", cell: func(c sdk.CacheUse) string { return bytesize.Short(c.MaxBytes) }},
	{title: "RATIO", cell: func(c sdk.CacheUse) string { return fmt.Sprintf("%.2f", c.Ratio) }},
}

// printDelivery shows a delivery with its receipts; wide, with what every link carried.
func (a *app) printDelivery(d sdk.Delivery) error {
	if done, err := a.printData(d); done {
		return err
	}
	a.sayLeftOut(d)
	if err := a.printReceipts(d); err != nil || a.output != "wide" {
		return err
	}
	fmt.Fprintln(a.stdout)
	if d.InDatagrams { // agents cache nothing of it
		return printTable(a.stdout, d.Measurements.Links, datagramLinkColumns, true)
	}
	if err := printTable(a.stdout, d.Measurements.Links, linkColumns, true); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return printTable(a.stdout, d.Measurements.Caches, cacheColumns, true)
}

// sayLeftOut says which of the things to be shown are missing from a delivery to thousands of members.
func (a *app) sayLeftOut(d sdk.Delivery) {
	if len(d.LeftOut) > 0 && a.output == "wide" || lacksReceipts(d) {
		fmt.Fprintf(a.stderr, "of so many members not all fits into one answer: it is without (some of) %s\n", strings.Join(d.LeftOut, ", "))
	}
}

// lacksReceipts reports whether receipts are missing from a delivery, be it only of members that came late.
func lacksReceipts(d sdk.Delivery) bool {
	return slices.Contains(d.LeftOut, "receipts") || slices.Contains(d.LeftOut, "late receipts")
}

func (a *app) printReceipts(d sdk.Delivery) error {
	columns := receiptColumns
	if d.InDatagrams {
		columns = datagramColumns
	}
	receipts := slices.Clone(d.Receipts)
	for i, r := range receipts {
		receipts[i].Bytes = content(d.Kind, r.Bytes)
	}
	return showTable(a, receipts, columns, "STRETCH", "TIME")
}

// summary says how a delivery went, as the paper measures it.
func summary(d sdk.Delivery) string {
	if d.InDatagrams {
		return datagramSummary(d)
	}
	text := fmt.Sprintf("delivery %s of %s (%s) is %s: %s", shortID(d), printable.Text(d.Name), deliverySize(d), strings.ToLower(deliveryState(d)), whoDid(d, "have it"))
	m := d.Measurements
	if d.State == sdk.DeliveryComplete && d.SentBytes == 0 && d.Length > 0 {
		return text + "\nall had it already: nothing was sent"
	}
	if d.Changes && !d.Ended.IsZero() && m.CarriedBytes > 0 && m.CarriedBytes < d.Length {
		text += fmt.Sprintf("\nsent %s of %s", bytesize.Short(m.CarriedBytes), bytesize.Short(d.Length))
		if d.State == sdk.DeliveryComplete {
			text += ": members had the rest"
		}
		return text
	}
	if m.SendBytesPerSecond == 0 || content(d.Kind, d.Length) == 0 && d.Kind == sdk.Directory {
		return text
	}
	text += fmt.Sprintf("\nsent at %s/s", bytesize.Short(m.SendBytesPerSecond))
	if d.State == sdk.DeliveryComplete && m.ReceptionBytesPerSecond > 0 { // it is not measured where not all had it yet; the slowest has to be one that did not fail
		text += fmt.Sprintf(", received at %s/s by the slowest (effective throughput %.2f)", bytesize.Short(m.ReceptionBytesPerSecond), m.EffectiveThroughput)
	}
	for _, cache := range m.Caches {
		text += fmt.Sprintf("; %s cached %.0f%%", cache.Agent, 100*cache.Ratio)
	}
	return text
}

// whoDid says how many of its members have done something: those that were there at its beginning, and, where some came late, those too.
func whoDid(d sdk.Delivery, what string) string {
	late, did := 0, 0
	for _, r := range d.Receipts {
		if r.Late {
			late++
			if r.State == sdk.ReceiptComplete {
				did++
			}
		}
	}
	switch late {
	case 0:
		return fmt.Sprintf("%d of %d members %s", d.Complete, d.Members, what)
	case did:
		return fmt.Sprintf("%d of the %d members at its beginning %s, and %d that came late", d.Complete, d.Members, what, late)
	}
	return fmt.Sprintf("%d of the %d members at its beginning %s, and %d of %d that came late", d.Complete, d.Members, what, did, late)
}

func (a *app) deliveryCommand() *cobra.Command {
	delivery := &cobra.Command{Use: "delivery", Short: "See deliveries and cancel them", Aliases: []string{"deliveries"}}
	delivery.AddCommand(a.deliveryList(), a.deliveryGet(), a.deliveryExplain(), a.deliveryWatch(), a.deliveryCancel())
	return delivery
}

func (a *app) deliveryList() *cobra.Command {
	var group string
	command := &cobra.Command{
		Use: "list", Short: "List deliveries, the newest first", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				deliveries, err := client.Deliveries(ctx, group)
				if err != nil {
					return err
				}
				return printList(a, deliveries, deliveryColumns, "SENDER", "GROUP", "AGE", "SIZE")
			})
		},
	}
	command.Flags().StringVar(&group, "group", "", "only of this group (members name theirs)")
	return command
}

func (a *app) deliveryGet() *cobra.Command {
	var group string
	return inGroup(&group, &cobra.Command{
		Use: "get [ID]", Short: "Show a delivery and who has it", Args: cobra.MaximumNArgs(1),
		Long: "Shows a delivery and what is known of every member; with -o wide also what every\nlink carried and every agent cached. The first digits of the id are enough; without any\nit is the newest delivery, of --group if that is given.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				d, err := named(ctx, client, group, args)
				if err != nil {
					return err
				}
				if a.output == "table" || a.output == "wide" {
					fmt.Fprintln(a.stderr, summary(d))
				}
				return a.printDelivery(d)
			})
		},
	})
}

func (a *app) deliveryWatch() *cobra.Command {
	var group string
	return inGroup(&group, &cobra.Command{
		Use: "watch [ID]", Short: "Show how a delivery goes on, until it has ended", Args: cobra.MaximumNArgs(1),
		Long: "Shows how a delivery goes on, until it has ended: on a terminal its tree, with how much\n" +
			"each node has and at which rate it gets more; elsewhere a line for whatever is new.\n" +
			"Without an id it is the newest delivery, of --group if that is given.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
				named, err := named(ctx, client, group, args)
				if err != nil {
					return err
				}
				shown := newProgress(a)
				shown.tree = true
				last, err := watchToEnd(a, client.WatchDeliveryTree(ctx, named.ID), shown.show, shown)
				if err != nil {
					return err
				}
				if a.output == "json" || a.output == "yaml" {
					return outcomeOf(last)
				}
				return a.conclude(ctx, client, last, shown)
			})
		},
	})
}

func (a *app) deliveryCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "End a delivery: members that do not have it get no more of it", Args: cobra.ExactArgs(1),
		Long:    "Ends a delivery for all who do not have it. The first digits of the id are enough, as 'groupcast delivery list'\nshows them. One that has ended stays as it is, which is said.",
		Example: "  groupcast delivery cancel 4f1c09aa",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				before, failed := client.Delivery(ctx, args[0])
				d, err := client.CancelDelivery(ctx, args[0])
				if err != nil {
					return err
				}
				if failed == nil && !before.Ended.IsZero() {
					a.sayEnded("delivery", shortID(d), before.Ended)
				}
				return printOne(a, d, deliveryColumns)
			})
		},
	}
}

// sayEnded says that nothing was canceled, as it had ended: the row that follows would be taken for the outcome of the cancel.
func (a *app) sayEnded(what, id string, at time.Time) {
	fmt.Fprintf(a.stderr, "%s %s had ended already, %s ago: nothing was canceled\n", what, id, age(at))
}

// conclude shows how a delivery ended, and makes the exit status of that. Its table has no fewer bytes than the progress has shown.
func (a *app) conclude(ctx context.Context, client *sdk.Client, d sdk.Delivery, shown *progress) error {
	if a.output != "table" || d.Changes {
		d = settled(ctx, client, d)
	}
	d = shown.seen(d)
	if a.output == "table" || a.output == "wide" {
		fmt.Fprintln(a.stderr, summary(d))
	}
	err := a.printDelivery(d)
	a.sayWhy(d)
	return errors.Join(err, outcomeOf(d))
}

// canceled shows how a canceled delivery ended. It may have been complete in that moment: then the cancel had no effect.
func (a *app) canceled(d sdk.Delivery, shown *progress) error {
	err := a.printDelivery(shown.seen(d)) // whoever reads it may have been interrupted as well
	if d.State == sdk.DeliveryComplete {
		fmt.Fprintln(a.stderr, summary(d))
		return err
	}
	fmt.Fprintf(a.stderr, "delivery %s canceled\n", shortID(d))
	return errors.Join(errInterrupted, err)
}

// settling is how often to ask whether all agents have reported.
const settling = 100 * time.Millisecond

// settled waits until all agents have reported about a delivery that has ended, which takes a moment, and returns it as it is then.
func settled(ctx context.Context, client *sdk.Client, d sdk.Delivery) sdk.Delivery {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for !d.Measurements.Settled && pause.For(ctx, settling) {
		latest, err := client.Delivery(ctx, d.ID)
		if err != nil {
			break
		}
		d = latest
	}
	return d
}

// sayUnkept says that members that join late can have an object from nowhere, though it was asked to be kept for them.
func (a *app) sayUnkept(d sdk.Delivery) {
	keeps := func(c sdk.CacheUse) bool { return c.Keeps }
	if m := d.Measurements; d.Kind == sdk.Stream || d.Complete == 0 || !m.Settled || slices.ContainsFunc(m.Caches, keeps) {
		return
	}
	why := "groupcast agent list shows how large their caches are"
	if d.Changes {
		why = "they took what members lacked; without --changes they take all"
	}
	fmt.Fprintf(a.stderr, "it is not kept for members that join late: no agent has all of it (%s)\n", why)
}

// mostReasons is how many members' reasons are told at once.
const mostReasons = 10

// sayWhy says why members do not have it, with more than the word in the table.
func (a *app) sayWhy(d sdk.Delivery) {
	said := 0
	for _, receipt := range d.Receipts {
		why := receipt.Detail
		switch {
		case receipt.State == sdk.ReceiptUnknown:
			why = fmt.Sprintf("has not been heard of since %s, and may have all of it or nothing", receipt.Changed.Local().Format(time.TimeOnly))
		case receipt.State != sdk.ReceiptFailed || why == "":
			continue
		}
		if said++; said > mostReasons {
			fmt.Fprintf(a.stderr, "and others: groupcast delivery get %s -o wide\n", shortID(d))
			return
		}
		fmt.Fprintf(a.stderr, "%s: %s\n", receipt.Member, printable.Text(why))
	}
}

// outcomeOf returns why a delivery is no success, if it is not.
func outcomeOf(d sdk.Delivery) error {
	switch d.State {
	case sdk.DeliveryComplete:
		return nil
	case sdk.DeliveryPartial:
		return fmt.Errorf("%w: %d of %d are complete", errPartial, d.Complete, d.Members)
	case sdk.DeliveryRunning:
		return errInterrupted
	}
	reason := d.Reason
	for _, receipt := range d.Receipts {
		if reason == "" && receipt.Reason != "" {
			reason = receipt.Reason
		}
	}
	isUnknown := func(r sdk.Receipt) bool { return r.State == sdk.ReceiptUnknown }
	if reason == "" && slices.ContainsFunc(d.Receipts, isUnknown) { // none has failed
		reason = "nothing is heard of them any more"
	}
	return fmt.Errorf("no member has it: %s", orDash(reason))
}
