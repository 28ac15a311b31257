package sdk

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/groupcast/groupcast/internal/apijson"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// Role is what a member may do.
type Role string

// The roles of members.
const (
	Send    Role = "send"
	Receive Role = "receive"
)

// ControlMode says when an agent acknowledges what it was sent.
type ControlMode string

// The control modes.
const (
	Hop      ControlMode = "hop"
	EndToEnd ControlMode = "end-to-end"
)

// AckLevel is what an acknowledgement to the sender means.
type AckLevel string

// The ack levels.
const (
	Relayed  AckLevel = "relayed"
	Received AckLevel = "received"
	Durable  AckLevel = "durable"
)

// SlowMemberAction is what happens to a member that cannot keep up.
type SlowMemberAction string

// The actions.
const (
	Pace   SlowMemberAction = "pace"
	Detach SlowMemberAction = "detach"
	Evict  SlowMemberAction = "evict"
)

// DataPlane says how bytes travel between neighbours in a delivery's tree.
type DataPlane string

// The data planes.
const (
	TLS DataPlane = "tls"
	// Plaintext encrypts only the opening of connections: whoever has access to the network can read what is delivered, but cannot change
	// it unnoticed.
	Plaintext DataPlane = "plaintext"
)

// Congestion is a congestion control of TCP. A machine that does not have it, or does not allow it to be chosen, uses its default.
type Congestion string

// The congestion controls.
const (
	Cubic Congestion = "cubic"
	BBR   Congestion = "bbr"
	Reno  Congestion = "reno"
)

// MemberState is where a session is in its life: active, left, expired, fenced or expelled.
type MemberState string

// Policy holds what an operator decides about a group. What is zero is left to the manager.
type Policy struct {
	AllowedRoles []Role
	ControlMode  ControlMode
	AckLevel     AckLevel
	SlowMember   SlowMember
	LatencyBound time.Duration
	// ClusterThreshold is how long round trips may be within a cluster that is found by measuring, and not given by zones.
	ClusterThreshold time.Duration
	Limits           Limits
	DataPlane        DataPlane
	Congestion       Congestion
	// MembersRelay lets members be session agents of the group.
	MembersRelay bool
	// Keep and Deadline are those of deliveries that name none; no stream has a deadline of the group's.
	Keep     time.Duration
	Deadline time.Duration
}

// SlowMember says when a member counts as slow, and what happens then.
type SlowMember struct {
	Action              SlowMemberAction
	FloorBytesPerSecond uint64
	LagBytes            uint64
	LagTime             time.Duration
}

// Limits bound what one group may take. Zero means the manager's own limit.
type Limits struct {
	MaxMembers        uint32
	MaxDeliveries     uint32
	MaxObjectBytes    uint64
	MaxBytesPerSecond uint64 // at which a sender sends a delivery; agents are not bounded
}

// Group is a named set of members with a policy.
type Group struct {
	Name        string
	Policy      Policy
	Etag        string
	Incarnation uint64
	// Epoch grows when members come or go, at most once per second.
	Epoch   uint64
	Created time.Time
	Updated time.Time
	Members int
	wire
}

// Member is a process that has joined a group.
type Member struct {
	Group string
	Name  string
	// Incarnation grows with every session of this member.
	Incarnation uint64
	Node        string
	Addresses   []string
	Labels      map[string]string
	Roles       []Role
	State       MemberState
	Joined      time.Time
	wire
}

// Agent is a session agent as the managers know it.
type Agent struct {
	Name        string
	Incarnation uint64
	Node, Zone  string
	Addresses   []string
	Labels      map[string]string
	State       string
	Registered  time.Time
	// CacheLimit is how much its cache holds at most, CacheUsed how much is taken.
	CacheUsed, CacheLimit uint64
	Links                 int
	// Deliveries is what it relays or keeps.
	Deliveries []AgentDelivery
	// Cluster is its zone, or the cluster that was found for it; empty while that is not known.
	Cluster string
	// RoundTrips are the times to other agents and back, the nearest first.
	RoundTrips []RoundTrip
	wire
}

// RoundTrip is the time to an agent and back, as both sides have measured it.
type RoundTrip struct {
	Agent string
	Time  time.Duration
}

// AgentDelivery is a delivery at an agent.
type AgentDelivery struct {
	ID string
	// Bytes is up to where it has come, Held how much of it the cache holds, and Cached how much of that is not yet acknowledged by all.
	Bytes, Held, Cached uint64
	Children            int
}

// Status describes the manager that answers and the state it sees.
type Status struct {
	Name, Version  string
	Leader         string
	Term, Revision uint64
	Groups         int
	Members        int
	AgentsOnline   int
	AgentsOffline  int
	// ManagersOnline are here, ManagersOffline are missed. While none leads, both are as they were when one did.
	ManagersOnline  int
	ManagersOffline int
	Started         time.Time
	TrustDomain     string
	// ReadOnlyReason says why writes are refused; empty while they are accepted.
	ReadOnlyReason string
	// OwnStoreReason says why the part of the store that the manager which answers has on its disk has no room, while writes are accepted, for
	// another manager leads.
	OwnStoreReason string
	// Absent says which parts should be in the same Kubernetes cluster and are not, and where to find out why.
	Absent []string
	// Away are gatherers and replicators that have registered and are not heard of any more. Only operators are told.
	Away []Away
	// Managers are those that are here, and those that are missed. Only operators are told.
	Managers []Manager
	wire
}

// Manager is one of the managers of a store.
type Manager struct {
	Name, Address, Version string
	// Started is when it began, by its own clock.
	Started time.Time
	// Away is when it was last seen; the zero time while it is here.
	Away time.Time
}

// Away is somebody who is expected and not heard of.
type Away struct {
	// ID is ROLE/NAME, as in its identity.
	ID string
	// Seen is when it was last heard; the zero time if that was before the present leader led.
	Seen time.Time
}

// wire is the message that a value came in, which is its JSON form.
type wire struct{ message proto.Message }

// MarshalJSON returns the API's own JSON form.
func (w wire) MarshalJSON() ([]byte, error) { return apijson.Marshal(w.message) }

func newGroup(m *groupv1.Group) Group {
	p := m.GetPolicy()
	return Group{
		Name: m.GetName(), Etag: m.GetEtag(), Incarnation: m.GetIncarnation(), Epoch: m.GetEpoch(),
		Created: m.GetCreateTime().AsTime(), Updated: m.GetUpdateTime().AsTime(), Members: int(m.GetMemberCount()),
		Policy: Policy{
			AllowedRoles: names[Role](p.GetAllowedRoles()),
			ControlMode:  name[ControlMode](p.GetControlMode()),
			AckLevel:     name[AckLevel](p.GetAckLevel()),
			SlowMember: SlowMember{
				Action:              name[SlowMemberAction](p.GetSlowMember().GetAction()),
				FloorBytesPerSecond: p.GetSlowMember().GetFloorBytesPerSecond(),
				LagBytes:            p.GetSlowMember().GetLagBytes(),
				LagTime:             p.GetSlowMember().GetLagTime().AsDuration(),
			},
			LatencyBound: p.GetLatencyBound().AsDuration(), ClusterThreshold: p.GetClusterThreshold().AsDuration(),
			Limits: Limits{
				MaxMembers: p.GetLimits().GetMaxMembers(), MaxDeliveries: p.GetLimits().GetMaxDeliveries(),
				MaxObjectBytes: p.GetLimits().GetMaxObjectBytes(), MaxBytesPerSecond: p.GetLimits().GetMaxBytesPerSecond(),
			},
			DataPlane: name[DataPlane](p.GetDataPlane()), Congestion: name[Congestion](p.GetCongestion()),
			MembersRelay: p.GetMembersRelay(), Keep: p.GetKeep().AsDuration(), Deadline: p.GetDeadline().AsDuration(),
		},
		wire: wire{m},
	}
}

func newMember(m *groupv1.Member) Member {
	return Member{
		Group: m.GetGroup(), Name: m.GetName(), Incarnation: m.GetIncarnation(), Node: m.GetNode(),
		Addresses: m.GetAddresses(), Labels: m.GetLabels(), Roles: names[Role](m.GetRoles()),
		State: name[MemberState](m.GetState()), Joined: m.GetJoinTime().AsTime(), wire: wire{m},
	}
}

func newAgent(m *agentv1.Agent) Agent {
	return Agent{
		Name: m.GetName(), Incarnation: m.GetIncarnation(), Node: m.GetNode(), Zone: m.GetZone(),
		Addresses: m.GetAddresses(), Labels: m.GetLabels(), State: name[string](m.GetState()),
		Registered: m.GetRegisterTime().AsTime(),
		CacheUsed:  m.GetReport().GetCacheUsedBytes(), CacheLimit: m.GetCapacity().GetCacheBytes(), Links: int(m.GetReport().GetConnections()),
		Deliveries: convert(m.GetReport().GetDeliveries(), func(r *groupv1.DeliveryReport) AgentDelivery {
			return AgentDelivery{r.GetDelivery(), r.GetBytes(), r.GetHeldBytes(), r.GetCachedBytes(), len(r.GetChildren())}
		}),
		Cluster: m.GetCluster(),
		RoundTrips: convert(m.GetRoundTrips(), func(r *groupv1.RoundTrip) RoundTrip {
			return RoundTrip{r.GetAgent(), r.GetTime().AsDuration()}
		}),
		wire: wire{m},
	}
}

func newStatus(m *groupv1.GetStatusResponse) Status {
	return Status{
		Name: m.GetName(), Version: m.GetVersion(), Leader: m.GetLeader(), Term: m.GetTerm(), Revision: m.GetRevision(),
		Groups: int(m.GetGroups()), Members: int(m.GetMembers()),
		AgentsOnline: int(m.GetAgentsOnline()), AgentsOffline: int(m.GetAgentsOffline()),
		Started: m.GetStartTime().AsTime(), TrustDomain: m.GetTrustDomain(), ReadOnlyReason: m.GetReadOnlyReason(), OwnStoreReason: m.GetOwnStoreReason(), Absent: m.GetAbsent(),
		Away:           convert(m.GetAway(), newAway),
		ManagersOnline: int(m.GetManagersOnline()), ManagersOffline: int(m.GetManagersOffline()), Managers: convert(m.GetManagers(), newManager),
		wire: wire{m},
	}
}

func newManager(m *groupv1.Manager) Manager {
	one := Manager{Name: m.GetName(), Address: m.GetAddress(), Version: m.GetVersion(), Started: m.GetStartTime().AsTime()}
	if m.GetAwayTime() != nil {
		one.Away = m.GetAwayTime().AsTime()
	}
	return one
}

func newAway(m *groupv1.Away) Away {
	one := Away{ID: m.GetId()}
	if m.GetSeenTime() != nil {
		one.Seen = m.GetSeenTime().AsTime()
	}
	return one
}

// message returns the policy as the API takes it.
func (p Policy) message() (*groupv1.Policy, error) {
	m := &groupv1.Policy{
		LatencyBound: span(p.LatencyBound), ClusterThreshold: span(p.ClusterThreshold),
		Limits: &groupv1.Limits{
			MaxMembers: p.Limits.MaxMembers, MaxDeliveries: p.Limits.MaxDeliveries,
			MaxObjectBytes: p.Limits.MaxObjectBytes, MaxBytesPerSecond: p.Limits.MaxBytesPerSecond,
		},
		MembersRelay: p.MembersRelay, Keep: span(p.Keep), Deadline: span(p.Deadline),
	}
	var err error
	if m.AllowedRoles, err = values[groupv1.Role](p.AllowedRoles); err != nil {
		return nil, err
	}
	if m.ControlMode, err = value[groupv1.ControlMode](p.ControlMode); err != nil {
		return nil, err
	}
	if m.AckLevel, err = value[groupv1.AckLevel](p.AckLevel); err != nil {
		return nil, err
	}
	if m.DataPlane, err = value[groupv1.DataPlane](p.DataPlane); err != nil {
		return nil, err
	}
	if m.Congestion, err = value[groupv1.Congestion](p.Congestion); err != nil {
		return nil, err
	}
	m.SlowMember, err = p.SlowMember.message()
	return m, err
}

func (s SlowMember) message() (*groupv1.SlowMemberPolicy, error) {
	action, err := value[groupv1.SlowMemberAction](s.Action)
	return &groupv1.SlowMemberPolicy{
		Action: action, FloorBytesPerSecond: s.FloorBytesPerSecond, LagBytes: s.LagBytes, LagTime: span(s.LagTime),
	}, err
}

func span(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// name returns an enum's value as this package writes it: CONTROL_MODE_END_TO_END is end-to-end.
func name[S ~string](value protoreflect.Enum) S {
	descriptor := value.Descriptor()
	known := descriptor.Values().ByNumber(value.Number())
	if known == nil {
		return S(fmt.Sprint(value.Number())) // from a newer manager
	}
	if value.Number() == 0 {
		return ""
	}
	short := strings.TrimPrefix(string(known.Name()), enumPrefix(descriptor))
	return S(strings.ReplaceAll(strings.ToLower(short), "_", "-"))
}

// enumPrefix is what the names of an enum's values begin with, as the unspecified one shows.
func enumPrefix(descriptor protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(descriptor.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

func names[S ~string, E protoreflect.Enum](values []E) []S {
	return convert(values, func(v E) S { return name[S](v) })
}

// enum is an enum of the API.
type enum interface {
	~int32
	protoreflect.Enum
}

// value is the reverse of name.
func value[E enum, S ~string](text S) (E, error) {
	if text == "" {
		return 0, nil
	}
	var zero E
	descriptor := zero.Descriptor()
	full := enumPrefix(descriptor) + strings.ToUpper(strings.ReplaceAll(string(text), "-", "_"))
	known := descriptor.Values().ByName(protoreflect.Name(full))
	if known == nil || known.Number() == 0 {
		return 0, &Error{Code: InvalidArgument, Message: fmt.Sprintf("%q is not one of %s", text, strings.Join(choices(descriptor), ", "))}
	}
	return E(known.Number()), nil
}

func choices(descriptor protoreflect.EnumDescriptor) []string {
	var all []string
	for i := 1; i < descriptor.Values().Len(); i++ {
		short := strings.TrimPrefix(string(descriptor.Values().Get(i).Name()), enumPrefix(descriptor))
		all = append(all, strings.ReplaceAll(strings.ToLower(short), "_", "-"))
	}
	return all
}

// values is the reverse of names.
func values[E enum, S ~string](texts []S) (all []E, err error) {
	for _, text := range texts {
		one, err := value[E](text)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func convert[M, R any](from []M, each func(M) R) []R {
	all := make([]R, len(from))
	for i, m := range from {
		all[i] = each(m)
	}
	return all
}
