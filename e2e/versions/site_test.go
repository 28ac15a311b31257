package versions_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/fleet"
	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}

// version says which programs are started.
type version struct {
	name  string
	build func(importPath string) (binary string, err error)
}

var (
	earlier  = version{"earlier", testprocess.BuildEarlier}
	today    = version{"today", testprocess.Build}
	versions = []version{earlier, today}
)

// patience is how long a test may take on a busy machine.
const patience = 3 * time.Minute

// site is a manager, and hosts on one LAN.
type site struct {
	*testing.T
	*fleet.Fleet
	ctx   context.Context
	hosts map[string]*lab.Host
	dir   string
}

// begin starts a manager of a version, but no other program.
func begin(t *testing.T, manager version, hosts ...string) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	l := labtest.New(t, 1)
	s := &site{T: t, ctx: ctx, hosts: make(map[string]*lab.Host), dir: t.TempDir()}
	beside, lan := l.Host("manager"), l.LAN("lan")
	for _, name := range hosts {
		s.hosts[name] = l.Host(name)
		l.Link(s.hosts[name], lan, link.Shape{})
	}
	labtest.Start(t, l)
	var err error
	s.Fleet, err = fleet.StartWith(ctx, beside, manager.build)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.must(err)
	_, err = s.Client.CreateGroup(ctx, "group", sdk.Policy{})
	s.must(err)
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// agent starts an agent of a version on a host, which is a zone of its own.
func (s *site) agent(v version, host string) *lab.Process {
	s.Helper()
	s.Build = v.build
	process, err := s.Agent(s.ctx, s.hosts[host], host, filepath.Join(s.dir, "cache-"+host))
	s.must(err)
	return process
}

// members starts one member of each version on each host, and returns where they receive.
func (s *site) members(hosts ...string) (into []string) {
	s.Helper()
	for _, host := range hosts {
		for _, v := range versions {
			name := v.name + "-on-" + host
			into = append(into, filepath.Join(s.dir, name))
			s.start(v, host, "pull", "--group", "group", "--as", name, "--node", s.hosts[host].Name(), "--into", into[len(into)-1])
		}
	}
	s.must(s.AwaitMembers(s.ctx, "group", len(into)))
	return into
}

// start starts a command of a version on a host.
func (s *site) start(v version, host string, arguments ...string) *lab.Process {
	s.Helper()
	s.Build = v.build
	process, err := s.Groupcast(s.ctx, s.hosts[host], arguments...)
	s.must(err)
	return process
}

// run runs a command of a version on a host, which has to succeed, and returns what it says.
func (s *site) run(v version, host string, arguments ...string) string {
	s.Helper()
	return s.succeed(s.start(v, host, arguments...))
}

// succeed waits for a command, which has to succeed, and returns what it says.
func (s *site) succeed(process *lab.Process) string {
	s.Helper()
	if err := process.Wait(); err != nil {
		s.Fatalf("%v: %s", err, process.Output())
	}
	return process.Output()
}

// await waits until something holds.
func (s *site) await(what string, holds func() bool) {
	s.Helper()
	for !holds() {
		if s.ctx.Err() != nil {
			s.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// file makes a file of random bytes.
func (s *site) file(name string, size int) string {
	s.Helper()
	content := make([]byte, size)
	_, _ = rand.Read(content)
	path := filepath.Join(s.dir, name)
	s.must(os.MkdirAll(filepath.Dir(path), 0o750))
	s.must(os.WriteFile(path, content, 0o640))
	return path
}
