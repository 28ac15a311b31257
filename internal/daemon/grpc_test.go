package daemon_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
)

func TestPanicFailsOneCall(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, &log, map[string]grpc.StreamHandler{
		"Panic": func(any, grpc.ServerStream) error { panic("a bug") },
	})
	stream := s.open("Panic")
	err := stream.RecvMsg(&emptypb.Empty{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "a bug") {
		t.Errorf("the call ended with %v, want Internal, and no details", err)
	}
	if _, err := healthv1.NewHealthClient(s.connection).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	s.stop()
	if said := log.String(); !strings.Contains(said, "a call panicked") || !strings.Contains(said, "a bug") || !strings.Contains(said, "grpc_test.go") {
		t.Errorf("the log does not say what failed, and where: %s", said)
	}
}

func TestUnaryPanicFailsOneCall(t *testing.T) {
	panics := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) { panic("a bug") }
	s := serve(t, new(bytes.Buffer), nil, panics)
	for range 2 {
		_, err := healthv1.NewHealthClient(s.connection).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if status.Code(err) != codes.Internal {
			t.Errorf("the call ended with %v, want Internal", err)
		}
	}
}

func TestStopWaitsForCallsInProgress(t *testing.T) {
	finish := make(chan struct{})
	s := serve(t, new(bytes.Buffer), map[string]grpc.StreamHandler{
		"Work": func(_ any, stream grpc.ServerStream) error {
			if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
				return err
			}
			<-finish
			return stream.SendMsg(&emptypb.Empty{})
		},
	})
	stream := s.open("Work")
	for i := range 2 {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if i == 0 {
			s.cancel()
			close(finish)
		}
	}
	s.stop()
}

// A stream that never ends must not keep the process from stopping, even if its
// handler does not look at its context.
func TestStopDoesNotWaitForever(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s := serve(t, new(bytes.Buffer), map[string]grpc.StreamHandler{
		"Hang": func(_ any, stream grpc.ServerStream) error {
			if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
				return err
			}
			<-release
			return nil
		},
	})
	stream := s.open("Hang")
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := stream.RecvMsg(&emptypb.Empty{}); err == nil {
		t.Error("the stream goes on")
	}
}

// A service that is stopped while it begins has not failed.
func TestStopAsItBegins(t *testing.T) {
	for range 100 {
		serve(t, new(bytes.Buffer), nil).stop()
	}
}

func TestConnectionsOverTheLimitWait(t *testing.T) {
	s := serve(t, new(bytes.Buffer), nil)
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	second := s.dial()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := healthv1.NewHealthClient(second).Check(ctx, &healthv1.HealthCheckRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a second connection: %v, want it to wait", err)
	}
	s.connection.Close()
	if _, err := healthv1.NewHealthClient(second).Check(t.Context(), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("after the first has closed: %v", err)
	}
}

// Callers without a certificate leave room for those of the same address that have one: behind a proxy all share an address.
func TestRoomForThoseWhoProveThemselves(t *testing.T) {
	s := serveMost(t, 32, new(bytes.Buffer), nil) // 8 from one address, 2 of them without a certificate
	refused := 0
	for range 7 {
		connection, err := tls.Dial("tcp", s.address, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, InsecureSkipVerify: true}) // #nosec G402 -- it is nobody's
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		// An HTTP/2 server speaks once it has received the client's first frames.
		if _, err := connection.Write([]byte(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			refused++
		} else if _, err := io.ReadFull(connection, make([]byte, 9)); err != nil {
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d of 7 connections without a certificate were refused, want 5", refused)
	}
	if err := s.check(); err != nil {
		t.Errorf("a call with a certificate: %v", err)
	}
}

func TestGRPCPortInUse(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	config := daemon.GRPCConfig{Listen: other.Addr().String(), MaxConnections: 1}
	_, err = daemon.ListenGRPC(daemon.Env{Log: slog.New(slog.DiscardHandler)}, config, identity.TLS{}, daemon.Guards{})
	if err == nil || !strings.Contains(err.Error(), "gRPC port (set grpc.listen to another address)") {
		t.Errorf("error %v does not say what to do", err)
	}
}

// served is a gRPC server that takes one connection, and a client of it.
type served struct {
	t          *testing.T
	address    string
	security   *tls.Config // of its client
	client     grpc.DialOption
	connection *grpc.ClientConn
	cancel     context.CancelFunc
	stop       func()
}

// serve serves streams by their names below /test.Streams/. It ends with the test, or with stop.
func serve(t *testing.T, log *bytes.Buffer, streams map[string]grpc.StreamHandler, unary ...grpc.UnaryServerInterceptor) *served {
	t.Helper()
	return serveMost(t, 1, log, streams, unary...)
}

// serveMost serves at most so many connections at once.
func serveMost(t *testing.T, most int, log *bytes.Buffer, streams map[string]grpc.StreamHandler, unary ...grpc.UnaryServerInterceptor) *served {
	t.Helper()
	security, client := newSecurity(t)
	config := daemon.GRPCConfig{Listen: "127.0.0.1:0", MaxConnections: most}
	port, err := daemon.ListenGRPC(daemon.Env{Log: slog.New(slog.NewTextHandler(log, nil))}, config, security, daemon.Guards{Unary: unary})
	if err != nil {
		t.Fatal(err)
	}
	description := &grpc.ServiceDesc{ServiceName: "test.Streams"}
	for name, handler := range streams {
		description.Streams = append(description.Streams, grpc.StreamDesc{StreamName: name, Handler: handler, ServerStreams: true, ClientStreams: true})
	}
	port.RegisterService(description, nil)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- port.Serve(ctx, stopWait) }()
	s := &served{t: t, address: port.Addr(), security: client.Client(identity.Manager), cancel: cancel}
	s.client = grpc.WithTransportCredentials(credentials.NewTLS(s.security))
	s.connection = s.dial()
	s.stop = func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			ended <- err
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(50 * stopWait):
			t.Errorf("the server goes on long after %v", stopWait)
		}
	}
	t.Cleanup(s.stop)
	return s
}

// newSecurity returns a manager's, and a member's that calls it.
func newSecurity(t *testing.T) (manager, member identity.TLS) {
	t.Helper()
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issued := func(role identity.Role) identity.TLS {
		own, err := identity.NewSelfIssued(ca, identity.ID{Role: role, Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		return identity.TLS{TrustDomain: ca.TrustDomain, Source: own, Now: time.Now}
	}
	return issued(identity.Manager), issued(identity.Member)
}

// stopWait is how long these servers wait for calls in progress.
const stopWait = 200 * time.Millisecond

func (s *served) dial() *grpc.ClientConn {
	s.t.Helper()
	connection, err := grpc.NewClient(s.address, s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { connection.Close() })
	return connection
}

func (s *served) open(stream string) grpc.ClientStream {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	s.t.Cleanup(cancel)
	opened, err := s.connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Streams/"+stream)
	if err != nil {
		s.t.Fatal(err)
	}
	return opened
}

func (s *served) check() error {
	_, err := healthv1.NewHealthClient(s.connection).Check(s.t.Context(), &healthv1.HealthCheckRequest{})
	return err
}
