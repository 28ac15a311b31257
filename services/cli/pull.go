package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// pull is what the pull command was asked for.
type pull struct {
	join   sdk.Join
	into   string
	once   bool
	stdout bool
	fresh  time.Duration
	exec   string
	relay  relay

	reserve bytesize.Size

	commands commands
	output   *streamsOut
	underWay underWay

	joined      bool // it has been a member before
	refusedKept bool // that kept deliveries are refused was said
}

func (a *app) pullCommand() *cobra.Command {
	p := &pull{join: sdk.Join{Roles: []sdk.Role{sdk.Receive}}}
	command := &cobra.Command{
		Use: "pull --group GROUP --into DIR", Short: "Be a member of a group that receives what others push", Args: cobra.NoArgs,
		Long: `Joins a group and receives all that is delivered to it until interrupted, several
deliveries at once. An object appears in the directory whole and verified, under its
name; what is unfinished is below .groupcast-partial, and goes on when the same
is pushed again. A stream is NAME.incomplete until all of it has come.

--exec runs a command by the shell for each object, with GROUPCAST_PATH,
GROUPCAST_NAME, GROUPCAST_SENDER, GROUPCAST_DELIVERY and GROUPCAST_BYTES in its
environment, one after another; other deliveries are received meanwhile.

--relay makes the member a session agent of its group, too: what it receives, it passes
on to others, so that a group needs no agents of its own. The group's policy has to
allow it ('groupcast group update GROUP --members-relay').`,
		Example: "  groupcast pull --group models --into /srv/models\n  groupcast pull --group models --into /srv/models --relay\n  groupcast pull --group models --into . --once\n  groupcast pull --group watchers --stdout | grep ERROR",
	}
	p.flags(command.Flags())
	if err := command.MarkFlagRequired("group"); err != nil {
		panic("cli: " + err.Error())
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := p.check(command.Flags()); err != nil {
			return usageError{err}
		}
		return a.keepPulling(command, p)
	}
	return command
}

func (p *pull) flags(flags *pflag.FlagSet) {
	flags.StringVar(&p.join.Group, "group", "", "group to receive from")
	flags.StringVar(&p.join.Name, "as", "", "name of the member (that of the identity, else one made up)")
	flags.StringVar(&p.join.Node, "node", thisNode(), "machine that the member runs on: an agent there feeds it ("+nodeVariable+")")
	addLabels(flags, &p.join.Labels, "labels, as zone=eu-1 or zone=eu-1/rack-7")
	flags.StringVar(&p.into, "into", "", "directory that objects appear in; it is made if it is missing")
	flags.BoolVar(&p.once, "once", false, "end after one delivery that begins here, also if it fails; the exit status says how it, and --exec, ended")
	flags.BoolVar(&p.stdout, "stdout", false, "write streams to standard output; without --into, all else is refused")
	flags.DurationVar(&p.fresh, "fresh", 0, "how old a datagram of a stream may be, as 200ms, where that is less than what its sender allows (what that allows)")
	flags.StringVar(&p.exec, "exec", "", "command to run for each object that has arrived")
	addSize(flags, &p.reserve, "reserve", "bytes of its disk that objects leave to others, as 1GiB; one that would leave less fails with no_room (they leave nothing)")
	p.relay.flags(flags)
}

// check returns what is wrong with the flags.
func (p *pull) check(flags *pflag.FlagSet) error {
	if p.into == "" && !p.stdout {
		return errors.New("name a directory with --into, or --stdout for streams")
	}
	if p.fresh < 0 {
		return fmt.Errorf("--fresh is %v: want a time, as 200ms", p.fresh)
	}
	return p.relay.check(flags)
}

// keepPulling pulls in one session after another: a session expires if the managers do not hear of it for too long.
func (a *app) keepPulling(command *cobra.Command, p *pull) error {
	p.output = &streamsOut{to: a.stdout, all: make(map[string]*written)}
	p.commands.run = func(one sdk.Arrived) error {
		err := execute(command.Context(), a.stderr, p.exec, one)
		if err != nil && (!p.once || errors.Is(err, errInterrupted)) { // otherwise it is the outcome, which is told at the end
			fmt.Fprintln(a.stderr, err)
		}
		return err
	}
	return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
		defer func() { _ = p.commands.end() }() // failures were told
		for {
			err := a.pull(ctx, client, p)
			if !isExpired(err) {
				var ended *sdk.SessionEnded
				errors.As(err, &ended)
				a.sayCommandsLeft(ended, &p.commands)
				return err
			}
			p.underWay.sessionEnds()
			fmt.Fprintf(a.stderr, "%v; joining again%s\n", err, p.awaited())
		}
	})
}

// makeInto makes the directory that objects appear in.
func (p *pull) makeInto() error {
	if p.into == "" {
		return nil
	}
	switch err := os.MkdirAll(p.into, 0o755); {
	case errors.Is(err, unix.ENOTDIR):
		return unusable(fmt.Errorf("--into %s: a directory is wanted, and that is none", p.into))
	case err != nil:
		return unusable(err)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, p.into, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return unusable(fmt.Errorf("nothing can be put into %s: %w", p.into, err))
	}
	return nil
}

func (a *app) pull(ctx context.Context, client *sdk.Client, p *pull) (err error) {
	if err := p.makeInto(); err != nil {
		return err
	}
	if err := nameReceiver(client, &p.join); err != nil {
		return err
	}
	session, err := a.joinToReceive(ctx, client, p)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "joined %s as %s; interrupt to leave\n", p.join.Group, session.Member().Name)
	defer a.leave(ctx, session)
	stop, err := p.startRelay(ctx, a, session)
	if err != nil {
		return err
	}
	defer stop()
	p.joined = true
	outlastReaders() // so that it leaves its group at the end
	receiving, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer a.sayLost(ctx, client, p, end)()
	options := a.receiveOptions(p)
	if p.once {
		defer p.underWay.sayNothingNew(ctx, a.stderr, session.Member().Name)()
	}
	defer func() {
		if ctx.Err() != nil {
			p.underWay.unfinished(a.stderr, p)
		}
	}()
	defer func() {
		if over, outcome := a.takeUnseen(ctx, client, session, options, p); over && p.once {
			err = outcome
		}
	}()
	for arrived, err := range session.Receive(receiving, options) {
		switch lost := new(lostOnce); {
		case err != nil && ctx.Err() != nil:
			return errInterrupted
		case err != nil && errors.As(context.Cause(receiving), &lost):
			return lost.err
		case err != nil:
			return err
		}
		if over, outcome := a.take(ctx, client, p, arrived); over {
			return outcome
		}
	}
	return errInterrupted
}

// joinToReceive joins. One that has been a member before tries as often as it takes.
func (a *app) joinToReceive(ctx context.Context, client *sdk.Client, p *pull) (*sdk.Session, error) {
	a.sayReplaced(ctx, client, p.join)
	if p.joined {
		return a.joinAgain(ctx, client, p.join)
	}
	return a.join(ctx, client, p.join)
}

// startRelay has the member relay, if it was asked to. One that did before does so again as soon as the managers let it.
func (p *pull) startRelay(ctx context.Context, a *app, session *sdk.Session) (stop func(), err error) {
	if !p.joined {
		return p.relay.start(ctx, a, session, p)
	}
	joined, end := whileJoined(ctx, session)
	defer end()
	err = a.insist(joined, func() error {
		stop, err = p.relay.start(joined, a, session, p)
		return err
	})
	if err != nil {
		err = cmp.Or(session.Err(), err)
	}
	return stop, err
}

func (a *app) receiveOptions(p *pull) sdk.ReceiveOptions {
	options := sdk.ReceiveOptions{Into: p.into, Reserve: uint64(p.reserve), Fresh: p.fresh, Once: p.once, Begun: func(in sdk.Incoming) {
		if !p.takes(in) { // it is refused, which is said later
			return
		}
		p.underWay.begins(in)
		fmt.Fprintf(a.stderr, "%s  receiving %s from %s\n", time.Now().Format(time.TimeOnly), printable.Text(in.Name), in.Sender)
	}}
	if p.stdout {
		options.Stream = p.output.open
	}
	return options
}

// take says what has arrived, even if it is interrupted meanwhile: the managers have the receipt, so that it does not come
// again. It reports whether nothing else is to be received, and returns how that one ended.
func (a *app) take(ctx context.Context, client *sdk.Client, p *pull, one sdk.Arrived) (over bool, outcome error) {
	p.underWay.ends(one.ID)
	p.output.forget(one.ID)
	err := a.arrived(p, one)
	if over = err != nil || p.once && p.takes(one.Incoming) || p.output.unread.Load(); !over {
		return false, nil
	}
	if p.once {
		err = errors.Join(err, p.commands.end())
	}
	if p.relay.on {
		a.relayOn(ctx, client, one.Incoming)
	}
	return true, errors.Join(err, one.Err)
}

// takeUnseen takes deliveries that had arrived when receiving ended, and were not yielded.
func (a *app) takeUnseen(ctx context.Context, client *sdk.Client, session *sdk.Session, options sdk.ReceiveOptions, p *pull) (over bool, outcome error) {
	ended, end := context.WithCancel(ctx)
	end() // nothing more is awaited
	for one, err := range session.Receive(ended, options) {
		if err != nil {
			break
		}
		if last, how := a.take(ctx, client, p, one); last {
			over, outcome = true, how
		}
	}
	return over, outcome
}

// awaited says what a member that receives one delivery waits for, if it has begun to receive it.
func (p *pull) awaited() string {
	left := p.underWay.leftBehind()
	if !p.once || len(left) == 0 {
		return ""
	}
	return fmt.Sprintf(" for the rest of %s, or what became of it", printable.Text(left[0].Name))
}

// takes reports whether this member takes a delivery: without a directory, it takes only
// streams.
func (p *pull) takes(one sdk.Incoming) bool { return p.into != "" || one.Kind == sdk.Stream }

// arrivedEvent is an arrival as JSON.
type arrivedEvent struct {
	Delivery string `json:"delivery"`
	Name     string `json:"name"`
	Sender   string `json:"sender"`
	Path     string `json:"path,omitempty"`
	Bytes    uint64 `json:"bytes,string"`
	Error    string `json:"error,omitempty"`

	Datagrams *datagramCounts `json:"datagrams,omitempty"`
}

// refuseKept says once that kept deliveries that this member does not take are refused: nobody waits for these, and there may be
// many.
func (a *app) refuseKept(p *pull) {
	if !p.refusedKept {
		p.refusedKept = true
		fmt.Fprintf(a.stderr, "%s  what the group keeps and is no stream is refused: there is no directory to put it into (--into)\n", time.Now().Format(time.TimeOnly))
	}
}

// arrived says what has arrived, and has the command run for it.
func (a *app) arrived(p *pull, one sdk.Arrived) (err error) {
	if one.Late && !p.takes(one.Incoming) {
		a.refuseKept(p)
		return nil
	}
	event := arrivedEvent{one.ID, one.Name, one.Sender, one.Path, one.Bytes, "", (*datagramCounts)(one.Datagrams)}
	line := fmt.Sprintf("%s received %s (%s) from %s", a.paint(green, "✓"), printable.Text(one.Name), bytesize.Short(content(one.Kind, one.Bytes)), one.Sender)
	if one.Err != nil {
		event.Error = one.Err.Error()
		why := strings.TrimPrefix(printable.OneLine(one.Err.Error()), "failed: ") // the reason may be that word
		line = fmt.Sprintf("%s %s from %s failed: %s", a.paint(red, "✗"), printable.Text(one.Name), one.Sender, printable.Text(why))
		if one.Path != "" {
			line += "; what came is in " + printable.Text(one.Path)
		}
		if p.once && !p.takes(one.Incoming) {
			line += "; still waiting for a stream"
		}
	} else if one.Path != "" && filepath.Base(one.Path) != one.Name {
		line += "; as " + printable.Text(one.Path) + ", for there was one of that name"
	}
	if one.Datagrams != nil {
		fmt.Fprintf(a.stderr, "%s  of %s came %s\n", time.Now().Format(time.TimeOnly), printable.Text(one.Name), cameOf(*one.Datagrams))
	}
	if p.stdout { // standard output is for streams
		fmt.Fprintf(a.stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
	} else {
		err = a.event(event, line)
	}
	if p.exec != "" && one.Err == nil {
		p.commands.add(one) // even if nobody reads that it has arrived
	}
	return err
}
