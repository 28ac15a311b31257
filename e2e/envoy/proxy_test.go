package envoy_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// The places of the chart's files and of Envoy.
const (
	chartFiles = "../../charts/groupcast/files"
	program    = "../../.bin/envoy-1.40.0"
)

// host is the name in Envoy's certificate.
const host = "envoy.test"

// proxy is a running Envoy with the chart's configuration, on an address of its own.
type proxy struct {
	address string // of its four listeners
	admin   string
	tls     string // the directory of its certificate
	*process
}

// settings are what the chart's values decide.
type settings struct {
	managers         []string
	gatherer         string
	burst, perSecond int
	atOnce           int // how many calls; 0 leaves that to the chart
	connections      int // likewise
	heap             int // in bytes; 0 means more than there is
}

// plenty is a rate that no test comes near.
const plenty = 100000

// start starts an Envoy that ends with the test.
func start(t testing.TB, ca *identity.CA, s settings) *proxy {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: `make envoy` fetches it", err)
	}
	p := &proxy{address: nextAddress(), admin: testprocess.FreeAddress(t)}
	dir := t.TempDir()
	p.tls = filepath.Join(dir, "tls")
	writeCredentials(t, ca, p.tls)
	p.configure(t, dir, s)
	p.process = run(t, program, "--config-path", filepath.Join(dir, "envoy.json"), "--concurrency", "2", "--log-level", "warning",
		"--drain-time-s", "2", "--disable-hot-restart")
	p.awaitReady(t, len(s.managers))
	return p
}

var addresses atomic.Uint32

// nextAddress returns an address on loopback that no other test uses, so that the chart's ports are free there.
func nextAddress() string {
	return fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255, addresses.Add(1))
}

func (p *proxy) at(port string) string { return net.JoinHostPort(p.address, port) }

// awaitReady waits until Envoy has found so many managers well.
func (p *proxy) awaitReady(t testing.TB, managers int) {
	t.Helper()
	eventually(t, "Envoy is ready and finds the managers well", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("Envoy ended:\n%s", p.said.String())
		default:
		}
		return strings.HasPrefix(p.ask(http.MethodGet, "/ready"), "LIVE") && p.well() == 2*managers // both where TLS is passed through and where it ends
	})
}

// well returns how many of the managers' addresses Envoy has found well.
func (p *proxy) well() (count int) {
	for line := range strings.Lines(p.ask(http.MethodGet, "/clusters")) {
		if strings.HasPrefix(line, "managers") && strings.HasSuffix(line, "::health_flags::healthy\n") {
			count++
		}
	}
	return count
}

// ask asks the admin interface.
func (p *proxy) ask(method, path string) string {
	request, err := http.NewRequest(method, "http://"+p.admin+path, http.NoBody)
	if err != nil {
		return err.Error()
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// writeCredentials writes what the managers write for a gateway, and as the kubelet does: with a single move, also when
// replacing.
func writeCredentials(t testing.TB, ca *identity.CA, dir string) {
	t.Helper()
	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Gateway, Name: "gateway"}, 1, host)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir, 0o700))
	version, err := os.MkdirTemp(dir, "..version-") //nolint:usetesting // it is a part of the directory
	must(err)
	for name, text := range map[string][]byte{"tls.crt": bundle.Certificate, "tls.key": bundle.Key, "ca.crt": bundle.Authorities} {
		write(t, filepath.Join(version, name), text)
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	must(os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")))
	must(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

func write(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// configure writes the chart's files, and replaces the stand-ins as the chart's template does.
func (p *proxy) configure(t testing.TB, dir string, s settings) {
	t.Helper()
	gatherer, gathererPort, _ := net.SplitHostPort(s.gatherer)
	_, adminPort, _ := net.SplitHostPort(p.admin)
	stand := strings.NewReplacer(
		`"/etc/envoy-tls`, `"`+p.tls, `"/etc/envoy`, `"`+dir,
		"trust-domain.invalid", sdk.DefaultTrustDomain, "gatherer.invalid", gatherer, "1000003", gathererPort,
		"1000000004", strconv.Itoa(cmp.Or(s.heap, 1<<40)), "1000001", strconv.Itoa(s.burst), "1000002", strconv.Itoa(s.perSecond),
		`"::"`, `"`+p.address+`"`, "9901", adminPort,
	)
	for _, name := range []string{"envoy.json", "own.json", "callers.json", "managers.json", "gatherer.json"} {
		text := []byte(stand.Replace(string(read(t, filepath.Join(chartFiles, name)))))
		if name == "envoy.json" {
			text = adjusted(t, text, s)
		}
		write(t, filepath.Join(dir, name), text)
	}
	for _, name := range []string{"groupcast.binpb", "openapi.yaml"} {
		write(t, filepath.Join(dir, name), read(t, filepath.Join(chartFiles, name)))
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// adjusted replaces a DNS name that has an address for each manager by the addresses, and removes what needs IPv6.
func adjusted(t testing.TB, text []byte, s settings) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	replaced := 0
	walk(tree, func(object map[string]any) {
		delete(object, "ipv4_compat")
		if _, limits := object["max_requests"]; limits && s.atOnce > 0 {
			object["max_requests"] = s.atOnce
		}
		if _, limits := object["max_active_downstream_connections"]; limits && s.connections > 0 {
			object["max_active_downstream_connections"] = s.connections
		}
		named, err := json.Marshal(object["lb_endpoints"])
		if err != nil || !strings.Contains(string(named), "managers.invalid") {
			return
		}
		replaced++
		var endpoints []any
		for _, manager := range s.managers {
			ip, port, _ := net.SplitHostPort(manager)
			number, _ := strconv.Atoi(port)
			at := map[string]any{"socket_address": map[string]any{"address": ip, "port_value": number}}
			endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{"address": at}})
		}
		object["lb_endpoints"] = endpoints
	})
	if replaced != 2 {
		t.Fatalf("%d clusters of managers, want what passes through and what ends", replaced)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// walk calls show with every object in a JSON document.
func walk(tree any, show func(map[string]any)) {
	switch node := tree.(type) {
	case map[string]any:
		show(node)
		for _, below := range node {
			walk(below, show)
		}
	case []any:
		for _, below := range node {
			walk(below, show)
		}
	}
}

// patience is how long something may take that takes a moment on an idle machine.
const patience = 60 * time.Second

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		case <-ticker.C:
		}
	}
}
