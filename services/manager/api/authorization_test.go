package api_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/services/manager/api"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// An RPC without a rule would be refused to all, and a rule without an RPC would be a spelling mistake: a running manager is asked what it
// serves.
func TestC29EveryRPCHasARule(t *testing.T) {
	served := methodsServedBy(t, managertest.Start(t))
	ruled := api.RuledMethods()
	for _, method := range served {
		if !slices.Contains(ruled, method) {
			t.Errorf("%s is served without a rule", method)
		}
	}
	for _, method := range ruled {
		if !slices.Contains(served, method) {
			t.Errorf("%s has a rule but is not served", method)
		}
	}
	for _, must := range []string{"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		if !slices.Contains(served, must) {
			t.Errorf("%s is not served", must)
		}
	}
}

// Who may not make a call is told before the request is read: nobody has the manager's memory for asking.
func TestCallsAreRefusedBeforeTheyAreRead(t *testing.T) {
	m := managertest.Start(t)
	nobody := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true} // #nosec G402 -- it is nobody's
	connection, err := grpc.NewClient(m.Address, grpc.WithTransportCredentials(credentials.NewTLS(nobody)))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	call, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, groupv1.ManagerService_GetStatus_FullMethodName) // and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	if err := call.RecvMsg(new(groupv1.GetStatusResponse)); status.Code(err) != codes.Unauthenticated || uplink.Reason(err) != "NO_IDENTITY" {
		t.Errorf("the call ended with %v, want NO_IDENTITY", err)
	}
}

// methodsServedBy lists the methods of the services that server reflection names.
func methodsServedBy(t *testing.T, m *managertest.Manager) []string {
	t.Helper()
	var methods []string
	for _, service := range servicesOf(t, m) {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			t.Fatalf("service %s: %v", service, err)
		}
		descriptors := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range descriptors.Len() {
			methods = append(methods, fmt.Sprintf("/%s/%s", service, descriptors.Get(i).Name()))
		}
	}
	return methods
}

func servicesOf(t *testing.T, m *managertest.Manager) []string {
	t.Helper()
	access, err := uplink.ReadConfig(m.Access)
	if err != nil {
		t.Fatal(err)
	}
	operator := identity.TLS{TrustDomain: access.TrustDomain, Source: identity.FilesIn(access.CredentialsDir)}
	connection, err := grpc.NewClient(m.Address, grpc.WithTransportCredentials(credentials.NewTLS(operator.Client(identity.Manager))))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	return names
}
