package api

import (
	"context"
	"fmt"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/store"
)

type groupService struct {
	groupv1.UnimplementedGroupServiceServer
	server *Server
}

func (g *groupService) CreateGroup(ctx context.Context, req *groupv1.CreateGroupRequest) (*groupv1.CreateGroupResponse, error) {
	var problems ledger.Checks
	problems.That(!replication.IsGroup(req.GetName()), "name", "%q is a name that managers give to groups in which session agents carry a replication", req.GetName())
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return led(ctx, g.server, req, (*group.Registry).CreateGroup)
}

func (g *groupService) UpdateGroup(ctx context.Context, req *groupv1.UpdateGroupRequest) (*groupv1.UpdateGroupResponse, error) {
	return led(ctx, g.server, req, (*group.Registry).UpdateGroup)
}

func (g *groupService) DeleteGroup(ctx context.Context, req *groupv1.DeleteGroupRequest) (*groupv1.DeleteGroupResponse, error) {
	return led(ctx, g.server, req, (*group.Registry).DeleteGroup)
}

func (g *groupService) GetGroup(ctx context.Context, req *groupv1.GetGroupRequest) (*groupv1.GetGroupResponse, error) {
	if err := g.server.View.Sync(ctx); err != nil { // first: what the caller may see can have changed, too
		return nil, err
	}
	if err := g.server.mayUse(ctx, req.GetName()); err != nil {
		return nil, err
	}
	_, message, found := g.server.View.Group(req.GetName())
	if !found {
		return nil, fmt.Errorf("group %q %w", req.GetName(), ledger.ErrNotFound)
	}
	return &groupv1.GetGroupResponse{Group: message}, nil
}

func (g *groupService) ListGroups(ctx context.Context, req *groupv1.ListGroupsRequest) (*groupv1.ListGroupsResponse, error) {
	after, limit, err := page(req.GetPageSize(), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if err := g.server.View.Sync(ctx); err != nil {
		return nil, err
	}
	groups, more := g.server.View.Groups(after, limit)
	return &groupv1.ListGroupsResponse{Groups: groups, NextPageToken: nextPage(groups, more)}, nil
}

func (g *groupService) WatchGroups(req *groupv1.WatchGroupsRequest, stream groupv1.GroupService_WatchGroupsServer) error {
	if err := g.server.View.SyncSoon(stream.Context()); err != nil {
		return err
	}
	// A watcher that resumes may have to be told that the group is gone.
	if _, _, found := g.server.View.Group(req.GetName()); !found && req.GetName() != "" && req.GetResumeRevision() == 0 {
		return fmt.Errorf("group %q %w", req.GetName(), ledger.ErrNotFound)
	}
	return g.server.View.WatchGroups(stream.Context(), req.GetName(), store.Revision(req.GetResumeRevision()), stream.Send)
}
