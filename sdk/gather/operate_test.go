package gather

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
)

// watched is a gatherer that says again and again how its clients stand.
type watched struct {
	gatherv1.GatherServiceClient
	grpc.ServerStreamingClient[gatherv1.WatchClientsResponse]
	watching context.Context
}

func (w *watched) WatchClients(ctx context.Context, _ *gatherv1.WatchClientsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[gatherv1.WatchClientsResponse], error) {
	w.watching = ctx
	return w, nil
}

func (w *watched) Recv() (*gatherv1.WatchClientsResponse, error) {
	return new(gatherv1.WatchClientsResponse), w.watching.Err()
}

// Whoever looks once leaves no stream open.
func TestWatchThatIsBrokenOff(t *testing.T) {
	gatherer := new(watched)
	for range (&Client{rpc: gatherer}).Watch(t.Context()) {
		break
	}
	if gatherer.watching.Err() == nil {
		t.Error("the gatherer goes on telling")
	}
}
