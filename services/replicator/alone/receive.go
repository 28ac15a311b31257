package alone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/pulse"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/receive"
)

// diskPatience is how long a disk may not answer if nothing else is said.
const diskPatience = 5 * time.Minute

// receiving is what receive was asked for.
type receiving struct {
	into     string
	name     string
	site     string
	await    time.Duration
	patience time.Duration
	disk     time.Duration // how long that may not answer
	ack      string
	target   device.Target
}

func (a *app) receiveCommand() *cobra.Command {
	r := &receiving{}
	command := &cobra.Command{
		Use: "receive --into DIR|DEVICE --lan INTERFACE --key PHRASE", Short: "Receive what is sent with the same phrase", Args: takes(cobra.NoArgs),
		Long: `Waits for a sender with the same phrase and receives one object: into a directory, where it
appears under its own name when it is whole and verified, or onto a block device, which
has to be allowed by name and is read back before it counts. Interrupted, it keeps what it has, and
goes on from there when it is called again. ` + statuses,
		Example: "  groupcast-replicator receive --into /srv/images --lan eth0 --key k7qd-92mf-xw3p-bt6h\n  groupcast-replicator receive --into /dev/sda2 --allow-device /dev/sda2 --serial S3Z9NB0K --lan eth0 --key k7qd-92mf-xw3p-bt6h",
	}
	a.flags(command)
	hostname, _ := os.Hostname()
	flags := command.Flags()
	flags.StringVar(&a.phrase, "key", "", "phrase that the sender has")
	flags.StringVar(&r.into, "into", "", "directory or block device that receives it; paper profile: name of a file that is not there yet, or - for standard output, of a stream")
	flags.StringVar(&r.name, "name", hostname, "what the sender calls this receiver; of several on one machine, each needs one of its own")
	flags.StringVar(&r.site, "site", "", "name of the LAN, where several take part")
	flags.DurationVar(&r.await, "await", 0, "how long a sender is waited for (for ever)")
	flags.DurationVar(&r.patience, "patience", time.Minute, "how long the sender may be silent; paper profile: pauses of a stream count, too")
	flags.DurationVar(&r.disk, "disk-patience", diskPatience, "how long the disk may not answer at all; one that is slow is waited for; 0 is for ever")
	flags.StringVar(&r.ack, "ack", "durable", "when it counts as complete: received (verified) or durable (and on disk)")
	flags.StringSliceVar(&r.target.Allowed, "allow-device", nil, "block device that may be overwritten")
	flags.StringVar(&r.target.Serial, "serial", "", "serial number that the device must have")
	flags.StringVar(&r.target.State, "state", "", "directory that says after an interruption how much of a device is there (begin anew)")
	if err := command.MarkFlagRequired("into"); err != nil {
		panic("alone: " + err.Error())
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := r.check(); err != nil {
			return err
		}
		if isPaper, err := a.isPaper(command, "name", "site", "await", "disk-patience", "ack", "allow-device", "serial", "state"); isPaper || err != nil {
			return a.receivePaper(command.Context(), r, err)
		}
		if r.into == standard {
			return usageError{errors.New("--into -: standard output is for streams of the paper profile alone; name a directory or a device")}
		}
		if a.phrase == "" {
			return usageError{errors.New("--key is missing: give the phrase that the sender has")}
		}
		if err := errors.Join(checkName("--name", r.name, true), checkName("--site", r.site, false)); err != nil {
			return usageError{err}
		}
		return a.receive(command.Context(), r)
	}
	return command
}

// checkName returns why senders do not take a name: they would not answer, and the receiver would wait for ever.
func checkName(flag, name string, isNeeded bool) error {
	switch {
	case name == "" && isNeeded:
		return fmt.Errorf("%s is empty: say what the sender is to call this machine", flag)
	case len(name) > wire.MaxMember:
		return fmt.Errorf("%s has %d bytes: it can have %d", flag, len(name), wire.MaxMember)
	case printable.Text(name) != name:
		return fmt.Errorf("%s %q: it has to be UTF-8, of characters that can be seen", flag, name)
	}
	return nil
}

// check returns which flags are times that cannot be.
func (r *receiving) check() error {
	switch {
	case r.patience <= 0:
		return usageError{fmt.Errorf("--patience %v: it has to be positive", r.patience)}
	case r.disk < 0:
		return usageError{fmt.Errorf("--disk-patience %v: it cannot be negative", r.disk)}
	case r.await < 0:
		return usageError{fmt.Errorf("--await %v: it cannot be negative", r.await)}
	}
	return nil
}

// checkInto returns why nothing can land there, whatever comes: the user is told before a sender is waited for. Of what is
// found out later the sender is told, too.
func (r *receiving) checkInto() error {
	if device.IsDevice(r.into) {
		return r.device().Check()
	}
	if r.target.Serial != "" {
		return errors.New("it is no block device, so it has no serial number: leave --serial out, or name the device")
	}
	if err := r.makeDirectory(); err != nil {
		return err
	}
	if err := unix.Faccessat(unix.AT_FDCWD, r.into, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("this user may not write there: %w", err)
	}
	return nil
}

// await makes a call that looks at a path, and waits for it as long as the disk of that answers.
func (a *app) await(ctx context.Context, r *receiving, path string, call func() error) error {
	watch := &pulse.Watch{Log: a.log(), Path: path, Patience: r.disk}
	return watch.Await(ctx, "look at it", func() error {
		enter(pulse.In(ctx, &watch.Pulse), path)
		return call()
	}, func() {})
}

// wrongly is what is wrong with a flag, unless its disk does not answer.
func wrongly(flag string, err error) error {
	if errors.Is(err, pulse.ErrStalled) {
		return err
	}
	return usageError{fmt.Errorf("%s: %w", flag, err)}
}

func (a *app) receive(ctx context.Context, r *receiving) error {
	if r.ack != "received" && r.ack != "durable" {
		return usageError{fmt.Errorf("--ack %s: it can be received or durable", r.ack)}
	}
	if r.target.State != "" {
		create := func() error { return os.MkdirAll(r.target.State, 0o700) }
		if err := a.await(ctx, r, absolute(r.target.State), create); err != nil {
			return wrongly("--state", err)
		}
	}
	place, key, err := a.meet()
	if err != nil {
		return err
	}
	if err := a.await(ctx, r, r.path(), r.checkInto); err != nil {
		return wrongly("--into "+r.into, err)
	}
	shown := &line{to: a.stderr, quiet: a.quiet}
	heard := shown.waits("a sender", a.lan)
	defer heard()
	a.warnOfInterface()
	begins := func(sender netip.AddrPort, info object.Info) {
		heard()
		shown.begins(sender, info)
	}
	receipt, err := receive.Run(ctx, receive.Env{Log: a.log(), Begins: begins, Progress: shown.receiving}, receive.Config{
		Place: place, Key: key, Name: r.name, LAN: r.site, Durable: r.ack == "durable", Leaves: true,
		Await: r.await, Patience: r.patience, Find: r.find, Open: r.open, Path: r.path(), DiskPatience: r.disk,
	})
	shown.end()
	if err != nil && ctx.Err() != nil && receipt.Landed > 0 {
		fmt.Fprintf(a.stderr, "what there is of %s is kept: receive again to go on\n", receipt.Info.Name)
	}
	switch {
	case err != nil && a.output == "json":
		why := receive.Word(err)
		if ctx.Err() != nil {
			why = "left"
		}
		return errors.Join(err, a.receivedAsJSON(r, receipt, why, err.Error()))
	case err != nil:
		return err
	case a.output == "json":
		return a.receivedAsJSON(r, receipt, "", "")
	}
	seconds := max(receipt.Took.Seconds(), 1e-6)
	fmt.Fprintf(a.stdout, "%s  %s in %.2fs, root %s\n", receipt.Info.Name, bytesize.Short(receipt.Info.Length), seconds, receipt.Root)
	if receipt.Resumed > 0 {
		fmt.Fprintf(a.stdout, "%s of it were there before\n", bytesize.Short(receipt.Resumed))
	}
	return nil
}

// warnOfInterface warns if nobody can be heard through the interface as it is now. That may change while the receiver waits.
func (a *app) warnOfInterface() {
	if device, err := net.InterfaceByName(a.lan); err == nil && unfit(*device) != "" {
		a.log().Warn("nothing can be heard through this network interface", "interface", a.lan, "reason", unfit(*device))
	}
}

// path is the absolute path of what it lands on.
func (r *receiving) path() string { return absolute(r.into) }

func absolute(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// enter has ctx's pulse know on which disk a path is, wherever links lead: at each step, for a disk on the way may not answer.
func enter(ctx context.Context, path string) {
	_, _ = pulse.Resolve(absolute(path), func(disk pulse.Disk) error { // opening it tells what is wrong
		pulse.Of(ctx).On(disk)
		return nil
	})
}

// find finds what may be there already.
func (r *receiving) find(ctx context.Context, info object.Info) (receive.Landing, error) {
	enter(ctx, r.into)
	if device.IsDevice(r.into) {
		return receive.InspectDevice(ctx, r.device(), info)
	}
	if there, err := os.Stat(r.into); err != nil || !there.IsDir() {
		return nil, nil //nolint:nilerr // open says what is wrong
	}
	return receive.InspectObject(ctx, r.into, info)
}

func (r *receiving) device() device.Target {
	target := r.target
	target.Path = r.into
	return target
}

// makeDirectory makes the directory to receive into, unless it is there, or would be among devices.
func (r *receiving) makeDirectory() error {
	there, err := os.Stat(r.into)
	at, wrong := filepath.Abs(r.into)
	switch {
	case wrong != nil:
		return wrong
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(at, "/dev/"):
		return errors.New("there is no such device: lsblk lists those that there are")
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(r.into, 0o755)
	case err != nil:
		return err
	case !there.IsDir():
		return errors.New("it is no block device and no directory: give one of these")
	}
	return nil
}

// open opens where it lands.
func (r *receiving) open(ctx context.Context, info object.Info) (receive.Landing, error) {
	enter(ctx, r.into)
	if device.IsDevice(r.into) {
		return device.Land(ctx, r.device(), info)
	}
	if err := r.makeDirectory(); err != nil {
		return nil, err
	}
	return receive.LandObject(ctx, r.into, info)
}
