package alone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	algo "github.com/groupcast/groupcast/internal/algo/soma/paper"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/services/replicator/paper"
)

// paperSending is what send was asked for in the paper profile.
type paperSending struct {
	lans    []string
	payload int
	timeout time.Duration
}

func (p *paperSending) flags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&p.lans, "lans", nil, "paper profile: subnets that take part from the start, as 10.0.1.0/24; others join when something comes from them: the sender's own, and subnets behind routers as /24, so name each that is larger or smaller")
	flags.IntVar(&p.payload, "payload", 0, "paper profile: bytes of the file in a packet, which with 39 of headers has to fit the MTU (512)")
	flags.DurationVar(&p.timeout, "dflt-timeout", algo.DefaultTimeout, "paper profile: the least timeout, dflt_Tout")
}

// paperFlags are those that mean nothing in the fast profile.
var paperFlags = []string{"lans", "payload", "dflt-timeout"}

// checkOf refuses flags that mean nothing in the profile that was asked for: a user that gives one counts on it.
func (a *app) checkOf(command *cobra.Command, others []string) error {
	for _, name := range others {
		if command.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s: it means nothing in the %s profile; leave it out", name, a.profile)}
		}
	}
	return nil
}

// isPaper reports whether the paper profile was asked for. There is no way into it but by its name. fastFlags mean nothing in it.
func (a *app) isPaper(command *cobra.Command, fastFlags ...string) (bool, error) {
	switch a.profile {
	case "fast":
		return false, a.checkOf(command, paperFlags)
	case "paper":
	default:
		return false, usageError{fmt.Errorf("--profile %s: it can be fast or paper", a.profile)}
	}
	if a.phrase != "" {
		return true, usageError{errors.New("--key: the paper profile has no keys, and would send and believe in the clear; leave it out")}
	}
	if a.output == "json" {
		return true, usageError{errors.New("--output json: the paper profile has no receipts; leave it out")}
	}
	if a.group == "" {
		return true, usageError{errors.New("--group is missing: the paper profile has no phrase that it could follow from; give one, as 239.7.7.7:7431")}
	}
	return true, a.checkOf(command, fastFlags)
}

// paperPlace is where to meet.
func (a *app) paperPlace() (multicast.Place, error) {
	if err := a.checkInterface(); err != nil {
		return multicast.Place{}, err
	}
	group, err := a.groupGiven()
	if err != nil {
		return multicast.Place{}, err
	}
	return multicast.Place{Group: group, Interface: a.lan, TTL: a.ttl}, nil
}

// checkPayload refuses a payload that no packet can have.
func (a *app) checkPayload(payload int) error {
	largest, err := paper.LargestPayload(a.lan)
	if err == nil && (payload < 0 || payload > largest) {
		err = usageError{fmt.Errorf("--payload %d: it can be 1 to %d on %s", payload, largest, a.lan)}
	}
	return err
}

func (a *app) sendPaper(ctx context.Context, p *paperSending, path string, wrong error) error {
	if wrong != nil {
		return wrong
	}
	place, err := a.paperPlace()
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); path != standard && err == nil && !info.Mode().IsRegular() {
		return usageError{fmt.Errorf("%s is %s: the paper profile sends one file, and without --profile directories and block devices go, too", path, kindOf(info))}
	}
	if err := a.checkPayload(p.payload); err != nil {
		return err
	}
	s := paper.Sender{Place: place, Payload: p.payload, Log: a.log(), Rules: algo.SenderOptions{Flow: algo.Flow{Timeout: p.timeout}, StrangerBits: 24}}
	for _, text := range p.lans {
		lan, err := netip.ParsePrefix(text)
		if err != nil {
			return usageError{fmt.Errorf("--lans %s: give a subnet, as 10.0.1.0/24", text)}
		}
		s.Rules.LANs = append(s.Rules.LANs, lan)
	}
	began := time.Now()
	sent, err := sendFrom(ctx, s, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%d packets in %d windows, %d repairs, %.2fs; the paper has no receipts: nobody asks for more\n", sent.Packets, sent.Windows, sent.Repairs, time.Since(began).Seconds())
	for _, lan := range sent.Dropped {
		fmt.Fprintf(a.stdout, "LAN %v was silent for too long\n", lan)
	}
	if len(sent.Dropped) > 0 {
		return errPartial
	}
	return nil
}

// standard is standard input, or output: on-line streams, which the paper has without error correction.
const standard = "-"

// sendFrom sends a file, or standard input as it comes.
func sendFrom(ctx context.Context, by paper.Sender, path string) (paper.Sent, error) {
	if path == standard {
		return by.SendStream(ctx, os.Stdin)
	}
	from, err := os.Open(path)
	if err != nil {
		return paper.Sent{}, usageError{err}
	}
	defer func() { _ = from.Close() }()
	return by.SendFile(ctx, from)
}

// kindOf says what is no plain file.
func kindOf(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
		return "a block device"
	}
	return "no plain file"
}

func (a *app) receivePaper(ctx context.Context, r *receiving, wrong error) error {
	if wrong != nil {
		return wrong
	}
	place, err := a.paperPlace()
	if err != nil {
		return err
	}
	from := paper.Receiver{Place: place, Log: a.log(), Rules: algo.ReceiverOptions{GivingUp: r.patience}}
	if r.into == standard {
		return a.receiveStream(ctx, from)
	}
	switch there, err := os.Stat(r.into); {
	case err != nil:
	case there.IsDir():
		return usageError{fmt.Errorf("--into %s: it is a directory, and in the paper profile nothing says what the file is called: give a name that is not there yet, as %s", r.into, filepath.Join(r.into, "received"))}
	case !there.Mode().IsRegular():
		return usageError{fmt.Errorf("--into %s: it is %s, and the paper profile makes a file: give a name that is not there yet, or leave --profile out at both ends", r.into, kindOf(there))}
	}
	got, err := from.ReceiveFile(ctx, r.into)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s  %s in %.2fs from %v, %d packets repaired; nothing proves that it is what was sent\n", r.into, bytesize.Short(uint64(got.Bytes)), got.Took.Seconds(), got.Server, got.Marked)
	return nil
}

// receiveStream writes a stream to standard output as it comes, and says what of it came and was lost, even if it broke off.
func (a *app) receiveStream(ctx context.Context, from paper.Receiver) error {
	lost := uint64(0)
	got, err := from.ReceiveStream(ctx, a.stdout, func(packets uint64) { lost += packets })
	if err != nil && !got.Server.IsValid() {
		return err
	}
	fmt.Fprintf(a.stderr, "%s in %.2fs from %v, %d packets lost; nothing proves that it is what was sent\n", bytesize.Short(uint64(got.Bytes)), got.Took.Seconds(), got.Server, lost)
	if err == nil && lost > 0 {
		return errPartial
	}
	return err
}
