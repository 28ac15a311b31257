package sdk

import (
	"context"
	"time"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
)

// GathererState says whether the managers hear of a gatherer: online or offline.
type GathererState string

// Gatherer is a gatherer as the managers know it.
type Gatherer struct {
	Name string
	// Incarnation grows with every registration of this gatherer.
	Incarnation uint64
	// Addresses are where its clients reach it, as host:port.
	Addresses  []string
	Labels     map[string]string
	State      GathererState
	Registered time.Time
	// Clients is how many are attached, BytesPerSecond what they upload together, as it said last.
	Clients        int
	BytesPerSecond uint64
	wire
}

func newGatherer(m *gatherv1.Gatherer) Gatherer {
	return Gatherer{
		Name: m.GetName(), Incarnation: m.GetIncarnation(), Addresses: m.GetAddresses(), Labels: m.GetLabels(),
		State: name[GathererState](m.GetState()), Registered: m.GetRegisterTime().AsTime(),
		Clients: int(m.GetReport().GetClients()), BytesPerSecond: m.GetReport().GetReceivedBytesPerSecond(), wire: wire{m},
	}
}

// Gatherers returns all gatherers, in the order of their names.
func (c *Client) Gatherers(ctx context.Context) ([]Gatherer, error) {
	return collect(func(token string) ([]*gatherv1.Gatherer, string, error) {
		answer, err := c.gatherers.ListGatherers(ctx, &gatherv1.ListGatherersRequest{PageToken: token, PageSize: pageSize})
		return answer.GetGatherers(), answer.GetNextPageToken(), err
	}, newGatherer)
}

// Gatherer returns the gatherer of a name.
func (c *Client) Gatherer(ctx context.Context, name string) (Gatherer, error) {
	answer, err := c.gatherers.GetGatherer(ctx, &gatherv1.GetGathererRequest{Name: name})
	return newGatherer(answer.GetGatherer()), Reported(err)
}
