package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/sdk"
)

// check is what the check command was asked for.
type check struct {
	size   bytesize.Size
	rate   bytesize.Size
	wait   time.Duration
	agents int
	dir    string
}

// checked is what one receiver of a check got.
type checked struct {
	Agent  string `json:"agent"`
	Node   string `json:"node"`
	State  string `json:"state"`
	Bytes  uint64 `json:"bytes,string"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"`
}

var checkedColumns = []column[checked]{
	{title: "AGENT", cell: func(c checked) string { return c.Agent }},
	{title: "NODE", cell: func(c checked) string { return c.Node }},
	{title: "STATE", cell: func(c checked) string { return c.State }},
	{title: "BYTES", cell: func(c checked) string { return bytesize.Short(c.Bytes) }},
	{title: "SHA256", cell: func(c checked) string { return fmt.Sprintf("%.16s", c.SHA256) }},
	{title: "ERROR", prose: true, cell: func(c checked) string { return c.Error }},
}

var (
	errDiffers   = errors.New("a copy differs from what was sent")
	errCheckTime = &sdk.Error{Code: sdk.TimedOut, Reason: "WAIT_OVER", Message: "the time that --wait gives was over before all was delivered and compared"}
)

func (a *app) checkCommand() *cobra.Command {
	c := &check{size: 4 << 20}
	command := &cobra.Command{
		Use: "check", Short: "Make a real delivery by way of every agent, and compare what arrives", Args: cobra.NoArgs,
		Long: `Makes a group of its own with one receiver for each agent that is online, delivers random
bytes to them, compares the SHA-256 of every copy with that of what was sent, and removes
all of it again. Sender and receivers are in this process: it needs an operator's
configuration, and must reach the agents' data ports.`,
		Example: "  groupcast check\n  groupcast check --agents 3 --size 256MiB",
		RunE: func(command *cobra.Command, _ []string) error {
			if c.agents < 1 {
				return usageError{fmt.Errorf("--agents %d: a check needs one at least", c.agents)}
			}
			outlastReaders()
			return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
				ctx, cancel := context.WithTimeoutCause(ctx, c.wait, errCheckTime)
				defer cancel()
				return a.check(ctx, client, c)
			})
		},
	}
	flags := command.Flags()
	flags.Var(&c.size, "size", "how much to deliver")
	addSize(flags, &c.rate, "rate", "bytes per second to send at most, as 100MB, 4096 at least (no limit)")
	flags.DurationVar(&c.wait, "wait", 2*time.Minute, "how long all of it may take")
	flags.IntVar(&c.agents, "agents", 1, "agents that must be online: they are waited for")
	flags.StringVar(&c.dir, "dir", "", "directory for the copies while it runs (the system's for temporary files)")
	return command
}

func (a *app) check(ctx context.Context, client *sdk.Client, c *check) error {
	agents, err := a.onlineAgents(ctx, client, c.agents)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.dir, "groupcast-check-")
	if err != nil {
		return unusable(err)
	}
	defer os.RemoveAll(dir)
	group := "check-" + strings.ToLower(rand.Text()[:8])
	_, err = client.CreateGroup(ctx, group, sdk.Policy{})
	if err != nil && ctx.Err() == nil {
		return err
	}
	defer a.removeGroup(ctx, client, group)
	if err != nil { // it may have been made all the same
		return context.Cause(ctx)
	}
	fmt.Fprintf(a.stderr, "delivering %s to %d receivers, each by way of its agent\n", bytesize.Short(uint64(c.size)), len(agents))
	results, sent, err := a.deliverTo(ctx, client, agents, group, dir, c)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	err = compare(results, sent)
	return errors.Join(printList(a, results, checkedColumns, "SHA256", "NODE"), err)
}

// removeGroup removes the group of a check, if there is one.
func (a *app) removeGroup(ctx context.Context, client *sdk.Client, group string) {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := client.DeleteGroup(ending, group, true); err != nil && sdk.CodeOf(err) != sdk.NotFound {
		fmt.Fprintf(a.stderr, "group %s may still be there ('groupcast group delete %[1]s --force' removes it): %v\n", group, err)
	}
}

// compare notes which copies differ from what was sent. It returns why the check is no success, if it is not.
func compare(results []checked, sent string) error {
	var damaged error
	failed := 0
	for i := range results {
		if results[i].Error == "" && results[i].SHA256 != sent {
			results[i].Error, damaged = errDiffers.Error(), &sdk.DeliveryError{Reason: "damaged", Detail: errDiffers.Error()}
		}
		if results[i].Error != "" {
			failed++
		}
	}
	switch {
	case damaged != nil || failed == 0:
		return damaged
	case failed == len(results):
		return errors.New("nobody has it")
	}
	return errPartial
}

// onlineAgents waits until enough agents are online, and tells how many are.
func (a *app) onlineAgents(ctx context.Context, client *sdk.Client, enough int) ([]sdk.Agent, error) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	var online []sdk.Agent // as they were last listed
	var unheard error      // why they could not be listed
	for told := -1; ; {
		agents, err := client.Agents(ctx)
		code := sdk.CodeOf(err) // a call may end by the deadline before ctx says so
		if err != nil && ctx.Err() == nil && code != sdk.Unavailable && code != sdk.TimedOut {
			return nil, err
		}
		switch {
		case err == nil:
			online = slices.DeleteFunc(agents, func(agent sdk.Agent) bool { return agent.State != "online" })
		case unheard == nil || code == sdk.Unavailable: // it says more than that time is over
			unheard = err
		}
		if len(online) >= enough {
			return online, nil
		}
		if err == nil && len(online) != told {
			told = len(online)
			fmt.Fprintf(a.stderr, "waiting for agents: %d of %d are online\n", told, enough)
		}
		select {
		case <-ctx.Done():
			switch {
			case errors.Is(ctx.Err(), context.Canceled):
				return nil, errInterrupted
			case told < 0 && sdk.CodeOf(unheard) == sdk.Unavailable:
				return nil, unheard
			case told < 0:
				return nil, &sdk.Error{Code: sdk.Unavailable, Message: "no manager has answered in the time that --wait gives"}
			}
			return nil, &sdk.Error{Code: sdk.TimedOut, Reason: "TOO_FEW_AGENTS", Message: fmt.Sprintf("%d agents are online, want %d: 'groupcast agent list' shows those that are known", len(online), enough)}
		case <-ticker.C:
		}
	}
}

// deliverTo delivers random bytes to a receiver by way of each agent. It returns what each got, and the hash of what was sent.
func (a *app) deliverTo(ctx context.Context, client *sdk.Client, agents []sdk.Agent, group, dir string, c *check) ([]checked, string, error) {
	source := filepath.Join(dir, "source")
	sent, err := writeRandom(ctx, source, uint64(c.size))
	if err != nil {
		return nil, "", err
	}
	results := make([]checked, len(agents))
	var receiving sync.WaitGroup
	for i, agent := range agents {
		join := sdk.Join{Group: group, Name: fmt.Sprintf("receiver-%d", i), Node: agent.Node, Roles: []sdk.Role{sdk.Receive}}
		session, err := client.Join(ctx, join)
		if err != nil {
			return nil, "", err
		}
		defer a.leave(ctx, session)
		receiving.Go(func() { results[i] = receiveOne(ctx, session, agent, filepath.Join(dir, join.Name)) })
	}
	sender, err := client.Join(ctx, sdk.Join{Group: group, Name: "sender", Node: agents[0].Node, Roles: []sdk.Role{sdk.Send}})
	if err != nil {
		return nil, "", err
	}
	defer a.leave(ctx, sender)
	out, err := sender.Send(ctx, source, sdk.SendOptions{AckLevel: sdk.Durable, MaxBytesPerSecond: uint64(c.rate)})
	if err != nil {
		return nil, "", err
	}
	if _, err := out.Wait(ctx); err != nil {
		return nil, "", err
	}
	receiving.Wait()
	return results, sent, ctx.Err()
}

// receiveOne waits for the one delivery of a check.
func receiveOne(ctx context.Context, session *sdk.Session, agent sdk.Agent, into string) checked {
	result := checked{Agent: agent.Name, Node: agent.Node, State: "failed"}
	if err := os.MkdirAll(into, 0o700); err != nil {
		result.Error = err.Error()
		return result
	}
	for arrived, err := range session.Receive(ctx, sdk.ReceiveOptions{Into: into}) {
		if err == nil {
			err = arrived.Err
		}
		result.Bytes = arrived.Bytes
		if err == nil {
			result.SHA256, err = hashOf(ctx, arrived.Path)
		}
		if err != nil {
			result.Error = err.Error()
			return result
		}
		result.State = "complete"
		return result
	}
	result.Error = "nothing arrived"
	return result
}

// heeding is a reader that fails when ctx is done.
type heeding struct {
	ctx  context.Context
	from io.Reader
}

func (h heeding) Read(p []byte) (int, error) {
	if h.ctx.Err() != nil {
		return 0, h.ctx.Err()
	}
	return h.from.Read(p)
}

// writeRandom writes a file of random bytes, and returns their hash.
func writeRandom(ctx context.Context, name string, size uint64) (string, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(file, hash), heeding{ctx, rand.Reader}, int64(size)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), file.Close()
}

func hashOf(ctx context.Context, name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, heeding{ctx, file}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}
