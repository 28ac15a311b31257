package gather

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/sdk"
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

// setting is a gatherer that sets a policy as it understands it.
type setting struct {
	gatherv1.GatherServiceClient
	knowsGroups bool
}

func (s *setting) SetPolicy(_ context.Context, request *gatherv1.SetPolicyRequest, _ ...grpc.CallOption) (*gatherv1.SetPolicyResponse, error) {
	for _, rule := range request.GetPolicy().GetRules() {
		if !s.knowsGroups {
			rule.Groups = nil
		}
	}
	return &gatherv1.SetPolicyResponse{Policy: request.GetPolicy(), Revision: 7}, nil
}

// A rule for groups would hold for everybody at a gatherer that knows no groups: whoever sets it is told.
func TestGroupsThatTheGathererDoesNotKnow(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, groups := range [][]string{nil, {"icu"}} {
			next := Policy{Rules: []Rule{{Clients: []string{"ward-*"}}, {Clients: []string{"cam-*"}, Groups: groups}}}
			revision, err := (&Client{rpc: &setting{knowsGroups: known}}).SetPolicy(t.Context(), next, 0)
			if want := known || groups == nil; (err == nil) != want || err != nil && sdk.CodeOf(err) != sdk.Failed || revision != 7 {
				t.Errorf("groups %v, known %t: revision %d, %v", groups, known, revision, err)
			}
		}
	}
}
