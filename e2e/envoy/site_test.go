package envoy_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// site is two managers with their CA, and an Envoy in front of them.
type site struct {
	*managertest.Cluster
	ca    *identity.CA
	proxy *proxy
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Cluster: managertest.StartCluster(t, 2)}
	ca, err := identity.OpenCA(filepath.Join(filepath.Dir(s.Managers[0].Dir), "ca"), identity.DefaultTrustDomain)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = ca
	s.Leader(t)
	s.proxy = s.front(t, settings{burst: plenty, perSecond: plenty})
	return s
}

// front starts another Envoy.
func (s *site) front(t testing.TB, of settings) *proxy {
	t.Helper()
	for _, manager := range s.Managers {
		of.managers = append(of.managers, manager.Address)
	}
	if of.gatherer == "" {
		of.gatherer = "127.0.0.1:1"
	}
	return start(t, s.ca, of)
}

var (
	operator = identity.ID{Role: identity.Operator, Name: "olga"}
	member   = identity.ID{Role: identity.Member, Name: "alice"}
)

// certificate issues a certificate.
func certificate(t testing.TB, ca *identity.CA, id identity.ID) *tls.Certificate {
	t.Helper()
	held, err := ca.IssueCredentials(id, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &held.Certificate
}

// shows returns the TLS configuration of a client that is not ours, such as curl, and shows a certificate or none.
func (s *site) shows(t testing.TB, own *tls.Certificate) *tls.Config {
	t.Helper()
	authority, err := x509.ParseCertificate(s.ca.Authorities()[0])
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(authority)
	if own != nil {
		config.Certificates = []tls.Certificate{*own}
	}
	return config
}

// caller speaks HTTP with JSON to an Envoy.
type caller struct {
	*http.Client
	base string
}

func (s *site) caller(t testing.TB, p *proxy, own *tls.Certificate) caller {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: s.shows(t, own), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return caller{&http.Client{Transport: transport}, "https://" + p.at("7481")}
}

// open begins a call; the caller reads the answer.
func (c caller) open(t testing.TB, method, path, body string, header http.Header) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range header {
		request.Header[key] = values
	}
	if body != "" && header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return c.Do(request)
}

// call makes a call, and returns the status and the body.
func (c caller) call(t testing.TB, method, path, body string, header http.Header) (int, string) {
	t.Helper()
	answer, err := c.open(t, method, path, body, header)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(bytes.TrimSpace(text))
}

const (
	groups      = "/v1/groups"
	watchGroups = "/v1/groups:watch"
)

// list asks for the groups, which is what cases about permissions call.
func (c caller) list(t testing.TB) (int, string) {
	t.Helper()
	return c.call(t, http.MethodGet, groups, "", nil)
}

// wants checks that a call succeeds, with these words in the answer.
func (c caller) wants(t testing.TB, method, path, body string, words ...string) {
	t.Helper()
	code, said := c.call(t, method, path, body, nil)
	if code != http.StatusOK {
		t.Errorf("%s %s: %d %s", method, path, code, said)
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("%s %s says %s, want %s in it", method, path, said, word)
		}
	}
}

// watch reads a watch in a goroutine of its own, one JSON object per line.
type watch struct {
	lines chan string // closed when it has ended
	begun time.Time
	end   func() // ends it
}

func (c caller) watch(t testing.TB, method, path string, header http.Header) *watch {
	t.Helper()
	answer, err := c.open(t, method, path, "", header) //nolint:bodyclose // end closes it
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		t.Fatalf("a watch is answered by %s", answer.Status)
	}
	w := &watch{lines: make(chan string, 100), begun: time.Now()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.lines)
		decoder := json.NewDecoder(answer.Body)
		for {
			var line json.RawMessage
			if decoder.Decode(&line) != nil {
				return
			}
			w.lines <- string(line)
		}
	}()
	w.end = sync.OnceFunc(func() {
		answer.Body.Close()
		<-ended
	})
	t.Cleanup(w.end)
	return w
}

// next returns the next line; on is false when the watch has ended.
func (w *watch) next(t testing.TB) (line string, on bool) {
	t.Helper()
	select {
	case line, on = <-w.lines:
		return line, on
	case <-time.After(patience):
		t.Fatalf("a watch said nothing for %v, not even that it is there", patience)
		return "", false
	}
}

// says reads on until a line contains these words, or the watch has ended.
func (w *watch) says(t testing.TB, words string) bool {
	t.Helper()
	for {
		line, on := w.next(t)
		if !on || strings.Contains(line, words) {
			return on
		}
	}
}

// until reads on until a line contains these words.
func (w *watch) until(t testing.TB, words string) {
	t.Helper()
	if !w.says(t, words) {
		t.Fatalf("the watch ended after %v, before it said %s", time.Since(w.begun).Round(time.Millisecond), words)
	}
}

// access returns an operator's configuration that knows only an Envoy.
func (s *site) access(p *proxy) sdk.Config {
	config := s.Config()
	config.Endpoints = []string{p.at("7480")}
	return config
}
