package alone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/bytesize"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/linkspeed"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/paper"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// sending is what send was asked for.
type sending struct {
	receivers int
	wait      time.Duration
	patience  time.Duration
	rate      bytesize.Size
	datagram  int
	slow      string
	disk      time.Duration // how long that of the source may not answer
	record    string        // file

	skipUnused bool
}

func (a *app) sendCommand() *cobra.Command {
	s, p := &sending{}, &paperSending{}
	command := &cobra.Command{
		Use: "send FILE|DIR|DEVICE|- --lan INTERFACE", Short: "Send a file, a directory or a block device to all that receive", Args: takes(cobra.ExactArgs(1)),
		Long: `Sends one object to all receivers with the same phrase, and shows how it went for each. The paper profile
sends one file or, with -, standard input as it comes. ` + statuses,
		Example: "  groupcast-replicator send disk.img --lan eth0 --receivers 20\n  groupcast-replicator send /dev/sda2 --lan eth0 --key k7qd-92mf-xw3p-bt6h --wait 1m",
	}
	a.flags(command)
	flags := command.Flags()
	flags.StringVar(&a.phrase, "key", "", "phrase that the receivers are given, too (one is made up and shown)")
	flags.IntVar(&s.receivers, "receivers", 0, "wait until so many receive or have refused, and exit with 3 if not so many have it at the end (begin with the first)")
	flags.DurationVar(&s.wait, "wait", 0, "after this, begin with those that are there; others may still come (wait for ever)")
	flags.DurationVar(&s.patience, "patience", time.Minute, "how long a receiver may be silent before it is given up")
	flags.Var(&s.rate, "rate", "bytes per second to send at most, as 100MB (what the interface can)")
	flags.Lookup("rate").DefValue = "" // none is nothing to show
	flags.Lookup("output").Usage += ", with the address of each receiver as its node"
	flags.IntVar(&s.datagram, "datagram", 0, "bytes of the largest datagram (what the interface's MTU allows)")
	flags.StringVar(&s.slow, "slow", "pace", "what happens to a slow receiver: pace has all wait for it, detach serves it last")
	flags.DurationVar(&s.disk, "disk-patience", diskPatience, "how long the source's disk may not answer at all; one that is slow is waited for; 0 is for ever")
	flags.BoolVar(&s.skipUnused, "skip-unused", false, "leave out what the file system on a device does not use; receivers have zeros there (needs partclone)")
	flags.StringVar(&s.record, "record", "", "file into which it writes how it goes, a line of JSON each tenth of a second: 'groupcast soma figures' draws it")
	p.flags(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		if isPaper, err := a.isPaper(command, "receivers", "wait", "patience", "rate", "datagram", "slow", "disk-patience", "skip-unused", "record"); isPaper || err != nil {
			return a.sendPaper(command.Context(), p, args[0], err)
		}
		if args[0] == standard {
			return usageError{errors.New("-: standard input is sent in the paper profile alone; 'groupcast push - --stream --datagrams' has streams with receipts")}
		}
		if s.record == "" && command.Flags().Changed("record") {
			return usageError{errors.New("--record is empty: name a file, or leave it out")}
		}
		return a.send(command.Context(), s, args[0])
	}
	return command
}

// open opens what is sent, and has it be waited for as long as its disk answers; not while another program finds out what of a device is
// used, which says nothing of how far it is.
func (s *sending) open(ctx context.Context, log *slog.Logger, path string) (send.Opened, error) {
	watch := &pulse.Watch{Log: log, Path: path, Patience: s.disk}
	if s.skipUnused {
		ctx := pulse.In(ctx, &watch.Pulse)
		enter(ctx, path)
		from, err := device.OpenUsed(ctx, path)
		if err != nil {
			return nil, err
		}
		return send.Await(ctx, watch, from), nil
	}
	return send.AwaitOpen(ctx, watch, func(ctx context.Context) (send.Opened, error) {
		enter(ctx, path)
		if device.IsDevice(path) {
			return device.OpenSource(path)
		}
		return send.OpenObject(ctx, path)
	})
}

// check checks the flags that are numbers.
func (s *sending) check() error {
	switch {
	case s.receivers < 0:
		return fmt.Errorf("--receivers %d: it cannot be negative", s.receivers)
	case s.patience <= 0:
		return fmt.Errorf("--patience %v: it has to be positive", s.patience)
	case s.disk < 0:
		return fmt.Errorf("--disk-patience %v: it cannot be negative", s.disk)
	case s.wait < 0:
		return fmt.Errorf("--wait %v: it cannot be negative", s.wait)
	case s.datagram != 0 && (s.datagram < wire.MinDatagram || s.datagram > wire.MaxDatagram):
		return fmt.Errorf("--datagram %d: it can be %d to %d bytes", s.datagram, wire.MinDatagram, wire.MaxDatagram)
	}
	return nil
}

func (a *app) send(ctx context.Context, s *sending, path string) error {
	slow, known := map[string]algo.Slow{"pace": algo.Pace, "detach": algo.Detach}[s.slow]
	if !known {
		return usageError{fmt.Errorf("--slow %s: it can be pace or detach", s.slow)}
	}
	if err := s.check(); err != nil {
		return usageError{err}
	}
	made := a.phrase == ""
	if made {
		a.phrase = NewPhrase()
	}
	place, key, err := a.meet()
	if err != nil {
		return err
	}
	from, err := s.open(ctx, a.log(), path)
	switch {
	case errors.Is(err, pulse.ErrStalled):
		return err
	case err != nil:
		return usageError{err} // as of groupcast push
	}
	defer func() { _ = from.Close() }()
	kept, err := recordInto(s.record, path, a.log())
	if err != nil {
		return usageError{fmt.Errorf("--record: %w", err)}
	}
	if made {
		fmt.Fprintf(a.stderr, "receive with: groupcast-replicator receive --into PATH --lan INTERFACE --key %s\n", a.phrase)
	}
	shown := &line{to: a.stderr, quiet: a.quiet}
	heard := shown.waits(s.whom(), a.lan)
	defer heard()
	a.warnOfInterface()
	begins := func(b send.Beginning) error {
		heard()
		a.begins(s, b.Joined, b.Refused)
		return kept.begin(a, from.Info(), b, place.Group.String())
	}
	progress := func(p send.Progress) {
		shown.sending(p)
		kept.tell(p)
	}
	env := send.Env{Log: a.log(), Progress: progress, Begins: begins}
	result, err := send.Run(ctx, env, send.Config{
		Place: place, Key: key, Source: from, Receivers: s.receivers, Wait: s.wait, Ceiling: s.ceiling(a.lan),
		Datagram: s.datagram, Slow: slow, Patience: s.patience, Exclusive: true,
	})
	shown.end()
	unkept := kept.end(result)
	explain(result.Members)
	if ctx.Err() != nil {
		fmt.Fprintln(a.stderr, a.goOn(result.Members, made))
	}
	return errors.Join(a.ended(ctx, s, from.Info(), result, err), unkept)
}

// ended shows how a replication ended, with err if it was not over, and returns the error of its exit status.
func (a *app) ended(ctx context.Context, s *sending, info object.Info, result send.Result, err error) error {
	if err != nil {
		why := whyEnded(ctx, err)
		result.Members = failing(result.Members, why)
		if a.output == "json" {
			result.Info = info // also if it has not begun
			return errors.Join(err, a.asJSON(result, s.receivers, why, err.Error()))
		}
		if len(result.Members) > 0 {
			a.table(result.Members)
		}
		return err
	}
	if a.output == "json" {
		return errors.Join(verdict(result.Members, s.receivers), a.asJSON(result, s.receivers, "", ""))
	}
	a.receipts(result)
	if missing := s.receivers - len(result.Members); missing > 0 {
		fmt.Fprintf(a.stdout, "%d of %d receivers did not join\n", missing, s.receivers)
	}
	return verdict(result.Members, s.receivers)
}

// goOn says what becomes of a replication that was interrupted.
func (a *app) goOn(members []send.Receipt, made bool) string {
	switch {
	case len(members) == 0:
		return "nobody has joined, and nothing was sent"
	case made:
		return "receivers keep what they have: send again with --key " + a.phrase + " to go on"
	}
	return "receivers keep what they have: send again to go on"
}

// whom says which receivers are waited for before anything is sent.
func (s *sending) whom() string {
	text := "the first receiver"
	if s.receivers > 1 {
		text = fmt.Sprintf("%d receivers", s.receivers)
	}
	if s.wait > 0 {
		text += fmt.Sprintf(", %v at most,", s.wait)
	}
	return text
}

// begins says with how many receivers it begins, if fewer than were waited for.
func (a *app) begins(s *sending, joined, refused int) {
	missing := max(s.receivers-joined-refused, 0)
	var why []string
	if refused > 0 {
		why = append(why, fmt.Sprintf("%d refused", refused))
	}
	if missing > 0 {
		who := "the others"
		if missing == 1 {
			who = "the other"
		}
		why = append(why, fmt.Sprintf("%s did not join within %v", who, s.wait))
	}
	if joined < s.receivers {
		fmt.Fprintf(a.stderr, "begins with %d of %d receivers: %s\n", joined, s.receivers, strings.Join(why, ", "))
	}
}

// ceiling is the most bytes per second: what was asked for, or what the interface can.
func (s *sending) ceiling(device string) float64 {
	if s.rate > 0 {
		return float64(s.rate)
	}
	return cmp.Or(float64(linkspeed.Stated(linkspeed.Interfaces, device)), linkspeed.Presumed)
}

// receipts shows which receivers have it.
func (a *app) receipts(r send.Result) {
	seconds := max(r.Took.Seconds(), 1e-6)
	root := "its root is not known: not all of it was read"
	if r.Root != (object.Root{}) {
		root = "root " + r.Root.String()
	}
	fmt.Fprintf(a.stdout, "%s  %s in %.2fs, %s/s, %s\n", r.Info.Name, bytesize.Short(r.Info.Length), seconds,
		bytesize.Short(uint64(float64(r.Info.Length)/seconds)), root)
	fmt.Fprintf(a.stdout, "datagrams of at most %d bytes: %d, %d of them sent again\n", r.Datagram, r.Counts.Packets, r.Counts.Repairs)
	if r.Counts.Trips > 0 {
		fmt.Fprintf(a.stdout, "it stopped for a while %s, for too much was lost\n", times(r.Counts.Trips))
	}
	a.table(r.Members)
}

// whyEnded is the word for why a sender ended before all had it or had failed; none where nobody came but to refuse.
func whyEnded(ctx context.Context, err error) string {
	var refused *send.RefusedError
	var rival *send.RivalError
	switch {
	case ctx.Err() != nil, errors.As(err, new(recordError)):
		return "canceled"
	case errors.As(err, &rival):
		return "refused"
	case errors.As(err, new(*send.NetworkError)):
		return "no_multicast"
	case errors.Is(err, send.ErrNobody), errors.As(err, &refused):
		return ""
	}
	return "source_failed"
}

// failing has the receivers fail that a sender was still sending to when it ended.
func failing(members []send.Receipt, why string) []send.Receipt {
	for i := range members {
		if members[i].Outcome == algo.Running {
			members[i].Outcome, members[i].Reason = algo.Failed, why
		}
	}
	return members
}

// explain says of those that were given up what may be the matter.
func explain(members []send.Receipt) {
	for i := range members {
		if m := &members[i]; m.Outcome == algo.Unknown && m.Reason == "" {
			m.Reason = "silent"
			m.Detail = "nothing was heard of it any more, or nothing of what was sent got there: see that it runs, that switches carry multicast (IGMP snooping needs a querier), and that no firewall drops UDP"
		}
	}
}

// times says how often.
func times(count uint64) string {
	if count == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", count)
}

// table shows how it went for each.
func (a *app) table(members []send.Receipt) {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RECEIVER\tADDRESS\tOUTCOME\tLANDED\tLOST\tREASON")
	for _, m := range members {
		reason := m.Reason
		if m.Detail != "" {
			reason += ": " + m.Detail
		}
		fmt.Fprintf(table, "%s\t%s\t%v\t%s\t%.2f%%\t%s\n", m.Name, m.Address.Addr(), m.Outcome, bytesize.Short(m.Landed), 100*m.Lost, reason)
	}
	_ = table.Flush()
}

// endOf is how it ended with receipts, of which there should be so many at least.
func endOf(members []send.Receipt, receivers int) replicav1.ReplicationState {
	complete := 0
	for _, m := range members {
		if m.Outcome == algo.Complete {
			complete++
		}
	}
	switch complete {
	case 0:
		return replicav1.ReplicationState_REPLICATION_STATE_FAILED
	case max(len(members), receivers):
		return replicav1.ReplicationState_REPLICATION_STATE_COMPLETE
	}
	return replicav1.ReplicationState_REPLICATION_STATE_PARTIAL
}

// verdict makes the exit status of that.
func verdict(members []send.Receipt, receivers int) error {
	return map[replicav1.ReplicationState]error{
		replicav1.ReplicationState_REPLICATION_STATE_FAILED: errNone, replicav1.ReplicationState_REPLICATION_STATE_PARTIAL: errPartial,
	}[endOf(members, receivers)]
}

func isUnheard(err error) bool {
	return errors.Is(err, send.ErrNobody) || errors.Is(err, receive.ErrNotHeard) || errors.Is(err, receive.ErrSenderGone) ||
		errors.Is(err, receive.ErrSenderFailed) || errors.Is(err, paper.ErrNobodyListens) || errors.Is(err, paper.ErrSenderLost) || errors.Is(err, paper.ErrBegunAnew)
}
