package envoy_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/identity"
)

// Streams in excess of the limit are refused at once, and accepted again when there is room. They do not keep out
// calls, which are soon answered.
func (s *site) testBreaker(t *testing.T) {
	const atOnce = 3
	c := s.caller(t, s.front(t, settings{burst: plenty, perSecond: plenty, atOnce: atOnce}), certificate(t, s.ca, operator))
	var watches []*watch
	for range atOnce {
		watches = append(watches, c.watch(t, http.MethodGet, watchGroups, nil))
	}
	if code, said := c.call(t, http.MethodGet, watchGroups, "", nil); code != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %d %s, want %d", code, said, http.StatusServiceUnavailable)
	}
	if code, said := c.list(t); code != http.StatusOK {
		t.Errorf("a call beside them: %d %s", code, said)
	}
	for _, w := range watches {
		w.end()
	}
	eventually(t, "there is room", func() bool {
		answer, err := c.open(t, http.MethodGet, watchGroups, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// "outlier detection": a server that claims to be well, but fails every call, gets none for a while.
func (s *site) testOutlier(t *testing.T) {
	failing := s.failing(t)
	p := s.front(t, settings{burst: plenty, perSecond: plenty, managers: []string{failing}})
	c := s.caller(t, p, certificate(t, s.ca, operator))
	eventually(t, "the one that fails is left out", func() bool {
		for range 20 { // in turn, every third call would fail
			if code, _ := c.list(t); code != http.StatusOK {
				return false
			}
		}
		return true
	})
	if out := fmt.Sprintf("managers::%s::health_flags::/failed_outlier_check\n", failing); !strings.Contains(p.ask(http.MethodGet, "/clusters"), out) {
		t.Errorf("no call fails, but not because of %q", out)
	}
}

// failing starts a server that looks like a manager, claims to be well, and fails every call. It returns the address.
func (s *site) failing(t *testing.T) string {
	t.Helper()
	own := certificate(t, s.ca, identity.ID{Role: identity.Manager, Name: "failing"})
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*own}})),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.Unavailable, "as always") }))
	healthv1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}
