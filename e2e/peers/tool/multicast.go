package tool

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// device is the interface of every host's first link.
const device = "eth0"

// paceShare is the share of the line's rate given to tools that have to be told their rate: the rest is for headers.
const paceShare = 0.95

// bridgeKilobits is the rate that uftp is told if the machine itself is the line: about the fastest
// at which it does not lose most of what it sends.
const bridgeKilobits = 700_000

// udpcast is udp-sender and udp-receiver, with their own flow control.
type udpcast struct{ receivers []*lab.Process }

func (*udpcast) Name() string       { return "udpcast" }
func (*udpcast) Programs() []string { return []string{"udp-sender", "udp-receiver"} }
func (*udpcast) Multicast() bool    { return true }

func (u *udpcast) Prepare(_ context.Context, j *Job) (err error) {
	u.receivers, err = j.startAll("udp-receiver", "--file", path(FileName), "--interface", device, "--nokbd", "--no-progress", "--start-timeout", "30")
	return err
}

func (u *udpcast) Deliver(ctx context.Context, j *Job) error {
	sender, err := start(j.Sender, "udp-sender", "--file", path(FileName), "--interface", device, "--nokbd", "--no-progress",
		"--min-receivers", strconv.Itoa(len(j.Receivers)), "--max-wait", "30", "--full-duplex")
	if err != nil {
		return err
	}
	return await(ctx, append(u.receivers, sender)...)
}

// uftp is uftp and its receiving daemons.
type uftp struct{}

func (uftp) Name() string       { return "uftp" }
func (uftp) Programs() []string { return []string{"uftp", "uftpd"} }
func (uftp) Multicast() bool    { return true }

func (uftp) Prepare(_ context.Context, j *Job) error {
	_, err := j.startAll("uftpd", "-d", "-D", lab.DiskPath, "-I", device, "-B", "4194304")
	return err
}

func (uftp) Deliver(ctx context.Context, j *Job) error {
	kilobits := int(paceShare * float64(j.Rate) / float64(link.Kbit))
	if j.Rate == 0 {
		kilobits = bridgeKilobits
	}
	sender, err := start(j.Sender, "uftp", "-R", strconv.Itoa(kilobits), "-I", device, "-B", "4194304", "-H", j.addresses(), path(FileName))
	if err != nil {
		return err
	}
	if err := await(ctx, sender); err != nil {
		return err
	}
	return j.landed(ctx)
}

// addresses returns the receivers' addresses as a list with commas.
func (j *Job) addresses() string {
	var list []string
	for _, receiver := range j.Receivers {
		list = append(list, receiver.Addr().String())
	}
	return strings.Join(list, ",")
}

// landed waits until every receiver has the file with its final name and size.
func (j *Job) landed(ctx context.Context) error {
	for _, receiver := range j.Receivers {
		for !j.Has(receiver) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for the file at %s: %w; its programs wrote: %s", receiver.Name(), ctx.Err(), last(receiver.Output()))
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}
