package api

import (
	"context"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/view"
)

type replicationService struct {
	replicav1.UnimplementedReplicationServiceServer
	server *Server
}

// find returns a replication, and the desk that it is on.
func (r *replicationService) find(ctx context.Context, prefix string) (*replication.Desk, view.Replication, error) {
	desk, err := r.synced(ctx)
	if err != nil {
		return nil, view.Replication{}, err
	}
	found, err := desk.Find(prefix)
	return desk, found, err
}

// synced returns the desk once the view shows all that was acknowledged.
func (r *replicationService) synced(ctx context.Context) (*replication.Desk, error) {
	desk, err := r.server.replications()
	if err != nil {
		return nil, err
	}
	return desk, r.server.View.Sync(ctx)
}

func (r *replicationService) CreateReplication(ctx context.Context, req *replicav1.CreateReplicationRequest) (*replicav1.CreateReplicationResponse, error) {
	desk, err := r.server.replications()
	if err != nil {
		return nil, err
	}
	return desk.Create(ctx, callerOf(ctx), req)
}

func (r *replicationService) GetReplication(ctx context.Context, req *replicav1.GetReplicationRequest) (*replicav1.GetReplicationResponse, error) {
	desk, found, err := r.find(ctx, req.GetReplication())
	if err != nil {
		return nil, err
	}
	return &replicav1.GetReplicationResponse{Replication: desk.Show(found, true)}, nil
}

func (r *replicationService) ListReplications(ctx context.Context, req *replicav1.ListReplicationsRequest) (*replicav1.ListReplicationsResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	desk, err := r.synced(ctx)
	if err != nil {
		return nil, err
	}
	replications, last, more := desk.List(after, limit)
	response := &replicav1.ListReplicationsResponse{Replications: replications}
	if more {
		response.NextPageToken = pageToken(last)
	}
	return response, nil
}

func (r *replicationService) WatchReplication(req *replicav1.WatchReplicationRequest, stream replicav1.ReplicationService_WatchReplicationServer) error {
	desk, found, err := r.find(stream.Context(), req.GetReplication())
	if err != nil {
		return err
	}
	return desk.Watch(stream.Context(), found.ID(), func(shown *replicav1.Replication) error {
		return stream.Send(&replicav1.WatchReplicationResponse{Replication: shown})
	})
}

func (r *replicationService) CancelReplication(ctx context.Context, req *replicav1.CancelReplicationRequest) (*replicav1.CancelReplicationResponse, error) {
	desk, found, err := r.find(ctx, req.GetReplication())
	if err != nil {
		return nil, err
	}
	return desk.Cancel(ctx, found.ID())
}
