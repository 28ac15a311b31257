package tool

import (
	"context"
	"fmt"
	"strconv"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// replicator is our own multicast: one sender, receivers that find it by a phrase, and receipts
// from all of them, verified and durable.
type replicator struct {
	slow      string // what happens to slow receivers; empty is the default
	receivers []*lab.Process
}

const (
	replicatorProgram = "github.com/groupcast/groupcast/services/replicator/cmd/groupcast-replicator"
	replicatorPhrase  = "a phrase for measuring"
)

func (r *replicator) Name() string {
	if r.slow != "" {
		return fmt.Sprintf("groupcast (multicast, %s)", r.slow)
	}
	return "groupcast (multicast)"
}
func (*replicator) Programs() []string { return []string{"go"} }
func (*replicator) Multicast() bool    { return true }

func (r *replicator) Prepare(_ context.Context, j *Job) error {
	program, err := testprocess.Build(replicatorProgram)
	if err != nil {
		return err
	}
	r.receivers = nil
	for _, receiver := range j.Receivers {
		p, err := start(receiver, program, "receive", "--into", lab.DiskPath, "--lan", device, "--key", replicatorPhrase, "--name", receiver.Name())
		if err != nil {
			return err
		}
		r.receivers = append(r.receivers, p)
	}
	return nil
}

func (r *replicator) Deliver(ctx context.Context, j *Job) error {
	program, err := testprocess.Build(replicatorProgram)
	if err != nil {
		return err
	}
	arguments := []string{"send", path(FileName), "--lan", device, "--key", replicatorPhrase, "--receivers", strconv.Itoa(len(j.Receivers))}
	if r.slow != "" {
		arguments = append(arguments, "--slow", r.slow)
	}
	sender, err := start(j.Sender, program, arguments...)
	if err != nil {
		return err
	}
	return await(ctx, append(r.receivers, sender)...)
}
