package manager_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Callers of the matrix.
const (
	nobody     = "nobody" // without a certificate
	foreign    = "foreign CA"
	expired    = "expired"
	otherTrust = "other trust domain"
	revoked    = "revoked"
)

// Outcomes of a call.
const (
	allowed      = "allowed" // whatever it answers
	denied       = "denied"
	noConnection = "no connection"
)

var (
	roles    = []string{"manager", "agent", "gatherer", "replicator", "member", "operator", "gateway"}
	anyRole  = strings.Join(roles, " ")
	renewing = strings.TrimSuffix(anyRole, " gateway") // a gateway gets its certificates otherwise
	refused  = []string{foreign, expired, otherTrust}  // callers refused before they can make a call
	matrixed = append([]string{nobody, revoked}, slices.Concat(refused, roles)...)
)

// matrix says who may call what. It is written from the documents of the RPCs, not from the manager's own table. A request is one that a member
// named alice of group models would make; where none is given, it is empty.
var matrix = []struct {
	service string
	method  string
	callers string
	request proto.Message
}{
	{"groupcast.group.v1.GroupService", "CreateGroup", "operator", nil},
	{"groupcast.group.v1.GroupService", "GetGroup", "operator member", &groupv1.GetGroupRequest{Name: "models"}},
	{"groupcast.group.v1.GroupService", "ListGroups", "operator", nil},
	{"groupcast.group.v1.GroupService", "UpdateGroup", "operator", nil},
	{"groupcast.group.v1.GroupService", "DeleteGroup", "operator", nil},
	{"groupcast.group.v1.GroupService", "WatchGroups", "operator", nil},
	{"groupcast.group.v1.SessionService", "Join", "operator member", &groupv1.JoinRequest{Group: "models", Name: "alice"}},
	{"groupcast.group.v1.SessionService", "KeepSession", "operator member", &groupv1.KeepSessionRequest{Group: "models", Name: "alice"}},
	{"groupcast.group.v1.SessionService", "Leave", "operator member", &groupv1.LeaveRequest{Group: "models", Name: "alice"}},
	{"groupcast.group.v1.SessionService", "ListMembers", "operator member", &groupv1.ListMembersRequest{Group: "models"}},
	{"groupcast.group.v1.SessionService", "WatchMembers", "operator member", &groupv1.WatchMembersRequest{Group: "models"}},
	{"groupcast.group.v1.DeliveryService", "CreateDelivery", "operator member", &groupv1.CreateDeliveryRequest{Group: "models", Sender: "alice"}},
	{"groupcast.group.v1.DeliveryService", "SealDelivery", "operator member replicator", nil},
	{"groupcast.group.v1.DeliveryService", "RecordReceipt", "operator member replicator", nil},
	{"groupcast.group.v1.DeliveryService", "CancelDelivery", "operator member replicator", nil},
	{"groupcast.group.v1.DeliveryService", "GetDelivery", "operator member replicator", nil},
	{"groupcast.group.v1.DeliveryService", "ListDeliveries", "operator member", &groupv1.ListDeliveriesRequest{Group: "models"}},
	{"groupcast.group.v1.DeliveryService", "WatchDelivery", "operator member replicator", nil},
	{"groupcast.group.v1.IdentityService", "CreateToken", "operator", nil},
	{"groupcast.group.v1.IdentityService", "Enroll", nobody + " " + renewing, nil},
	{"groupcast.group.v1.IdentityService", "Renew", renewing, nil},
	{"groupcast.group.v1.IdentityService", "RevokeIdentity", "operator", nil},
	{"groupcast.group.v1.IdentityService", "IssueRelay", "operator member", &groupv1.IssueRelayRequest{Group: "models", Member: "alice"}},
	{"groupcast.group.v1.IdentityService", "WatchRevocations", "operator gatherer", nil},
	{"groupcast.group.v1.IdentityService", "WatchGrants", "operator gatherer", nil},
	{"groupcast.group.v1.ManagerService", "GetStatus", anyRole, nil},
	{"groupcast.agent.v1.AgentService", "Control", "agent", nil},
	{"groupcast.agent.v1.AgentService", "ListAgents", "operator", nil},
	{"groupcast.replica.v1.ReplicationService", "CreateReplication", "operator", nil},
	{"groupcast.replica.v1.ReplicationService", "GetReplication", "operator", nil},
	{"groupcast.replica.v1.ReplicationService", "ListReplications", "operator", nil},
	{"groupcast.replica.v1.ReplicationService", "WatchReplication", "operator", nil},
	{"groupcast.replica.v1.ReplicationService", "CancelReplication", "operator", nil},
	{"groupcast.gather.v1.GathererService", "Control", "gatherer", nil},
	{"groupcast.gather.v1.GathererService", "GetGatherer", "operator member agent", nil},
	{"groupcast.gather.v1.GathererService", "ListGatherers", "operator", nil},
	{"groupcast.replica.v1.ReplicatorService", "Control", "replicator", nil},
	{"groupcast.replica.v1.ReplicatorService", "ListReplicators", "operator", nil},
	{healthv1.Health_ServiceDesc.ServiceName, "Check", anyRole, nil},
	{healthv1.Health_ServiceDesc.ServiceName, "List", anyRole, nil},
	{healthv1.Health_ServiceDesc.ServiceName, "Watch", anyRole, nil},
	{reflectionv1.ServerReflection_ServiceDesc.ServiceName, "ServerReflectionInfo", "operator", nil},
	{reflectionv1alpha.ServerReflection_ServiceDesc.ServiceName, "ServerReflectionInfo", "operator", nil},
}

func TestC29AuthMatrix(t *testing.T) {
	m := managertest.Start(t)
	connections := connectMatrix(t, m)
	for _, row := range matrix {
		for _, caller := range matrixed {
			want := denied
			switch {
			case slices.Contains(refused, caller):
				want = noConnection
			case slices.Contains(strings.Fields(row.callers), caller):
				want = allowed
			}
			t.Run(row.method+" by "+caller, func(t *testing.T) {
				err := call(t, connections[caller], row.service, row.method, row.request)
				if got := outcome(err); got != want {
					t.Errorf("%s, want %s: %v", got, want, err)
				}
			})
		}
	}
}

// Each service that this module defines must be in the matrix with all its methods.
func TestC29MatrixIsWhole(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{
		groupv1.File_groupcast_group_v1_group_proto, groupv1.File_groupcast_group_v1_session_proto,
		groupv1.File_groupcast_group_v1_delivery_proto, groupv1.File_groupcast_group_v1_identity_proto, groupv1.File_groupcast_group_v1_manager_proto,
		agentv1.File_groupcast_agent_v1_agent_proto, replicav1.File_groupcast_replica_v1_replication_proto,
		healthv1.File_grpc_health_v1_health_proto, reflectionv1.File_grpc_reflection_v1_reflection_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				inMatrix := false
				for _, row := range matrix {
					inMatrix = inMatrix || row.service == string(service.FullName()) && row.method == string(method.Name())
				}
				if !inMatrix {
					t.Errorf("nobody has written down who may call %s", method.FullName())
				}
			}
		}
	}
}

// connectMatrix makes a connection for each caller.
func connectMatrix(t *testing.T, m *managertest.Manager) map[string]*grpc.ClientConn {
	t.Helper()
	operator := m.Client(t)
	if _, err := operator.CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	stranger, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	neighbour, past := caOf(t, m), caOf(t, m)
	neighbour.TrustDomain = "elsewhere.example"
	past.Now = func() time.Time {
		return time.Now().Add(-identity.CertificateLifetime - identity.ClockTolerance - time.Minute)
	}
	admin := identity.ID{Role: identity.Operator, Name: "admin"}
	left := identity.ID{Role: identity.Operator, Name: "left"}
	connections := map[string]*grpc.ClientConn{
		nobody:     connect(t, m.Address, nil),
		foreign:    connect(t, m.Address, issue(t, stranger, admin)),
		expired:    connect(t, m.Address, issue(t, past, admin)),
		otherTrust: connect(t, m.Address, issue(t, neighbour, admin)),
		revoked:    connect(t, m.Address, issue(t, caOf(t, m), left)),
		"member":   connect(t, m.Address, enrolled(t, m, "alice", "models")),
	}
	if err := operator.Revoke(t.Context(), "operator", "left"); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		if connections[role] == nil {
			connections[role] = connect(t, m.Address, issue(t, caOf(t, m), identity.ID{Role: identity.Role(role), Name: "someone"}))
		}
	}
	return connections
}

// Only another manager can say on whose behalf it calls.
func TestC29NobodyBorrowsAnIdentity(t *testing.T) {
	m := managertest.Start(t)
	const header = "groupcast-caller"
	if err := m.Client(t).Revoke(t.Context(), "operator", "gone"); err != nil {
		t.Fatal(err)
	}
	back, err := x509.ParseCertificate(certificateOf(t, m.Enroll(t, sdk.Token{Role: "operator", Name: "gone"})).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		peer   identity.Role
		claims string
		want   string
	}{
		{identity.Manager, "spiffe://groupcast.local/groupcast/operator/admin#7", allowed},
		{identity.Manager, "spiffe://groupcast.local/groupcast/agent/a1#7", denied},
		{identity.Manager, "spiffe://elsewhere.example/groupcast/operator/admin#7", denied},
		{identity.Manager, "%zz", denied},
		{identity.Manager, "anonymous", denied},
		{identity.Manager, "spiffe://groupcast.local/groupcast/operator/admin", denied}, // without a stamp
		{identity.Manager, "spiffe://groupcast.local/groupcast/operator/gone#1", denied},
		{identity.Manager, "spiffe://groupcast.local/groupcast/operator/gone#" + back.Subject.SerialNumber, allowed}, // let back in
		{identity.Manager, "spiffe://groupcast.local/groupcast/operator/gone#1000000", denied},                       // no stamp of this store yet
		{identity.Agent, "spiffe://groupcast.local/groupcast/operator/admin#7", denied},
		{identity.Member, "spiffe://groupcast.local/groupcast/operator/admin#7", denied},
	} {
		t.Run(string(tt.peer)+" as "+tt.claims, func(t *testing.T) {
			connection := connect(t, m.Address, issue(t, caOf(t, m), identity.ID{Role: tt.peer, Name: "someone"}))
			ctx := metadata.AppendToOutgoingContext(t.Context(), header, tt.claims)
			err := connection.Invoke(ctx, groupv1.GroupService_ListGroups_FullMethodName, &groupv1.ListGroupsRequest{}, &emptypb.Empty{})
			if got := outcome(err); got != tt.want {
				t.Errorf("%s, want %s: %v", got, tt.want, err)
			}
		})
	}
}

// A member of one group must not learn from an answer whether another group exists.
func TestC29OtherGroups(t *testing.T) {
	m := managertest.Start(t)
	for _, name := range []string{"models", "secrets"} {
		if _, err := m.Client(t).CreateGroup(t.Context(), name, sdk.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	connection := connect(t, m.Address, enrolled(t, m, "alice", "models"))
	for method, request := range map[string]func(group string) proto.Message{
		"GetGroup":     func(g string) proto.Message { return &groupv1.GetGroupRequest{Name: g} },
		"Join":         func(g string) proto.Message { return &groupv1.JoinRequest{Group: g, Name: "alice"} },
		"KeepSession":  func(g string) proto.Message { return &groupv1.KeepSessionRequest{Group: g, Name: "alice"} },
		"Leave":        func(g string) proto.Message { return &groupv1.LeaveRequest{Group: g, Name: "alice"} },
		"ListMembers":  func(g string) proto.Message { return &groupv1.ListMembersRequest{Group: g} },
		"WatchMembers": func(g string) proto.Message { return &groupv1.WatchMembersRequest{Group: g} },
		"CreateDelivery": func(g string) proto.Message {
			return &groupv1.CreateDeliveryRequest{Group: g, Sender: "alice", Spec: file(1)}
		},
		"ListDeliveries": func(g string) proto.Message { return &groupv1.ListDeliveriesRequest{Group: g} },
	} {
		t.Run(method, func(t *testing.T) {
			service := "groupcast.group.v1.SessionService"
			switch method {
			case "GetGroup":
				service = "groupcast.group.v1.GroupService"
			case "CreateDelivery", "ListDeliveries":
				service = "groupcast.group.v1.DeliveryService"
			}
			if err := call(t, connection, service, method, request("models")); outcome(err) != allowed {
				t.Errorf("its own group: %v", err)
			}
			real := call(t, connection, service, method, request("secrets"))
			ghost := call(t, connection, service, method, request("ghosts"))
			if status.Code(real) != codes.PermissionDenied {
				t.Errorf("another group: %v, want PermissionDenied", real)
			}
			if told := strings.ReplaceAll(fmt.Sprint(real), "secrets", "ghosts"); told != ghost.Error() {
				t.Errorf("a group that exists: %s\none that does not: %v", told, ghost)
			}
		})
	}
}

func TestC29MembersAreOnlyThemselves(t *testing.T) {
	m := managertest.Start(t)
	if _, err := m.Client(t).CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	alice := dial(t, m.Enroll(t, sdk.Token{Role: "member", Name: "alice", Groups: []string{"models"}}))
	if _, err := alice.Join(t.Context(), sdk.Join{Group: "models", Name: "bob"}); sdk.CodeOf(err) != sdk.Forbidden {
		t.Errorf("alice joined as bob: %v", err)
	}
	session, err := alice.Join(t.Context(), sdk.Join{Group: "models", Name: "alice"})
	if err != nil {
		t.Fatalf("alice as herself: %v", err)
	}
	if err := session.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// call makes one call of any kind, and returns how it was answered.
func call(t *testing.T, connection *grpc.ClientConn, service, method string, request proto.Message) error {
	t.Helper()
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	if err != nil {
		t.Fatal(err)
	}
	descriptor := found.(protoreflect.MethodDescriptor)
	if request == nil {
		request = &emptypb.Empty{} // as good as an empty message of any type
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{
		ServerStreams: descriptor.IsStreamingServer(), ClientStreams: descriptor.IsStreamingClient(),
	}, "/"+service+"/"+method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(&emptypb.Empty{}); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func outcome(err error) string {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return denied
	case codes.Unavailable:
		return noConnection
	}
	return allowed
}

// connect dials with a certificate, or with none, and trusts any server.
func connect(t *testing.T, address string, own *tls.Certificate) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(trusting(own))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// dial returns a client with the identity that a configuration names.
func dial(t *testing.T, config sdk.Config) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func trusting(own *tls.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		InsecureSkipVerify: true, // #nosec G402 -- the test is about what the server accepts
	}
	if own != nil {
		// The certificate is shown whether or not the server says that it would accept its issuer.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return config
}

func caOf(t *testing.T, m *managertest.Manager) *identity.CA {
	t.Helper()
	return caIn(t, m.Config.Identity.CADir)
}

func caIn(t *testing.T, dir string) *identity.CA {
	t.Helper()
	ca, err := identity.OpenCA(dir, identity.DefaultTrustDomain)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *identity.CA, id identity.ID) *tls.Certificate {
	t.Helper()
	issued, err := ca.IssueCredentials(id, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &issued.Certificate
}

// enrolled returns the certificate of a member that enrolled for the groups.
func enrolled(t *testing.T, m *managertest.Manager, name string, groups ...string) *tls.Certificate {
	t.Helper()
	return certificateOf(t, m.Enroll(t, sdk.Token{Role: "member", Name: name, Groups: groups}))
}

// certificateOf returns the certificate of a client that enrolled.
func certificateOf(t *testing.T, config sdk.Config) *tls.Certificate {
	t.Helper()
	held, err := identity.FilesIn(config.CredentialsDir).Credentials()
	if err != nil {
		t.Fatal(err)
	}
	return &held.Certificate
}
