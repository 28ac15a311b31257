package gather

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/apijson"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/sdk"
)

// Policy says who gets what: see its fields. The command reads and writes it as YAML.
type Policy = policy.Policy

// Rule gives a share to the clients that it fits.
type Rule = policy.Rule

// Share is what a client gets.
type Share = policy.Share

// ParsePolicy reads a policy as YAML.
func ParsePolicy(text []byte) (Policy, error) {
	parsed, err := policy.Parse(text)
	if err != nil {
		return Policy{}, sdk.Because(sdk.InvalidArgument, err)
	}
	return parsed, nil
}

// Policy returns the policy, and its revision.
func (c *Client) Policy(ctx context.Context) (Policy, uint64, error) {
	answer, err := c.rpc.GetPolicy(ctx, &gatherv1.GetPolicyRequest{})
	return policy.Of(answer.GetPolicy()), answer.GetRevision(), sdk.Reported(err)
}

// SetPolicy replaces the policy if its revision is still the one that was read; zero replaces any. A gatherer of an earlier version sets it
// without the groups of its rules: that is an error.
func (c *Client) SetPolicy(ctx context.Context, next Policy, revision uint64) (uint64, error) {
	answer, err := c.rpc.SetPolicy(ctx, &gatherv1.SetPolicyRequest{Policy: next.Message(), Revision: revision})
	if err == nil && hasGroups(next) && !hasGroups(policy.Of(answer.GetPolicy())) {
		err = errNoGroups
	}
	return answer.GetRevision(), sdk.Reported(err)
}

func hasGroups(p Policy) bool {
	return slices.ContainsFunc(p.Rules, func(rule Rule) bool { return len(rule.Groups) > 0 })
}

var errNoGroups = &sdk.Error{Code: sdk.Failed, Message: "the gatherer is of an earlier version, which knows no groups: its rules hold for clients in any group now. Set a policy without groups, or upgrade the gatherer and set this one again"}

// ClientStatus is a client as the gatherer sees it. As JSON it is the API's own form.
type ClientStatus struct {
	Name        string
	Attached    bool
	Share       Share
	Rate        uint64
	RTT         time.Duration
	Window      uint64
	Connections int
	Wanted      int
	State       string
	Bottleneck  string
	Reason      string
	Paused      string
	Received    uint64
	Uploads     int
	wire
}

// Snapshot is how all clients stand after a round of the controller. As JSON it is the API's own form.
type Snapshot struct {
	Controller string
	Time       time.Time
	Available  uint64
	Received   uint64
	Window     uint64
	Took       time.Duration
	Clients    []ClientStatus
	wire
}

// wire is the message that a value came in, which is its JSON form.
type wire struct{ message proto.Message }

// MarshalJSON returns the API's own JSON form.
func (w wire) MarshalJSON() ([]byte, error) { return apijson.Marshal(w.message) }

// Clients returns how all clients stand.
func (c *Client) Clients(ctx context.Context) (Snapshot, error) {
	answer, err := c.rpc.ListClients(ctx, &gatherv1.ListClientsRequest{})
	return snapshot(answer), sdk.Reported(err)
}

// Watch yields how all clients stand, after every round of the controller.
func (c *Client) Watch(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // else the stream would outlast an iteration that is broken off
		stream, err := c.rpc.WatchClients(ctx, &gatherv1.WatchClientsRequest{})
		for err == nil {
			var answer *gatherv1.WatchClientsResponse
			if answer, err = stream.Recv(); err == nil && !yield(snapshot(answer), nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(Snapshot{}, sdk.Reported(err))
		}
	}
}

// listing is what both messages have.
type listing interface {
	proto.Message
	GetClients() []*gatherv1.Client
	GetRound() *gatherv1.Round
}

func snapshot(answer listing) Snapshot {
	round := answer.GetRound()
	all := Snapshot{
		Controller: round.GetController(), Time: round.GetTime().AsTime(), Available: round.GetAvailableBytesPerSecond(),
		Received: round.GetReceivedBytesPerSecond(), Window: round.GetWindowBytes(), Took: round.GetTook().AsDuration(), wire: wire{answer},
	}
	for _, client := range answer.GetClients() {
		all.Clients = append(all.Clients, ClientStatus{
			Name: client.GetName(), Attached: client.GetAttached(), Share: policy.ShareOf(client.GetShare()), Rate: client.GetBytesPerSecond(),
			RTT: client.GetRoundTrip().AsDuration(), Window: client.GetWindowBytes(), Connections: int(client.GetConnections()),
			Wanted: int(client.GetWantedConnections()), State: client.GetState(), Bottleneck: client.GetBottleneck(), Reason: client.GetReason(),
			Paused: client.GetPaused(), Received: client.GetReceivedBytes(), Uploads: int(client.GetUploads()), wire: wire{client},
		})
	}
	return all
}
