package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

// replicate is what the replicate command was asked for.
type replicate struct {
	spec   sdk.ReplicationSpec
	rate   bytesize.Size
	noWait bool
}

func (a *app) replicateCommand() *cobra.Command {
	r := new(replicate)
	command := &cobra.Command{
		Use: "replicate NODE:PATH --to PATH --on SELECTOR", Short: "Replicate a file, a directory or a block device to whole LANs by multicast", Args: cobra.ExactArgs(1),
		Long: `Has the replicator on a node send a file, a directory or a block device to other
replicators, once over each of their LANs, and says who has it. It goes by multicast:
replicators have to run on all of these machines, and their configuration says what
may be read and written there.

The selector has terms separated by commas: NAME names a replicator; KEY=VALUE asks for
a label, lan=NAME for a LAN, node=NAME for a node; * is every replicator. Each
that is named is selected, as far as all that is asked for holds of it.

The exit status is 0 when each replica is complete, verified and on disk, 3 when some
are, 1 when none is, and 4 when nothing has begun: nobody is selected, or the sender is
offline.

Interrupted, it cancels the replication, as it does if no manager says within --timeout
that it has begun; with --no-wait it returns when it has begun, and
'groupcast replication watch' shows how it goes on.`,
		Example: "  groupcast replicate store-1:/srv/images/disk.img --to /srv/images --on lan=rack1\n" +
			"  groupcast replicate /srv/models --from store-1 --to /srv --on role=worker --slow detach\n" +
			"  groupcast replicate store-1:/dev/vg0/golden-snapshot --to /dev/sdb --serial WD-1234 --on node-7",
	}
	command.Annotations = map[string]string{fieldOf: "spec.source_path"}
	flags := command.Flags()
	flags.StringVar(&r.spec.TargetPath, "to", "", "directory in which it appears at each replica under its own name, or block device that it overwrites")
	flags.StringVar(&r.spec.Selector, "on", "", "who gets it: names of replicators, KEY=VALUE, lan=NAME, node=NAME, or *")
	flags.StringVar(&r.spec.SourceNode, "from", "", "replicator that sends, or its node, if the source does not say it")
	flags.StringVar((*string)(&r.spec.Slow), "slow", "", "what happens when a replica cannot keep up: pace (all wait for it) or detach (it is served last) (pace)")
	flags.DurationVar(&r.spec.Deadline, "deadline", 0, "how long it may take (no limit)")
	addSize(flags, &r.rate, "rate", "bytes per second to send at most to each LAN, as 100MB (what the network interface carries)")
	flags.StringVar(&r.spec.DeviceSerial, "serial", "", "serial number that the block device must have that is overwritten (any)")
	flags.BoolVar(&r.spec.SkipUnused, "skip-unused", false, "of a block device, leave out what the file system on it does not use: replicas have zeros there (needs partclone at the sender)")
	flags.BoolVar(&r.noWait, "no-wait", false, "return when it has begun")
	sets(flags, map[string]string{
		"to": "spec.target_path", "on": "spec.selector", "slow": "spec.slow", "deadline": "spec.deadline", "rate": "spec.max_bytes_per_second", "serial": "spec.device_serial",
	})
	for _, name := range []string{"to", "on"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic("cli: " + err.Error())
		}
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := r.parse(args[0]); err != nil {
			return err
		}
		outlastReaders()
		return a.stay(command, func(ctx context.Context, client *sdk.Client) error { return a.replicate(ctx, client, r) })
	}
	return command
}

// parse reads NODE:PATH, or only a path with --from.
func (r *replicate) parse(source string) error {
	r.spec.MaxBytesPerSecond = uint64(r.rate)
	node, path, named := strings.Cut(source, ":")
	for _, given := range []string{source, r.spec.TargetPath} {
		if !utf8.ValidString(given) { // the API could not carry it
			return usageError{fmt.Errorf("%q is not UTF-8: rename it", given)}
		}
	}
	switch {
	case r.spec.SourceNode != "":
		r.spec.SourcePath = source
	case !named || node == "" || strings.Contains(node, "/"):
		return usageError{fmt.Errorf("%q does not say where it is: want NODE:PATH, as store-1:/srv/disk.img, or --from NODE ('groupcast replicator list' shows who is there)", source)}
	default:
		r.spec.SourceNode, r.spec.SourcePath = node, path
	}
	return nil
}

func (a *app) replicate(ctx context.Context, client *sdk.Client, r *replicate) error {
	beginning, cancel := a.within(ctx, client)
	begun, err := client.Replicate(beginning, r.spec)
	cancel()
	if errors.Is(err, sdk.ErrMayGoOn) { // an error that says interrupted is not shown
		fmt.Fprintln(a.stderr, "the replication may have begun all the same, and go on (see 'groupcast replication list')")
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "replication %s from %s to %s; 'groupcast replication watch %[1]s' shows it elsewhere, 'groupcast replication cancel %[1]s' ends it\n",
		shortReplicationID(begun), begun.Sender, legs(begun))
	if r.noWait {
		return printOne(a, begun, replicationColumns)
	}
	shown := newProgress(a)
	last, err := a.followReplication(ctx, client, begun, shown)
	if ctx.Err() != nil {
		return a.cancelReplication(ctx, client, begun, shown)
	}
	if err != nil {
		return fmt.Errorf("replication %s was lost sight of, and goes on (see 'groupcast replication watch %[1]s'): %w", shortReplicationID(begun), err)
	}
	return a.concludeReplication(last, shown)
}

// followReplication shows how a replication goes on until it has ended.
func (a *app) followReplication(ctx context.Context, client *sdk.Client, begun sdk.Replication, shown *progress) (last sdk.Replication, err error) {
	defer shown.end()
	for state, err := range client.WatchReplication(ctx, begun.ID) {
		if err != nil {
			return last, err
		}
		last = state
		shown.showReplication(state)
	}
	return last, nil
}

// cancelReplication ends a replication that was followed and interrupted.
func (a *app) cancelReplication(ctx context.Context, client *sdk.Client, begun sdk.Replication, shown *progress) error {
	canceling, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer stop()
	ended, err := client.CancelReplication(canceling, begun.ID)
	if err != nil {
		return fmt.Errorf("cancel replication %s, which goes on (try 'groupcast replication cancel %[1]s'): %w", shortReplicationID(begun), err)
	}
	return a.canceledReplication(ended, shown)
}

// canceledReplication shows how a canceled replication ended. It may have been complete in that moment: then the cancel had no effect.
func (a *app) canceledReplication(r sdk.Replication, shown *progress) error {
	if r.State == sdk.ReplicationComplete {
		return a.concludeReplication(r, shown)
	}
	err := a.printReplication(shown.seenReplication(r)) // whoever reads it may have been interrupted as well
	fmt.Fprintf(a.stderr, "replication %s canceled\n", shortReplicationID(r))
	return errors.Join(errInterrupted, err)
}

// concludeReplication shows how a replication ended, and makes the exit status of that. Its table has no fewer bytes than the progress has
// shown.
func (a *app) concludeReplication(r sdk.Replication, shown *progress) error {
	r = shown.seenReplication(r)
	if a.output == "table" || a.output == "wide" {
		fmt.Fprintln(a.stderr, replicationSummary(r))
	}
	return errors.Join(a.printReplication(r), replicationOutcome(r))
}

// replicationOutcome returns why a replication is no success, if it is not.
func replicationOutcome(r sdk.Replication) error {
	switch r.State {
	case sdk.ReplicationComplete:
		return nil
	case sdk.ReplicationPartial:
		return fmt.Errorf("%w: %d of %d are complete", errPartial, r.Complete, r.ReplicaCount)
	case sdk.ReplicationRunning:
		return errInterrupted
	}
	reason := r.Reason
	for _, replica := range r.Replicas {
		reason = cmp.Or(reason, replica.Reason)
	}
	return fmt.Errorf("no replica has it: %s", cmp.Or(reason, unheard(r.Replicas)))
}

// mostUnheard is how many replicas are named of which nothing was heard.
const mostUnheard = 3

// unheard says of which replicas nothing was heard, and for how long.
func unheard(replicas []sdk.Replica) string {
	var all []string
	for _, replica := range replicas {
		if replica.State == sdk.ReplicaUnknown {
			all = append(all, fmt.Sprintf("%s for %s", replica.Name, age(replica.Changed)))
		}
	}
	if len(all) == 0 {
		return orDash("")
	}
	if more := len(all) - mostUnheard; more > 0 {
		all = append(all[:mostUnheard], fmt.Sprintf("%d others", more))
	}
	return "nothing was heard of " + strings.Join(all, ", ")
}
