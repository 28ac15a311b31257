package tool

import (
	"context"
	"fmt"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/sdk"
)

// groupcast is our own tool: agents, a pull on every receiver, and a push that returns when every
// member has said that it has the file or directory, verified and durable.
type groupcast struct {
	plane      sdk.DataPlane
	congestion sdk.Congestion // empty for the one that all tools use
	changes    bool           // of a directory, members are sent what they lack
	fleet      *fleet.Fleet
	pulls      []*lab.Process
}

// payloadGroup is the group to which it is delivered.
const payloadGroup = "payload"

func (g *groupcast) Name() string {
	options := string(g.plane)
	if g.congestion != "" {
		options += ", " + string(g.congestion)
	}
	if g.changes {
		options += ", changes"
	}
	return fmt.Sprintf("groupcast (%s)", options)
}

func (*groupcast) Programs() []string { return []string{"go"} }
func (*groupcast) Multicast() bool    { return false }

// Prepare makes every receiver join, each in its zone, and starts agents and waits a moment, as they are daemons.
func (g *groupcast) Prepare(ctx context.Context, j *Job) (err error) {
	if g.fleet, err = fleet.Start(ctx, j.Manager); err != nil {
		return err
	}
	for _, agent := range j.Agents {
		if _, err := g.fleet.Agent(ctx, agent, j.Zones[agent], lab.DiskPath); err != nil {
			return err
		}
	}
	policy := sdk.Policy{DataPlane: g.plane, AckLevel: sdk.Durable, Congestion: g.congestion}
	if _, err := g.fleet.Client.CreateGroup(ctx, payloadGroup, policy); err != nil {
		return err
	}
	g.pulls = nil
	for _, receiver := range j.Receivers {
		pull, err := g.fleet.Groupcast(ctx, receiver, "pull", "--group", payloadGroup, "--as", receiver.Name(), "--node", receiver.Name(),
			"--label", "zone="+j.Zones[receiver], "--into", lab.DiskPath, "--once")
		if err != nil {
			return err
		}
		g.pulls = append(g.pulls, pull)
	}
	if err := g.fleet.AwaitMembers(ctx, payloadGroup, len(j.Receivers)); err != nil {
		return err
	}
	return g.fleet.AwaitMeasured(ctx)
}

func (g *groupcast) Deliver(ctx context.Context, j *Job) error {
	arguments := []string{"push", path(FileName), "--group", payloadGroup, "--as", "sender", "--node", j.Sender.Name()}
	if g.changes {
		arguments = append(arguments, "--changes")
	}
	push, err := g.fleet.Groupcast(ctx, j.Sender, arguments...)
	if err != nil {
		return err
	}
	if err := await(ctx, push); err != nil {
		return err
	}
	return await(ctx, g.pulls...)
}

// Close ends what the lab does not end.
func (g *groupcast) Close() error {
	if g.fleet == nil {
		return nil
	}
	if err := g.fleet.Close(); err != nil {
		return fmt.Errorf("close the fleet: %w", err)
	}
	g.fleet = nil
	return nil
}
