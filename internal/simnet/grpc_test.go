package simnet_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/simnet"
)

// The control plane's gRPC over TLS works in a bubble, even after a cut.
func TestGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		network.ShapeAll(simnet.Shape{Latency: latency})
		security := newSecurity(t)
		port, err := network.Host("manager").Listen(":7600")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(grpc.Creds(credentials.NewTLS(security.Server())))
		healthv1.RegisterHealthServer(server, health.NewServer())
		go func() { _ = server.Serve(port) }()
		defer server.Stop()

		member := network.Host("member")
		conn, err := grpc.NewClient("passthrough:///manager:7600",
			grpc.WithTransportCredentials(credentials.NewTLS(security.Client(identity.Manager))),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return member.Dial(ctx, "tcp", address)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		check(t, conn)
		network.Cut("manager", "member")
		time.AfterFunc(time.Minute, network.HealAll)
		start := time.Now()
		check(t, conn)
		if took := time.Since(start); took < time.Minute {
			t.Errorf("a call passed a cut after %v", took)
		}
	})
}

func check(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func newSecurity(t *testing.T) identity.TLS {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	own, err := identity.NewSelfIssued(ca, identity.ID{Role: identity.Manager, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return identity.TLS{TrustDomain: ca.TrustDomain, Source: own, Now: time.Now}
}
