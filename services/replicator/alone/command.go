package alone

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/interrupt"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// Exit statuses: those of groupcast push and pull.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3
	exitUnavailable = 6
	exitDamaged     = 7
	exitInterrupted = 130
)

var (
	errPartial     = errors.New("not every receiver has it")
	errNone        = errors.New("no receiver has it")
	errInterrupted = errors.New("interrupted")
)

// usageError says that the command was called wrongly.
type usageError struct{ error }

// app is one invocation.
type app struct {
	stdout, stderr io.Writer
	quiet          bool
	output         string
	phrase         string
	lan            string
	group          string
	ttl            int
	profile        string
}

// garbagePercent: a replication holds what it needs, and makes little garbage.
const garbagePercent = 400

// Main runs a command and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	said := writeBeside(stderr)
	defer said.end()
	a := &app{stdout: stdout, stderr: said}
	root := &cobra.Command{
		Use: "groupcast-replicator", Short: "Replicate files and block devices to a whole LAN by multicast",
		SilenceErrors: true, SilenceUsage: true, Long: about,
		Args: takes(unknownCommand),
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		if command == root { // the flag may be one of a command that is misspelt
			err = cmp.Or(unknownCommand(command, command.Flags().Args()), err)
		}
		return usageError{err}
	})
	root.AddCommand(a.sendCommand(), a.receiveCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(said)
	ctx, stop := interrupt.Context()
	defer stop()
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	status := statusOf(err)
	if err != nil && status != exitInterrupted {
		fmt.Fprintf(said, "groupcast-replicator: %v\n", err)
	}
	return status
}

func unknownCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown command %q: it can be send or receive", args[0])
	}
	return nil
}

// takes has wrong arguments be a wrong call.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

const about = `Replicates a file, a directory or a block device to every machine of a LAN at once,
without a manager: one sends, all others receive, and a phrase that all are given is how
they find and believe each other. ` + statuses

const statuses = `The exit status is
  0 ok                3 not everybody has it     7 content damaged
  1 failed            6 nobody was heard,        130 interrupted
  2 called wrongly      or the sender is gone`

func statusOf(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errPartial):
		return exitPartial
	case errors.Is(err, receive.ErrDamaged):
		return exitDamaged
	case isUnheard(err):
		return exitUnavailable
	}
	return exitFailed
}

// flags are those of both commands.
func (a *app) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&a.lan, "lan", "", "network interface that leads to the LAN, as eth0")
	flags.StringVar(&a.group, "group", "", "multicast group and port, as 239.1.2.3:5000 (one that follows from the phrase)")
	flags.IntVar(&a.ttl, "ttl", 1, "how many networks a packet may see: 1 stays in the LAN")
	flags.StringVar(&a.profile, "profile", "fast", "fast, or paper: SOMA as it was published, which believes whoever is in the LAN")
	flags.StringVarP(&a.output, "output", "o", "table", "table, or json: how it ended as 'groupcast replication get -o json' shows it")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "show no progress")
	command.PreRunE = a.checkKey
	if err := command.MarkFlagRequired("lan"); err != nil {
		panic("alone: " + err.Error())
	}
}

// checkKey refuses a call without what it needs, and an empty phrase, which is what a variable that is not set leaves in a script: a
// sender that made up a phrase instead would wait for ever.
func (a *app) checkKey(command *cobra.Command, _ []string) error {
	if err := command.ValidateRequiredFlags(); err != nil {
		return usageError{err}
	}
	if a.phrase == "" && command.Flags().Changed("key") {
		return usageError{errors.New("--key is empty: give the phrase that both sides have")}
	}
	if a.output != "table" && a.output != "json" {
		return usageError{fmt.Errorf("--output %s: it can be table or json", a.output)}
	}
	if a.ttl < 1 || a.ttl > 255 {
		return usageError{fmt.Errorf("--ttl %d: it can be 1 to 255", a.ttl)}
	}
	return nil
}

// meet is where and with which key to meet.
func (a *app) meet() (multicast.Place, []byte, error) {
	if err := a.checkInterface(); err != nil {
		return multicast.Place{}, nil, err
	}
	m, err := meet(a.phrase)
	if err != nil {
		return multicast.Place{}, nil, usageError{err}
	}
	if a.group != "" {
		if m.group, err = a.groupGiven(); err != nil {
			return multicast.Place{}, nil, err
		}
	}
	return multicast.Place{Group: m.group, Interface: a.lan, TTL: a.ttl}, m.key, nil
}

// checkInterface refuses a network interface that there is not.
func (a *app) checkInterface() error {
	if _, err := net.InterfaceByName(a.lan); err != nil {
		return usageError{fmt.Errorf("--lan %s: %w: 'ip link' lists those that there are", a.lan, err)}
	}
	return nil
}

// groupGiven is the group that --group names.
func (a *app) groupGiven() (netip.AddrPort, error) {
	group, err := netip.ParseAddrPort(a.group)
	if err != nil || !group.Addr().Is4() || !group.Addr().IsMulticast() || group.Port() == 0 {
		return group, usageError{fmt.Errorf("--group %s: give an address from 224.0.0.0 to 239.255.255.255 and a port, as 239.7.7.7:7431", a.group)}
	}
	return group, nil
}

// unfit says why nothing can be heard through a network interface as it is now; empty if nothing is wrong with it.
func unfit(device net.Interface) string {
	switch {
	case device.Flags&net.FlagUp == 0:
		return "it is down"
	case device.Flags&net.FlagRunning == 0:
		return "it has no carrier: is the cable plugged in?"
	case device.Flags&net.FlagMulticast == 0:
		return "it carries no multicast ('ip link set multicast on' changes that)"
	case device.MTU < send.LeastMTU:
		return fmt.Sprintf("it has an MTU of %d, and replication needs %d", device.MTU, send.LeastMTU)
	}
	return ""
}

func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
