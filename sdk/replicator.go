package sdk

import (
	"context"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// ReplicatorState says whether the managers hear of a replicator: online or offline.
type ReplicatorState string

// Replicator is a replicator as the managers know it.
type Replicator struct {
	Name string
	// Incarnation grows with every registration of this replicator.
	Incarnation uint64
	Node        string
	// LANs are those that it is on. It reaches all others over the first.
	LANs   []string
	Labels map[string]string
	// Sources are the paths that it may be told to send, Targets those where it may be told to write.
	Sources, Targets []string
	State            ReplicatorState
	Registered       time.Time
	// Replications is how many it takes part in now.
	Replications int
	wire
}

func newReplicator(m *replicav1.Replicator) Replicator {
	return Replicator{
		Name: m.GetName(), Incarnation: m.GetIncarnation(), Node: m.GetNode(), LANs: m.GetLans(), Labels: m.GetLabels(),
		Sources: m.GetSources(), Targets: m.GetTargets(), State: name[ReplicatorState](m.GetState()),
		Registered: m.GetRegisterTime().AsTime(), Replications: int(m.GetReplications()), wire: wire{m},
	}
}

// Replicators returns all replicators, in the order of their names.
func (c *Client) Replicators(ctx context.Context) ([]Replicator, error) {
	return collect(func(token string) ([]*replicav1.Replicator, string, error) {
		answer, err := c.replicators.ListReplicators(ctx, &replicav1.ListReplicatorsRequest{PageToken: token, PageSize: pageSize})
		return answer.GetReplicators(), answer.GetNextPageToken(), err
	}, newReplicator)
}
