package gather_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk/gather"
)

// patience is how long something may take that takes a moment on an idle machine.
const patience = 60 * time.Second

// site is a manager and a gatherer.
type site struct {
	testing.TB
	dir      string
	manager  string // its address
	grpc     string // the gatherer's addresses
	data     string
	admin    string
	store    string // what was gathered
	flags    []string
	gatherer *process
	leader   *process // the manager
}

// process is a running program.
type process struct {
	*exec.Cmd
	said  testprocess.Output
	ended chan struct{}
}

const commands = "github.com/groupcast/groupcast/services/"

// start starts a manager, and a gatherer with further flags. They end with the test.
func start(t testing.TB, flags ...string) *site {
	t.Helper()
	dir := memory(t)
	s := &site{
		TB: t, dir: dir, manager: testprocess.FreeAddress(t), grpc: testprocess.FreeAddress(t), data: testprocess.FreeAddress(t),
		admin: testprocess.FreeAddress(t), store: filepath.Join(dir, "gathered"), flags: flags,
	}
	s.startManager()
	token, err := s.command("token", "create", "gatherer", "--role", "gatherer").Output()
	s.must(err)
	s.must(os.WriteFile(s.place("token"), token, 0o600))
	s.startGatherer()
	return s
}

// startManager starts the manager, or starts it again after it was killed.
func (s *site) startManager() {
	s.Helper()
	s.leader = s.run("manager/cmd/groupcast-manager", "--grpc-listen="+s.manager, "--address="+s.manager, "--admin-listen=", "--store-data-dir="+s.place("store"),
		"--identity-ca-dir="+s.place("ca"), "--admin-access-file="+s.access(), "--stop-wait=1s")
	s.await("the manager serves", func() bool { return s.command("status").Run() == nil })
}

// memory returns a directory in memory, so that it does not matter how busy the disk is.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "groupcast-gather-") //nolint:usetesting // the test framework chooses the disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *site) place(name string) string { return filepath.Join(s.dir, name) }
func (s *site) access() string           { return s.place("admin.yaml") }

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			s.Log(string(exit.Stderr))
		}
		s.Fatal(err)
	}
}

// startGatherer starts the gatherer, or starts it again after it was killed.
func (s *site) startGatherer() {
	s.Helper()
	s.gatherer = s.run("gatherer/cmd/groupcast-gatherer", append([]string{
		"--managers=" + s.manager, "--credentials-dir=" + s.place("credentials"), "--join-token-file=" + s.place("token"),
		"--grpc-listen=" + s.grpc, "--data-listen=" + s.data, "--admin-listen=" + s.admin, "--store-dir=" + s.store,
		"--policy-file=" + s.place("policy.yaml"), "--stop-wait=1s", "--log-level=debug",
	}, s.flags...)...)
	s.await("the gatherer serves", func() bool { return s.command("gather", "clients", "--to", s.grpc).Run() == nil })
}

// run starts a program that is killed when the test ends.
func (s *site) run(importPath string, flags ...string) *process {
	s.Helper()
	return s.begin(exec.Command(testprocess.Binary(s, commands+importPath), flags...))
}

func (s *site) begin(command *exec.Cmd) *process {
	s.Helper()
	p := &process{Cmd: command, ended: make(chan struct{})}
	p.Stdout, p.Stderr = &p.said, &p.said
	s.must(p.Start())
	go func() {
		defer close(p.ended)
		_ = p.Wait() // status reads it
	}()
	s.Cleanup(func() {
		p.kill()
		if said := p.said.String(); strings.Contains(said, "panic: ") || strings.Contains(said, "DATA RACE") || s.Failed() {
			s.Errorf("%s said:\n%s", filepath.Base(p.Path), said[max(0, len(said)-6000):])
		}
	})
	return p
}

// kill kills the program, and returns when it has ended.
func (p *process) kill() {
	_ = p.Process.Kill() // it may have ended already
	<-p.ended
}

// end interrupts the program, and returns its exit status.
func (p *process) end() int {
	_ = p.Process.Signal(os.Interrupt) // it may have ended already
	return p.status()
}

// status waits until the program has ended and returns its exit status, or -1 if it does not end.
func (p *process) status() int {
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(patience):
		return -1
	}
}

// command returns the groupcast command, with an operator's access.
func (s *site) command(arguments ...string) *exec.Cmd {
	s.Helper()
	command := exec.Command(testprocess.Binary(s, commands+"cli/cmd/groupcast"), arguments...)
	command.Env = append(os.Environ(), "GROUPCAST_CONFIG="+s.access(), "HOME="+s.dir, "XDG_STATE_HOME=")
	return command
}

// upload uploads by the command, as a client.
func (s *site) upload(as string, arguments ...string) *process {
	s.Helper()
	return s.begin(s.command(append([]string{"upload", "--to", s.grpc, "--as", as}, arguments...)...))
}

// client returns a client in this process.
func (s *site) client(as string) *gather.Client {
	s.Helper()
	client, err := gather.Open(s.Context(), s.access(), s.grpc, gather.Options{As: as})
	s.must(err)
	s.Cleanup(func() { client.Close() })
	return client
}

// policy sets the policy.
func (s *site) policy(text string) {
	s.Helper()
	command := s.command("gather", "policy", "set", "-", "--to", s.grpc)
	command.Stdin = strings.NewReader(text)
	if said, err := command.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, said)
	}
}

// await waits until something holds.
func (s *site) await(what string, holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			s.Fatalf("not within %v: %s", patience, what)
		case <-ticker.C:
		}
	}
}

// pause lets programs run for a while before something is done to them.
func pause(d time.Duration) { <-time.After(d) }

// status returns how a client stands.
func (s *site) status(name string) *gatherv1.Client {
	s.Helper()
	for _, one := range s.clients() {
		if one.GetName() == name {
			return one
		}
	}
	return nil
}

// clients returns how all clients stand.
func (s *site) clients() []*gatherv1.Client {
	s.Helper()
	text, err := s.command("gather", "clients", "--to", s.grpc, "-o", "json").Output()
	s.must(err)
	var all gatherv1.ListClientsResponse
	s.must(protojson.Unmarshal(fmt.Appendf(nil, `{"clients": %s}`, text), &all))
	return all.GetClients()
}

// metric returns the sum of a metric's samples.
func (s *site) metric(name string) (sum float64) {
	s.Helper()
	answer, err := http.Get("http://" + s.admin + "/metrics") //nolint:noctx // on loopback
	s.must(err)
	defer answer.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(answer.Body)
	s.must(err)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && strings.SplitN(fields[0], "{", 2)[0] == name {
			value, err := strconv.ParseFloat(fields[1], 64)
			s.must(err)
			sum += value
		}
	}
	return sum
}

// descriptors returns how many files the gatherer has open.
func (s *site) descriptors() int {
	s.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.gatherer.Process.Pid))
	s.must(err)
	return len(entries)
}

// stored returns the content of the segments of a client's stream.
func (s *site) stored(client, path string) (content []byte) {
	s.Helper()
	dir := filepath.Join(s.store, client, path+".stream")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s.must(err)
	for _, entry := range entries {
		if entry.Name() == "committed" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		s.must(err)
		content = append(content, text...)
	}
	return content
}

// random returns bytes that are always the same for a seed.
func random(seed uint64, size int) []byte {
	content := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = source.Read(content) // it never fails
	return content
}

// file writes a file with random bytes.
func (s *site) file(name string, seed uint64, size int) (path string, content []byte) {
	s.Helper()
	path, content = s.place(name), random(seed, size)
	s.must(os.MkdirAll(filepath.Dir(path), 0o700))
	s.must(os.WriteFile(path, content, 0o600))
	return path, content
}

// wantFile checks that a client's file is there, complete.
func (s *site) wantFile(client, path string, content []byte) {
	s.Helper()
	got, err := os.ReadFile(filepath.Join(s.store, client, path))
	if err != nil || !bytes.Equal(got, content) {
		s.Errorf("%s of %s: %v, %d bytes, want the %d that were uploaded", path, client, err, len(got), len(content))
	}
}
