package api

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/groupcast/groupcast/internal/daemon"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/view"
)

// rule says who may call a method, and who carries it out. A method that has no rule is refused.
type rule struct {
	roles     []identity.Role
	anonymous bool // callers without an identity may call it, too
	leader    bool // only the leading manager can do it: others pass it on
	// direct calls are refused from behind a gateway: whoever controls a gateway could otherwise make something that outlives the call, such as
	// an identity, out of what the gateway sees of its callers.
	direct bool
}

var (
	operators = []identity.Role{identity.Operator}
	members   = []identity.Role{identity.Operator, identity.Member}
	// Replicators are members of the groups in which their replications are delivered.
	deliverers = []identity.Role{identity.Operator, identity.Member, identity.Replicator}
	agents     = []identity.Role{identity.Agent}

	replicators = []identity.Role{identity.Replicator}
	gatherers   = []identity.Role{identity.Operator, identity.Gatherer}
	uploaders   = []identity.Role{identity.Operator, identity.Member, identity.Agent}
	everyone    = identity.Roles
	renewing    = slices.DeleteFunc(slices.Clone(identity.Roles), func(role identity.Role) bool { return role == identity.Gateway })
)

// rules is all there is on who may call what. Which groups a member may touch is checked by the methods themselves, with mayUse and mayBe.
var rules = map[string]rule{
	groupv1.GroupService_CreateGroup_FullMethodName: {roles: operators, leader: true},
	groupv1.GroupService_GetGroup_FullMethodName:    {roles: members},
	groupv1.GroupService_ListGroups_FullMethodName:  {roles: operators},
	groupv1.GroupService_UpdateGroup_FullMethodName: {roles: operators, leader: true},
	groupv1.GroupService_DeleteGroup_FullMethodName: {roles: operators, leader: true},
	groupv1.GroupService_WatchGroups_FullMethodName: {roles: operators},

	groupv1.SessionService_Join_FullMethodName:         {roles: deliverers, leader: true},
	groupv1.SessionService_KeepSession_FullMethodName:  {roles: deliverers, leader: true},
	groupv1.SessionService_Leave_FullMethodName:        {roles: deliverers, leader: true},
	groupv1.SessionService_ListMembers_FullMethodName:  {roles: deliverers},
	groupv1.SessionService_WatchMembers_FullMethodName: {roles: deliverers},

	// Only the leader's memory knows how far a delivery is.
	groupv1.DeliveryService_CreateDelivery_FullMethodName: {roles: deliverers, leader: true},
	groupv1.DeliveryService_SealDelivery_FullMethodName:   {roles: deliverers, leader: true},
	groupv1.DeliveryService_RecordReceipt_FullMethodName:  {roles: deliverers, leader: true},
	groupv1.DeliveryService_CancelDelivery_FullMethodName: {roles: deliverers, leader: true},
	groupv1.DeliveryService_GetDelivery_FullMethodName:    {roles: deliverers, leader: true},
	groupv1.DeliveryService_ListDeliveries_FullMethodName: {roles: deliverers, leader: true},
	groupv1.DeliveryService_WatchDelivery_FullMethodName:  {roles: deliverers, leader: true},

	groupv1.IdentityService_CreateToken_FullMethodName:    {roles: operators, leader: true, direct: true},
	groupv1.IdentityService_Enroll_FullMethodName:         {roles: renewing, anonymous: true, leader: true, direct: true},
	groupv1.IdentityService_Renew_FullMethodName:          {roles: renewing, leader: true, direct: true},
	groupv1.IdentityService_RevokeIdentity_FullMethodName: {roles: operators, leader: true, direct: true},
	groupv1.IdentityService_IssueRelay_FullMethodName:     {roles: members, leader: true, direct: true},

	groupv1.IdentityService_WatchRevocations_FullMethodName: {roles: gatherers},
	groupv1.IdentityService_WatchGrants_FullMethodName:      {roles: gatherers},

	groupv1.ManagerService_GetStatus_FullMethodName: {roles: everyone},

	// Only the leader's memory knows what agents report, and how far they are from each other.
	agentv1.AgentService_Control_FullMethodName:    {roles: agents, leader: true},
	agentv1.AgentService_ListAgents_FullMethodName: {roles: operators, leader: true},

	// Only the leader's memory knows who is online. Whoever may upload may find a gatherer by its name.
	gatherv1.GathererService_Control_FullMethodName:       {roles: []identity.Role{identity.Gatherer}, leader: true},
	gatherv1.GathererService_GetGatherer_FullMethodName:   {roles: uploaders, leader: true},
	gatherv1.GathererService_ListGatherers_FullMethodName: {roles: operators, leader: true},

	// Only the leader's memory knows how far a replication is, and who is online.
	replicav1.ReplicationService_CreateReplication_FullMethodName: {roles: operators, leader: true},
	replicav1.ReplicationService_GetReplication_FullMethodName:    {roles: operators, leader: true},
	replicav1.ReplicationService_ListReplications_FullMethodName:  {roles: operators, leader: true},
	replicav1.ReplicationService_WatchReplication_FullMethodName:  {roles: operators, leader: true},
	replicav1.ReplicationService_CancelReplication_FullMethodName: {roles: operators, leader: true},
	// A replicator is told keys: they could be read at a gateway that they pass.
	replicav1.ReplicatorService_Control_FullMethodName:         {roles: replicators, leader: true, direct: true},
	replicav1.ReplicatorService_ListReplicators_FullMethodName: {roles: operators, leader: true},

	healthv1.Health_Check_FullMethodName: {roles: everyone},
	healthv1.Health_List_FullMethodName:  {roles: everyone},
	healthv1.Health_Watch_FullMethodName: {roles: everyone},

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      {roles: operators},
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {roles: operators},
}

// callerHeader carries the original caller's identity from one manager to another.
const callerHeader = "groupcast-caller"

// anonymousCaller is the header's value for a caller without an identity.
const anonymousCaller = "anonymous"

type callerKey struct{}

// callerOf returns who makes the call; the zero value stands for nobody known.
func callerOf(ctx context.Context) identity.ID {
	caller, _ := ctx.Value(callerKey{}).(identity.ID)
	return caller
}

// authorize returns the call's context with its caller, or why it is refused.
func (s *Server) authorize(ctx context.Context, method string) (context.Context, rule, error) {
	permitted, known := rules[method]
	if !known {
		return nil, rule{}, fmt.Errorf("%s: %w", daemon.InWords(method), errDenied)
	}
	caller, err := s.identify(ctx)
	if err == nil && permitted.direct && s.behindGateway(ctx) {
		err = fmt.Errorf("%s through a gateway: %w (call a manager itself)", daemon.InWords(method), errDenied)
	}
	id := caller.ID
	switch {
	case err != nil:
		return nil, rule{}, err
	case id == identity.ID{}:
		if !permitted.anonymous {
			return nil, rule{}, errNoIdentity
		}
	case !slices.Contains(permitted.roles, id.Role):
		return nil, rule{}, daemon.NotFor(method, id, errDenied, permitted.roles)
	}
	return context.WithValue(ctx, callerKey{}, id), permitted, nil
}

// identify returns the verified identity of the caller: that of the peer or, if the peer is a manager that passes a call on, the one that the
// manager names. The zero value stands for a caller without an identity.
func (s *Server) identify(ctx context.Context) (identity.Peer, error) {
	connection, _ := peer.FromContext(ctx)
	security, _ := connection.AuthInfo.(credentials.TLSInfo)
	caller, known := identity.PeerOf(security.State, s.TrustDomain)
	if !known {
		return identity.Peer{}, nil
	}
	if err := s.checkRevoked(ctx, caller); err != nil {
		return identity.Peer{}, err
	}
	if caller.ID.Role == identity.Gateway {
		return s.identifyBehind(ctx, caller)
	}
	forwarded := metadata.ValueFromIncomingContext(ctx, callerHeader)
	if caller.ID.Role != identity.Manager || len(forwarded) == 0 {
		return caller, nil
	}
	if forwarded[0] == anonymousCaller {
		return identity.Peer{}, nil
	}
	caller, err := s.parseCaller(forwarded[0])
	if err != nil {
		return identity.Peer{}, err
	}
	return caller, s.checkRevoked(ctx, caller)
}

// checkRevoked refuses a certificate from before its identity was revoked.
func (s *Server) checkRevoked(ctx context.Context, caller identity.Peer) error {
	if revoked := s.View.Identity(caller.ID).Revoked; revoked != 0 {
		if caller.Stamp <= revoked {
			return errRevoked
		}
		if err := s.checkReached(ctx, caller.Stamp); err != nil {
			return err
		}
	}
	if groupName, member, relays := caller.ID.Relay(); relays {
		return s.checkRelay(ctx, caller, groupName, member)
	}
	return nil
}

// checkReached refuses a certificate of an identity that was revoked if the store has not reached its stamp. Then it was issued before a backup
// of the store was restored, and its stamp does not tell whether that was before the revocation.
func (s *Server) checkReached(ctx context.Context, stamp identity.Stamp) error {
	reached := func() bool { return stamp <= identity.Stamp(s.View.Revision())+1 } // a stamp is that of the next change
	if reached() {
		return nil
	}
	if err := s.View.Sync(ctx); err != nil { // this manager's view may be behind that of the one that issued it
		return err
	}
	if !reached() {
		return errRevoked
	}
	return nil
}

// checkRelay refuses a member that acts as an agent once it may no longer relay, has no session, or was revoked as a member.
func (s *Server) checkRelay(ctx context.Context, relay identity.Peer, groupName, member string) error {
	if err := s.checkRevoked(ctx, identity.Peer{ID: identity.ID{Role: identity.Member, Name: member}, Stamp: relay.Stamp}); err != nil {
		return err
	}
	return s.judge(ctx, func() error { return s.mayRelay(groupName, member) })
}

// judge returns why somebody may not do something, by what the view shows. Where this manager does not lead, its view may be behind that of the
// one that let somebody in a moment ago: it refuses nobody before it has asked the store.
func (s *Server) judge(ctx context.Context, may func() error) error {
	refused := may()
	if refused == nil || s.Leading.Registry() != nil {
		return refused
	}
	if err := s.View.SyncSoon(ctx); err != nil {
		return err
	}
	return may()
}

// mayRelay says why a member may not be an agent of its group.
func (s *Server) mayRelay(groupName, member string) error {
	_, found, known := s.View.Group(groupName)
	if !known || !found.GetPolicy().GetMembersRelay() {
		return fmt.Errorf("relay in group %q: %w (an operator allows it: groupcast group update %s --members-relay)", groupName, errNoRelay, groupName)
	}
	if _, joined := s.View.Member(groupName, member); !joined {
		return fmt.Errorf("relay in group %q as %q: %w", groupName, member, delivery.ErrSession)
	}
	return nil
}

// formatCaller writes a caller into callerHeader: its URI, with the stamp of its
// certificate as the fragment.
func (s *Server) formatCaller(caller identity.Peer) string {
	if caller == (identity.Peer{}) {
		return anonymousCaller
	}
	uri := caller.ID.URI(s.TrustDomain)
	uri.Fragment = strconv.FormatUint(uint64(caller.Stamp), 10)
	return uri.String()
}

func (s *Server) parseCaller(text string) (identity.Peer, error) {
	uri, err := url.Parse(text)
	if err != nil {
		return identity.Peer{}, fmt.Errorf("forwarded caller %.80q: %w", text, identity.ErrForeign)
	}
	stamp, err := strconv.ParseUint(uri.Fragment, 10, 64)
	if err != nil {
		return identity.Peer{}, fmt.Errorf("forwarded caller %.80q: %w", text, identity.ErrForeign)
	}
	uri.Fragment = ""
	id, err := identity.ParseURI(uri, s.TrustDomain)
	return identity.Peer{ID: id, Stamp: identity.Stamp(stamp)}, err
}

// mayUse refuses callers that may not see a group. It does not tell whether the group exists.
func (s *Server) mayUse(ctx context.Context, groupName string) error {
	id := callerOf(ctx)
	if id.Role == identity.Operator {
		return nil
	}
	return s.judge(ctx, func() error {
		if id.Role == identity.Replicator {
			return s.mayDeliver(id, groupName)
		}
		letIn := s.View.Identity(id).Groups
		if group.Includes(letIn, groupName) && !s.isReplications(groupName) {
			return nil
		}
		return fmt.Errorf("group %q: %w to %s (it is let into %s, and operators decide that)", groupName, errDenied, id.InWords(), groupsInWords(letIn))
	})
}

// mayDeliver refuses replicators in all groups except those in which a replication that they take part in is delivered, as long as it runs.
func (s *Server) mayDeliver(id identity.ID, groupName string) error {
	delivers := s.View.Replications(func(r view.Replication) bool { return r.Delivers(groupName, id.Name) })
	if len(delivers) == 0 {
		return fmt.Errorf("group %q: %w to %s (it delivers no replication there now)", groupName, errDenied, id.InWords())
	}
	return nil
}

// groupsInWords returns the groups that a member is let into.
func groupsInWords(names []string) string {
	switch {
	case len(names) == 0:
		return "no group"
	case slices.Contains(names, group.AllGroups):
		return "all groups of members"
	case len(names) > groupsTold:
		return fmt.Sprintf("%s and %d others", strings.Join(names[:groupsTold], ", "), len(names)-groupsTold)
	}
	return strings.Join(names, ", ")
}

// groupsTold is how many groups a refusal names.
const groupsTold = 10

// mayBegin refuses callers that may not begin a delivery in a group. In a replication's group only its sender may, for replicas receive what is
// delivered there.
func (s *Server) mayBegin(ctx context.Context, groupName, sender string) error {
	if err := s.mayBe(ctx, groupName, sender); err != nil {
		return err
	}
	id := callerOf(ctx)
	if id.Role != identity.Replicator {
		return nil
	}
	sends := s.View.Replications(func(r view.Replication) bool {
		return r.Delivers(groupName, id.Name) && r.GetReplication().GetSender() == id.Name
	})
	if len(sends) == 0 {
		return fmt.Errorf("deliver in group %q: %w to %s (only the replication's sender may)", groupName, errDenied, id.InWords())
	}
	return nil
}

// isReplications reports whether a group is one in which session agents carry a replication. Members have no part there, even those that may
// join all groups.
func (s *Server) isReplications(groupName string) bool {
	if !strings.HasPrefix(groupName, replication.GroupPrefix) {
		return false
	}
	return len(s.View.Replications(func(r view.Replication) bool { return r.GetDeliveryGroup() == groupName })) > 0
}

// mayBe refuses callers that may not act as a member of a group.
func (s *Server) mayBe(ctx context.Context, groupName, member string) error {
	if id := callerOf(ctx); !id.MayBe(member) {
		return fmt.Errorf("be member %q: %w to %s (it may be %s)", member, errDenied, id.InWords(), mayBeInWords(id))
	}
	return s.mayUse(ctx, groupName)
}

// mayBeInWords returns the names of members that a caller may have.
func mayBeInWords(id identity.ID) string {
	if id.Role == identity.Member {
		return fmt.Sprintf("%s, or %[1]s.PART with a word of its own for PART", id.Name)
	}
	return id.Name
}

// admit refuses a call that its caller may not make before its request is read.
func (s *Server) admit(ctx context.Context, method string) error {
	if _, _, err := s.authorize(ctx, method); err != nil {
		return s.told(method, err)
	}
	return nil
}

// unary authorizes a call and has it carried out here or by the leader. It was admitted before; while its request came, that can have changed.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, permitted, err := s.authorize(ctx, info.FullMethod)
	if err != nil {
		return nil, s.told(info.FullMethod, err)
	}
	if permitted.leader && s.Leading.Registry() == nil {
		response, err := s.forwardUnary(ctx, info.FullMethod, req)
		return response, s.told(info.FullMethod, err)
	}
	dropUnknown(req.(proto.Message).ProtoReflect())
	response, err := handler(ctx, req)
	return response, s.told(info.FullMethod, err)
}

// stream authorizes a stream, and again with every message, since an identity
// can be revoked while it runs.
func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, permitted, err := s.authorize(stream.Context(), info.FullMethod)
	if err != nil {
		return s.told(info.FullMethod, err)
	}
	checked := &checkedStream{ServerStream: stream, ctx: ctx, server: s}
	if permitted.leader && s.Leading.Registry() == nil {
		return s.told(info.FullMethod, s.forwardStream(checked, info.FullMethod))
	}
	checked.here = true
	var end func()
	checked.pace, end = s.paces.begin(callerOf(ctx))
	defer end()
	return s.told(info.FullMethod, handler(srv, checked))
}

// told returns what the caller is told of an error, and counts it if it refuses the caller. What is a status already is the answer of the
// leader, which has counted it.
func (s *Server) told(method string, err error) error {
	if _, answered := status.FromError(err); answered {
		return err
	}
	said := toStatus(err)
	if code := status.Code(said); code == codes.Unauthenticated || code == codes.PermissionDenied {
		s.refused.WithLabelValues(method).Inc()
	}
	return said
}

type checkedStream struct {
	grpc.ServerStream
	ctx    context.Context
	server *Server
	here   bool  // whether it is handled here, and not passed on
	pace   *pace // of what is taken here; nil is any
}

func (c *checkedStream) Context() context.Context { return c.ctx }

func (c *checkedStream) SendMsg(message any) error {
	if _, err := c.server.identify(c.ctx); err != nil {
		return err
	}
	return c.ServerStream.SendMsg(message)
}

func (c *checkedStream) RecvMsg(message any) error {
	if err := c.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	if c.here {
		if err := c.pace.wait(c.ctx, message.(proto.Message)); err != nil {
			return err
		}
		dropUnknown(message.(proto.Message).ProtoReflect())
	}
	_, err := c.server.identify(c.ctx)
	return err
}
