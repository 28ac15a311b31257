package group

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// CreateGroup makes a group.
func (r *Registry) CreateGroup(ctx context.Context, caller identity.ID, asked *groupv1.CreateGroupRequest) (*groupv1.CreateGroupResponse, error) {
	var problems ledger.Checks
	problems.No("name", identity.CheckName(asked.GetName()))
	policy := withDefaults(asked.GetPolicy())
	checkPolicy(&problems, policy)
	checkSlow(&problems, policy.GetSlowMember())
	if err := problems.Err(); err != nil {
		return nil, err
	}
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	response := new(groupv1.CreateGroupResponse)
	err = r.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		if _, _, exists := r.view.Group(asked.GetName()); exists {
			return ledger.Plan{}, fmt.Errorf("group %q %w", asked.GetName(), ledger.ErrExists)
		}
		now := timestamppb.Now()
		response.Group = &groupv1.Group{
			Name: asked.GetName(), Policy: policy, Incarnation: r.ledger.Next(), CreateTime: now, UpdateTime: now,
		}
		response.Group.Etag = etag(response.Group.GetIncarnation(), 1)
		return putGroup(response.Group, 0)
	})
	return response, err
}

// putGroup plans to write a group that was last written at the revision.
func putGroup(group *groupv1.Group, changed store.Revision) (ledger.Plan, error) {
	record := proto.CloneOf(group)
	record.Epoch, record.MemberCount = 0, 0 // stored elsewhere, and counted
	return ledger.PutMessage(view.GroupKey(group.GetName()), record, changed)
}

// UpdateGroup changes a group's policy.
func (r *Registry) UpdateGroup(ctx context.Context, caller identity.ID, asked *groupv1.UpdateGroupRequest) (*groupv1.UpdateGroupResponse, error) {
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	response := new(groupv1.UpdateGroupResponse)
	err = r.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		record, message, err := r.find(asked.GetName(), asked.GetEtag())
		if err != nil {
			return ledger.Plan{}, err
		}
		policy, err := merge(message.GetPolicy(), asked.GetPolicy(), asked.GetUpdateMask().GetPaths())
		if err != nil {
			return ledger.Plan{}, err
		}
		policy = withDefaults(policy)
		paths := asked.GetUpdateMask().GetPaths()
		if len(paths) > 0 {
			fitSlow(policy.GetSlowMember(), paths)
		}
		var problems ledger.Checks
		checkPolicy(&problems, policy)
		if touchesSlow(paths) {
			checkSlow(&problems, policy.GetSlowMember())
		}
		if err := problems.Err(); err != nil {
			return ledger.Plan{}, err
		}
		message.Policy, message.UpdateTime, message.Etag = policy, timestamppb.Now(), nextEtag(message)
		response.Group = message
		return putGroup(message, record.Changed)
	})
	return response, err
}

// DeleteGroup removes a group, and with force the sessions of its members: who looks
// after its deliveries sees that it is gone, and cancels them.
func (r *Registry) DeleteGroup(ctx context.Context, caller identity.ID, asked *groupv1.DeleteGroupRequest) (*groupv1.DeleteGroupResponse, error) {
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	response := new(groupv1.DeleteGroupResponse)
	err = r.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		name := asked.GetName()
		record, message, err := r.find(name, asked.GetEtag())
		if err != nil {
			return ledger.Plan{}, err
		}
		conditions := []store.Cond{store.Unchanged(view.GroupKey(name), record.Changed)}
		if !asked.GetForce() {
			if members := message.GetMemberCount(); members > 0 {
				return ledger.Plan{}, fmt.Errorf("group %q: %d %w", name, members, ErrInUse)
			}
			if running := r.view.RunningDeliveries(name); running > 0 {
				return ledger.Plan{}, fmt.Errorf("group %q: %d %w", name, running, ErrDelivering)
			}
			conditions = append(conditions,
				store.NoneBelow(view.MembersPrefix(name)), // a member may be joining
				store.NoneBelow(view.RunningPrefix(name)))
		}
		return ledger.Plan{
			Conditions: conditions,
			Changes: []store.Op{
				store.DeleteAll(view.MembersPrefix(name)), store.DeleteAll(view.RunningPrefix(name)),
				store.Delete(view.EpochKey(name)), store.Delete(view.GroupKey(name)),
			},
		}, nil
	})
	return response, err
}

// find returns a group, and refuses an etag that is not its own.
func (r *Registry) find(name, etag string) (view.Group, *groupv1.Group, error) {
	record, message, found := r.view.Group(name)
	if !found {
		return view.Group{}, nil, fmt.Errorf("group %q %w", name, ledger.ErrNotFound)
	}
	if etag != "" && etag != message.GetEtag() {
		return view.Group{}, nil, fmt.Errorf("group %q %w", name, ErrStale)
	}
	return record, message, nil
}

// etag tells one version of one group from all others, those of an earlier group
// of the same name among them.
func etag(incarnation, version uint64) string { return fmt.Sprintf("%d.%d", incarnation, version) }

func nextEtag(group *groupv1.Group) string {
	_, version, _ := strings.Cut(group.GetEtag(), ".")
	number, _ := strconv.ParseUint(version, 10, 64)
	return etag(group.GetIncarnation(), number+1)
}
