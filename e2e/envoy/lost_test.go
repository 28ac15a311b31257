package envoy_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// taken reports whether a port accepts connections.
func taken(address string) bool {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

// "drain": existing connections go on, and new ones are sent elsewhere; until SIGTERM, which waits for nobody.
func (s *site) testDrain(t *testing.T) {
	p := s.front(t, settings{burst: plenty, perSecond: plenty})
	c := s.caller(t, p, certificate(t, s.ca, operator))
	w := c.watch(t, http.MethodGet, watchGroups, nil)
	if said := p.ask(http.MethodPost, "/drain_listeners?graceful"); said != "OK\n" {
		t.Fatal(said)
	}
	eventually(t, "the ports are closed", func() bool { return !taken(p.at("7481")) && !taken(p.at("7480")) })
	s.caller(t, s.proxy, certificate(t, s.ca, operator)).wants(t, http.MethodPost, groups, `{"name": "drained"}`)
	w.until(t, `"drained"`)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wants(t, 0)
	for on := true; on; {
		_, on = w.next(t)
	}
}

// "drain on SIGTERM", as a pod of the chart does it: what ends the pod waits for existing streams, and then nothing is left.
func (s *site) testStop(t *testing.T) {
	p := s.front(t, settings{burst: plenty, perSecond: plenty})
	c := s.caller(t, p, certificate(t, s.ca, operator))
	w := c.watch(t, http.MethodGet, watchGroups, nil)
	_, port, err := net.SplitHostPort(p.admin)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(string(read(t, filepath.Join(chartFiles, "drain.sh"))), "9901", port)
	before := run(t, "bash", "-c", script)
	eventually(t, "the ports are closed", func() bool { return !taken(p.at("7481")) && !taken(p.at("7480")) })
	s.caller(t, s.proxy, certificate(t, s.ca, operator)).wants(t, http.MethodPost, groups, `{"name": "stopped"}`)
	w.until(t, `"stopped"`)
	for time.Since(w.begun) < 8*time.Second { // longer than the script would wait if nobody were there
		if _, on := w.next(t); !on {
			t.Fatal("the watch has ended before its caller did")
		}
	}
	select {
	case <-before.ended:
		t.Errorf("nobody waits for the watch:\n%s", before.said.String())
	default:
	}
	w.end()
	c.CloseIdleConnections()
	before.wants(t, 0)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wants(t, 0)
}

// "deadlines", for a call that nobody answers.
func (s *site) testFrozen(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	c.list(t)
	for _, manager := range s.Managers {
		manager.Freeze(t)
	}
	code, said := c.call(t, http.MethodGet, groups, "", http.Header{"Grpc-Timeout": {"300m"}})
	for _, manager := range s.Managers {
		manager.Thaw(t)
	}
	if code != http.StatusGatewayTimeout {
		t.Errorf("frozen managers: %d %s, want %d", code, said, http.StatusGatewayTimeout)
	}
	eventually(t, "they are back", func() bool {
		code, _ := c.list(t)
		return code == http.StatusOK
	})
	s.Leader(t)
}

// What leads to a manager that hangs is ended, so that callers ask another manager.
func (s *site) testHangs(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	watches := make([]*watch, 12)
	for i := range watches {
		watches[i] = c.watch(t, http.MethodGet, watchGroups, nil)
		watches[i].next(t)
	}
	follower := s.Managers[0]
	if follower == s.Leader(t) {
		follower = s.Managers[1]
	}
	follower.Freeze(t)
	defer func() {
		follower.Thaw(t)
		s.proxy.awaitReady(t, len(s.Managers))
	}()
	eventually(t, "the watches that lead there have ended", func() bool {
		return strings.Contains(s.proxy.ask(http.MethodGet, "/clusters"), "managers::"+follower.Address+"::rq_active::0\n")
	})
	c.wants(t, http.MethodPost, groups, `{"name": "hangs"}`)
	ended := 0
	for _, w := range watches {
		if !w.says(t, `"hangs"`) {
			ended++
		}
	}
	if ended == 0 || ended == len(watches) {
		t.Errorf("%d of %d watches have ended, want those that led to one of two managers", ended, len(watches))
	}
}

// "backend killed": calls go on, and so do changes once another manager leads.
func (s *site) testKilled(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	client, err := sdk.Dial(s.access(s.proxy))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	both := func() (lost int) {
		for range 20 {
			if code, said := c.list(t); code != http.StatusOK {
				t.Logf("%d %s", code, said)
				lost++
			}
			if _, err := client.Groups(t.Context()); err != nil {
				t.Errorf("by the SDK: %v", err)
			}
		}
		return lost
	}
	if lost := both(); lost > 0 {
		t.Errorf("%d calls were lost while both managers are well", lost)
	}
	s.Leader(t).Kill()
	// What Envoy had already sent when the manager was killed is not sent again: it may have had an effect.
	if lost := both(); lost > 2 {
		t.Errorf("%d of 20 calls were lost with the manager", lost)
	}
	eventually(t, "the other one leads", func() bool {
		code, _ := c.call(t, http.MethodPost, groups, `{"name": "after", "requestId": "after"}`, nil)
		return code == http.StatusOK
	})
	if lost := both(); lost > 0 {
		t.Errorf("%d calls were lost long after the manager", lost)
	}
}

// The gatherer's control is passed through, and what its operators call also works as JSON; uploads do not go through Envoy.
func (s *site) testGatherer(t *testing.T) {
	dir := t.TempDir()
	text, _, err := s.Client(t).CreateToken(t.Context(), sdk.Token{Role: "gatherer", Name: "gatherer"})
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	write(t, token, []byte(text))
	grpc := testprocess.FreeAddress(t)
	run(t, testprocess.Binary(t, "github.com/groupcast/groupcast/services/gatherer/cmd/groupcast-gatherer"),
		"--managers="+s.Managers[0].Address, "--credentials-dir="+filepath.Join(dir, "credentials"), "--join-token-file="+token,
		"--grpc-listen="+grpc, "--data-listen="+testprocess.FreeAddress(t), "--admin-listen=", "--store-dir="+filepath.Join(dir, "gathered"),
		"--policy-file="+filepath.Join(dir, "policy.yaml"), "--stop-wait=1s")
	eventually(t, "the gatherer takes connections", func() bool { return taken(grpc) })
	p := s.front(t, settings{burst: plenty, perSecond: plenty, gatherer: grpc})
	name := filepath.Join(dir, "log")
	write(t, name, []byte("what was gathered\n"))
	groupcast(t, s.Managers[0].Access, "upload", name, "--to", p.at("7483"), "--as", "carl")
	got, err := os.ReadFile(filepath.Join(dir, "gathered", "carl", "log"))
	if err != nil || string(got) != "what was gathered\n" {
		t.Errorf("%q, %v", got, err)
	}
	s.testGatherersJSON(t, p)
}

func (s *site) testGatherersJSON(t *testing.T, p *proxy) {
	const policy, clients, service = "/v1/gathering/policy", "/v1/gathering/clients", "/groupcast.gather.v1.GatherService/"
	c := s.caller(t, p, certificate(t, s.ca, operator))
	eventually(t, "the gatherer is found well", func() bool {
		code, _ := c.call(t, http.MethodGet, clients, "", nil)
		return code == http.StatusOK
	})
	c.wants(t, http.MethodGet, clients, "", `"name":"carl"`, `"controller":"groupcast"`)
	c.wants(t, http.MethodPut, policy, `{"policy": {"rules": [{"clients": ["carl"], "share": {"priority": 7}}]}}`, `"revision"`)
	c.wants(t, http.MethodGet, policy, "", `"priority":7`)
	c.wants(t, http.MethodPost, service+"ListClients", "{}", `"name":"carl"`)
	w := c.watch(t, http.MethodGet, clients+":watch", nil)
	defer w.end()
	for range 3 { // of half a second each
		if line, on := w.next(t); !on || !strings.Contains(line, `"name":"carl"`) {
			t.Fatalf("a watch says %q", line)
		}
	}
	c.published(t, isGatherers)
	m := s.caller(t, p, certificate(t, s.ca, member))
	for path, by := range map[string]caller{service + "ListClients": m, service + "OpenUpload": c, service + "FinishUpload": m} {
		if code, said := by.call(t, http.MethodPost, path, "{}", nil); code != http.StatusForbidden || !strings.Contains(said, "DENIED") {
			t.Errorf("%s: %d %s", path, code, said)
		}
	}
}
