package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/gatherer/api"
	"github.com/groupcast/groupcast/services/gatherer/revocation"
)

// mute is the stream of a client that says nothing.
type mute struct {
	grpc.ServerStream
	ctx context.Context
}

func (m *mute) Context() context.Context { return m.ctx }

func (m *mute) Send(*gatherv1.AttachResponse) error {
	return errors.New("told something before it said who it is")
}

func (m *mute) Recv() (*gatherv1.AttachRequest, error) {
	<-m.ctx.Done()
	return nil, m.ctx.Err()
}

// A client that opens a stream and says nothing is no client: its stream ends after 2 s.
func TestClientThatSaysNothingIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := new(api.Server).Attach(&mute{ctx: t.Context()}); !errors.Is(err, daemon.ErrSilent) {
			t.Errorf("the stream ended with %v", err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it was waited for %v", took)
		}
	})
}

// While nobody knows who was revoked, the roster decides who attaches, as it knows who is in. Operators' calls are refused.
func TestRosterDecidesWhoAttachesWithoutManagers(t *testing.T) {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.IssueCredentials(identity.ID{Role: identity.Operator, Name: "admin"}, 7)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(issued.Certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
	server := &api.Server{TrustDomain: identity.DefaultTrustDomain, Revocations: revocation.New(time.Now)}
	for method, want := range map[string]codes.Code{gatherv1.GatherService_Attach_FullMethodName: codes.OK, gatherv1.GatherService_WatchClients_FullMethodName: codes.Unavailable} {
		err := server.Guards().Stream[0](nil, &mute{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: method}, func(any, grpc.ServerStream) error { return nil })
		if code := status.Code(err); code != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
}
