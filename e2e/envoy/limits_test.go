package envoy_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
)

// "local rate limits → RESOURCE_EXHAUSTED", which is 429 for callers that speak JSON; what is passed through does not count.
func (s *site) testRate(t *testing.T) {
	p := s.front(t, settings{burst: 2, perSecond: 1})
	c, service := s.caller(t, p, certificate(t, s.ca, operator)), s.groupService(t, p, operator)
	eventually(t, "429", func() bool {
		code, said := c.list(t)
		if code != http.StatusOK && code != http.StatusTooManyRequests {
			t.Fatalf("%d %s", code, said)
		}
		return code == http.StatusTooManyRequests
	})
	eventually(t, "RESOURCE_EXHAUSTED", func() bool {
		_, err := service.ListGroups(t.Context(), &groupv1.ListGroupsRequest{})
		if err != nil && status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
		return err != nil
	})
	client, err := sdk.Dial(s.access(p))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 20 {
		if _, err := client.Groups(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What callers invent costs nothing that Envoy keeps: not a name that no method has, and not a request that does not end.
func (s *site) testInvented(t *testing.T) {
	p := s.front(t, settings{burst: plenty, perSecond: plenty})
	c := s.caller(t, p, certificate(t, s.ca, member))
	const invented = "Invented"
	for i := range 20 {
		for _, service := range []string{"x.y", "groupcast.group.v1.GroupService", "groupcast.gather.v1.GatherService", "grpc.health.v1.Health"} {
			path := fmt.Sprintf("/%s/%s%d", service, invented, i)
			for _, kind := range []string{"application/grpc", "application/grpc+proto", "application/grpc-web", "application/grpc-web-text+proto", "application/grpc;x=y", "application/grpcx", "application/json"} {
				answer, err := c.open(t, http.MethodPost, path, "\x00\x00\x00\x00\x00", http.Header{"Content-Type": {kind}, "Te": {"trailers"}})
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if code := answer.Header.Get("Grpc-Status"); answer.StatusCode != http.StatusNotFound && code != strconv.Itoa(int(codes.Unimplemented)) {
					t.Errorf("%s in %s: %s, gRPC's %q", path, kind, answer.Status, code)
				}
			}
		}
	}
	time.Sleep(time.Second) // the metrics are written by and by
	if seen := p.ask(http.MethodGet, "/stats"); strings.Contains(seen, invented) || !strings.Contains(seen, "downstream_rq_4xx") {
		t.Errorf("invented names have metrics:\n%.2000s", seen)
	}
	for _, kind := range []string{"application/json", "application/grpcx", ""} {
		if code, said := c.call(t, http.MethodPost, groups, `{"name": "`+strings.Repeat("a", 5<<20)+`"}`, http.Header{"Content-Type": {kind}}); code != http.StatusRequestEntityTooLarge {
			t.Errorf("5 MiB in %q: %d %.100s", kind, code, said)
		}
	}
	if code, said := c.call(t, http.MethodPost, groups, `{"name": "`+strings.Repeat("a", 3<<20)+`"}`, nil); code == http.StatusRequestEntityTooLarge || code == http.StatusOK || code == 0 {
		t.Errorf("3 MiB in JSON: %d %.100s, want a manager's refusal", code, said)
	}
}

// "refused certificates": Envoy accepts only certificates of members and operators from our CA, and the managers accept
// no revoked one.
func (s *site) testRefused(t *testing.T) {
	stranger, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	past, neighbour := *s.ca, *s.ca
	past.Now = func() time.Time { return time.Now().Add(-2 * identity.CertificateLifetime) }
	neighbour.TrustDomain = "elsewhere.example"
	for name, c := range map[string]caller{
		"nobody":            s.caller(t, s.proxy, nil),
		"of another CA":     s.caller(t, s.proxy, certificate(t, stranger, operator)),
		"of another domain": s.caller(t, s.proxy, certificate(t, &neighbour, operator)),
		"expired":           s.caller(t, s.proxy, certificate(t, &past, operator)),
		"an agent":          s.caller(t, s.proxy, certificate(t, s.ca, identity.ID{Role: identity.Agent, Name: "a"})),
		"a manager":         s.caller(t, s.proxy, certificate(t, s.ca, identity.ID{Role: identity.Manager, Name: "manager-0"})),
		"a gateway":         s.caller(t, s.proxy, certificate(t, s.ca, identity.ID{Role: identity.Gateway, Name: "gateway"})),
	} {
		if code, said := c.list(t); code != 0 {
			t.Errorf("%s: %d %s, want a connection that breaks", name, code, said)
		}
	}
	left := identity.ID{Role: identity.Operator, Name: "left"}
	c := s.caller(t, s.proxy, certificate(t, s.ca, left))
	if code, said := c.list(t); code != http.StatusOK {
		t.Errorf("before it is revoked: %d %s", code, said)
	}
	if err := s.Client(t).Revoke(t.Context(), string(left.Role), left.Name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both managers refuse the revoked", func() bool {
		first, _ := c.list(t)
		second, _ := c.list(t)
		return first == http.StatusUnauthorized && second == http.StatusUnauthorized
	})
}

// A caller that writes into x-forwarded-client-cert does not become somebody else by that.
func (s *site) testForged(t *testing.T) {
	shown := certificate(t, s.ca, operator)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shown.Certificate[0]})
	forged := `Cert="` + url.PathEscape(string(text)) + `"`
	c := s.caller(t, s.proxy, certificate(t, s.ca, member))
	for _, values := range [][]string{nil, {forged}, {forged, forged}, {forged + "," + forged}, {"URI=" + operator.URI(identity.DefaultTrustDomain).String()}} {
		header := http.Header{"X-Forwarded-Client-Cert": values}
		if code, said := c.call(t, http.MethodGet, groups, "", header); code != http.StatusForbidden {
			t.Errorf("a member with %.40q: %d %s", values, code, said)
		}
	}
}

// "admin on loopback": others see whether Envoy is ready, and its metrics, but nothing else.
func (s *site) testAdmin(t *testing.T) {
	_, port, err := net.SplitHostPort(s.proxy.admin)
	if err != nil {
		t.Fatal(err)
	}
	if connection, err := net.Dial("tcp", net.JoinHostPort(s.proxy.address, port)); err == nil {
		connection.Close()
		t.Error("the admin interface is on every address")
	}
	for path, want := range map[string]int{
		"/ready": http.StatusOK, "/stats/prometheus": http.StatusOK,
		"/": http.StatusNotFound, "/config_dump": http.StatusNotFound, "/certs": http.StatusNotFound, "/quitquitquit": http.StatusNotFound,
		"/drain_listeners": http.StatusNotFound, "/ready/../config_dump": http.StatusNotFound, "/stats": http.StatusNotFound,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.proxy.at("7482")+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if want == http.StatusOK {
			request.Method = http.MethodGet
		}
		request.Close = true
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, answer.Status, want)
		}
	}
}

// Somebody who holds all connections that Envoy accepts does not prevent others from seeing that it is well: a failing
// probe would end all these connections.
func (s *site) testCrowd(t *testing.T) {
	const all = 5
	p := s.front(t, settings{burst: plenty, perSecond: plenty, connections: all})
	held := make([]net.Conn, all)
	for i := range held {
		var err error
		if held[i], err = net.Dial("tcp", p.at("7480")); err != nil {
			t.Fatal(err)
		}
		defer held[i].Close()
	}
	eventually(t, "there is no room for another", func() bool {
		one, err := net.Dial("tcp", p.at("7483"))
		if err != nil {
			return true
		}
		defer one.Close()
		one.SetReadDeadline(time.Now().Add(time.Second))
		_, err = one.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	})
	for _, page := range []string{"http://" + p.at("7482") + "/ready", "http://" + p.at("7482") + "/stats/prometheus", "http://" + p.admin + "/ready"} {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
		answer, err := client.Get(page)
		if err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, answer.Status)
		}
	}
}

// Certificates live for an hour: a new one is used as soon as it is moved into place, and existing connections notice nothing.
func (s *site) testRenewed(t *testing.T) {
	p := s.front(t, settings{burst: plenty, perSecond: plenty})
	own := certificate(t, s.ca, operator)
	shown := func() string {
		connection, err := tls.Dial("tcp", p.at("7481"), s.shows(t, own))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	w := s.caller(t, p, own).watch(t, http.MethodGet, watchGroups, nil)
	first := shown()
	writeCredentials(t, s.ca, p.tls)
	eventually(t, "another certificate is shown", func() bool { return shown() != first })
	s.caller(t, p, own).wants(t, http.MethodPost, groups, `{"name": "renewed"}`)
	w.until(t, `"renewed"`)
}
