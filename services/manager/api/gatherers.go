package api

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/groupcast/groupcast/internal/daemon"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

type gathererService struct {
	gatherv1.UnimplementedGathererServiceServer
	server *Server
}

// Control registers a gatherer and answers its reports.
func (g *gathererService) Control(stream gatherv1.GathererService_ControlServer) error {
	first, err := daemon.Receive(stream, group.HeartbeatInterval)
	if err != nil {
		return endOfStream(err)
	}
	if first.GetRegistration() == nil {
		return &ledger.Invalid{Violations: []ledger.Violation{{Field: "registration", Problem: "must come first"}}}
	}
	registry, err := g.server.registry()
	if err != nil {
		return err
	}
	name := callerOf(stream.Context()).Name
	incarnation, err := registry.RegisterGatherer(stream.Context(), name, first.GetRegistration())
	if errors.Is(err, ledger.ErrReplaced) {
		return stream.Send(&gatherv1.ControlResponse{State: gatherv1.GathererState_GATHERER_STATE_FENCED})
	}
	const online = gatherv1.GathererState_GATHERER_STATE_ONLINE
	for state := online; err == nil; {
		err = stream.Send(&gatherv1.ControlResponse{
			State: state, Incarnation: incarnation, ReportInterval: durationpb.New(group.HeartbeatInterval), ManagerTime: timestamppb.Now(),
		})
		if err != nil || state != online {
			return err
		}
		var message *gatherv1.ControlRequest
		if message, err = daemon.Receive(stream, group.Expiry); err != nil {
			return endOfStream(err)
		}
		if registry, err = g.server.registry(); err != nil {
			return err
		}
		if message.GetReport().GetGoodbye() {
			state, err = gatherv1.GathererState_GATHERER_STATE_OFFLINE, registry.ForgetGatherer(stream.Context(), name, incarnation)
		} else {
			state = registry.ReportGatherer(name, incarnation, message.GetReport())
		}
	}
	return err
}

func (g *gathererService) GetGatherer(ctx context.Context, req *gatherv1.GetGathererRequest) (*gatherv1.GetGathererResponse, error) {
	registry, err := g.server.registry()
	if err != nil {
		return nil, err
	}
	if err := g.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	gatherer, err := registry.GetGatherer(req.GetName())
	return &gatherv1.GetGathererResponse{Gatherer: gatherer}, err
}

func (g *gathererService) ListGatherers(ctx context.Context, req *gatherv1.ListGatherersRequest) (*gatherv1.ListGatherersResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	registry, err := g.server.registry()
	if err != nil {
		return nil, err
	}
	if err := g.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	gatherers, more := registry.Gatherers(after, limit)
	return &gatherv1.ListGatherersResponse{Gatherers: gatherers, NextPageToken: nextPage(gatherers, more)}, nil
}
