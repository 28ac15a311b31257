package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/daemon"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/replication"
)

type replicatorService struct {
	replicav1.UnimplementedReplicatorServiceServer
	server *Server
}

// Control registers a replicator and answers its reports.
func (r *replicatorService) Control(stream replicav1.ReplicatorService_ControlServer) error {
	first, err := daemon.Receive(stream, replication.IdleInterval)
	if err != nil {
		return endOfStream(err)
	}
	if first.GetRegistration() == nil {
		return &ledger.Invalid{Violations: []ledger.Violation{{Field: "registration", Problem: "must come first"}}}
	}
	desk, err := r.server.replications()
	if err != nil {
		return err
	}
	name := callerOf(stream.Context()).Name
	incarnation, err := desk.Register(stream.Context(), name, first.GetRegistration())
	if errors.Is(err, ledger.ErrReplaced) {
		return stream.Send(&replicav1.ControlResponse{State: replicav1.ReplicatorState_REPLICATOR_STATE_FENCED})
	}
	if err != nil {
		return err
	}
	attachment := desk.Attach(name, incarnation)
	defer attachment.Close()
	answer := func(state replicav1.ReplicatorState) *replicav1.ControlResponse {
		return &replicav1.ControlResponse{
			State: state, Incarnation: incarnation, ReportInterval: intervalOf(attachment), ManagerTime: timestamppb.Now(),
		}
	}
	const online = replicav1.ReplicatorState_REPLICATOR_STATE_ONLINE
	return converse(stream, first, attachment, conversation[*replicav1.ControlRequest, *replicav1.ControlResponse, *replicav1.Tasks]{
		patience: replication.Patience,
		answer: func(req *replicav1.ControlRequest) (*replicav1.ControlResponse, bool, error) {
			if req.GetReport().GetGoodbye() {
				return answer(replicav1.ReplicatorState_REPLICATOR_STATE_OFFLINE), true, desk.Goodbye(stream.Context(), name, incarnation)
			}
			state := attachment.Report(req.GetReport())
			return answer(state), state != online, nil
		},
		empty: func() *replicav1.ControlResponse { return answer(online) },
		add: func(to *replicav1.ControlResponse, tasks *replicav1.Tasks) {
			to.Tasks, to.ReportInterval = tasks, intervalOf(attachment)
		},
	})
}

// intervalOf returns how often a replicator is to report.
func intervalOf(attachment *replication.Attachment) *durationpb.Duration {
	if attachment.Busy() {
		return durationpb.New(replication.BusyInterval)
	}
	return durationpb.New(replication.IdleInterval)
}

func (r *replicatorService) ListReplicators(ctx context.Context, req *replicav1.ListReplicatorsRequest) (*replicav1.ListReplicatorsResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	desk, err := r.server.replications()
	if err != nil {
		return nil, err
	}
	if err := r.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	replicators, more := desk.Replicators(after, limit)
	return &replicav1.ListReplicatorsResponse{Replicators: replicators, NextPageToken: nextPage(replicators, more)}, nil
}
