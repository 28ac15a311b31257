package replicas_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// racks is a manager and five replicators: r1 and r2 in rack1, r3 and r4 in rack2, and the store,
// which is on both. A router joins the racks, but does not pass multicast on.
type racks struct {
	*testing.T
	dir       string
	manager   *lab.Host
	serving   *lab.Process // on the manager
	store     *replicator
	replicas  []*replicator
	agent     *lab.Process
	uplinks   []lab.Way // of the store
	downlinks []lab.Way // to it
	rack2     *lab.LAN
	earlier   []string // hosts whose programs are of the version before
}

// replicator is a machine with a disk of its own, in memory.
type replicator struct {
	*lab.Host
	cable   *lab.Link
	disk    *lab.Disk
	process *lab.Process
	flags   []string
}

const (
	commands = "github.com/groupcast/groupcast/services/"
	grpcPort = 7400
	// patience is how long anything may take on a busy machine.
	patience = 90 * time.Second
)

// startRacks starts everything. The store's links to the racks may be shaped, and after those the replicas' links.
func startRacks(t *testing.T, shapes ...link.Shape) *racks {
	t.Helper()
	return startRacksOf(t, nil, shapes...)
}

// startRacksOf is startRacks with programs of the version before on some hosts.
func startRacksOf(t *testing.T, earlier []string, shapes ...link.Shape) *racks {
	t.Helper()
	l := labtest.New(t, 1)
	rack1, rack2, router := l.LAN("rack1"), l.LAN("rack2"), l.Router("router")
	r := &racks{T: t, dir: t.TempDir(), manager: l.Host("manager"), store: &replicator{Host: l.Host("store")}, rack2: rack2, earlier: earlier}
	l.Link(r.manager, rack1, link.Shape{})
	shapes = append(shapes, make([]link.Shape, 6)...)
	for i, lan := range []*lab.LAN{rack1, rack2} {
		cable := l.Link(r.store.Host, lan, shapes[i])
		r.uplinks, r.downlinks = append(r.uplinks, cable.From(r.store.Host)), append(r.downlinks, cable.From(lan))
		l.Link(router, lan, link.Shape{})
	}
	for i, host := range l.Hosts("r", 4) {
		cable := l.Link(host, []*lab.LAN{rack1, rack2}[i/2], shapes[2+i])
		r.replicas = append(r.replicas, &replicator{Host: host, cable: cable})
	}
	labtest.Start(t, l)
	t.Cleanup(r.log)
	r.startManager()
	r.start(r.store, "--lans=rack1=eth0,rack2=eth1", "--sources="+r.dir, "--labels=role=store")
	for i, replica := range r.replicas {
		r.start(replica, "--lans="+[]string{"rack1", "rack2"}[i/2]+"=eth0", "--labels=role=worker")
	}
	r.await("all replicators are online", func() bool { return strings.Count(r.run(0, "replicator", "list"), " online ") == 5 })
	return r
}

// traffic returns how many bytes have left the store.
func (r *racks) traffic() (sent link.Bytes) {
	for _, way := range r.uplinks {
		sent += way.Read().Count.Delivered.Bytes
	}
	return sent
}

// log shows what everybody said when the test has failed.
func (r *racks) log() {
	if !r.Failed() {
		return
	}
	r.Logf("the manager said:\n%s", r.serving.Output())
	if r.agent != nil {
		r.Logf("the agent said:\n%s", r.agent.Output())
	}
	for _, one := range append(r.replicas, r.store) {
		r.Logf("%s said:\n%s", one.Name(), one.Output())
	}
}

func (r *racks) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// program returns a command of the version that a host has.
func (r *racks) program(host *lab.Host, command string) string {
	r.Helper()
	if slices.Contains(r.earlier, host.Name()) {
		return testprocess.EarlierBinary(r, commands+command)
	}
	return testprocess.Binary(r, commands+command)
}

func (r *racks) access() string { return filepath.Join(r.dir, "admin.yaml") }

func (r *racks) startManager() {
	r.Helper()
	r.serving = r.manager.Command(r.program(r.manager, "manager/cmd/groupcast-manager"), "--grpc-listen=0.0.0.0:7400", "--address="+r.manager.At(grpcPort),
		"--admin-listen=", "--store-data-dir="+filepath.Join(r.dir, "store"), "--identity-ca-dir="+filepath.Join(r.dir, "ca"),
		"--admin-access-file="+r.access(), "--stop-wait=1s")
	r.must(r.serving.Start())
	r.await("the manager serves", func() bool { return r.command("status").Run() == nil })
}

// start enrolls a replicator and starts it, with a disk of its own to write to.
func (r *racks) start(one *replicator, flags ...string) {
	r.Helper()
	token := filepath.Join(r.dir, one.Name()+".token")
	said := r.run(0, "token", "create", one.Name(), "--role", "replicator")
	r.must(os.WriteFile(token, []byte(regexp.MustCompile(`gct1\S+`).FindString(said)), 0o600))
	var err error
	one.disk, err = one.Disk(256 << 20)
	r.must(err)
	one.flags = append([]string{
		"--managers=" + r.manager.At(grpcPort), "--credentials-dir=" + one.disk.Inside("credentials"), "--join-token-file=" + token,
		"--node=node-of-" + one.Name(), "--targets=" + one.disk.Inside("replicas"), "--state=" + one.disk.Inside("state"), "--admin-listen=",
	}, flags...)
	r.restart(one)
}

// startAgent starts a session agent beside a replicator.
func (r *racks) startAgent(one *replicator) {
	r.Helper()
	name := "agent-" + one.Name()
	token := filepath.Join(r.dir, name+".token")
	said := r.run(0, "token", "create", name, "--role", "agent")
	r.must(os.WriteFile(token, []byte(regexp.MustCompile(`gct1\S+`).FindString(said)), 0o600))
	r.agent = one.Command(r.program(one.Host, "agent/cmd/groupcast-agent"), "--managers="+r.manager.At(grpcPort),
		"--credentials-dir="+one.disk.Inside("agent"), "--join-token-file="+token, "--node=node-of-"+one.Name(),
		"--data-listen="+one.At(7411), "--admin-listen=", "--cache-dir="+one.disk.Inside("cache"))
	r.must(r.agent.Start())
	r.await("the agent is online", func() bool { return matches(r.run(0, "agent", "list"), name+" .* online") })
}

func (r *racks) restart(one *replicator) {
	r.Helper()
	one.process = one.Command(r.program(one.Host, "replicator/cmd/groupcast-replicator"), one.flags...)
	r.must(one.process.Start())
}

// allow restarts a replicator with an additional permission.
func (r *racks) allow(one *replicator, flag string) {
	r.Helper()
	r.must(one.process.Signal(syscall.SIGTERM))
	r.must(one.process.Wait())
	one.flags = append(one.flags, flag)
	r.restart(one)
	r.await(one.Name()+" is online again", func() bool { return matches(r.run(0, "replicator", "list"), one.Name()+" .* online ") })
}

// await waits until other programs have brought something about.
func (r *racks) await(what string, holds func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// command returns the groupcast command for the operator, who is on the manager's host.
func (r *racks) command(args ...string) *lab.Process {
	return r.manager.Command(r.program(r.manager, "cli/cmd/groupcast"), append([]string{"--config", r.access()}, args...)...)
}

// run runs the groupcast command, checks its exit status, and returns what it says.
func (r *racks) run(status int, args ...string) string {
	r.Helper()
	p := r.command(args...)
	r.must(p.Start())
	return r.wait(status, p)
}

// wait waits for a program, checks its exit status, and returns what it said.
func (r *racks) wait(status int, p *lab.Process) string {
	r.Helper()
	got, err, exit := 0, p.Wait(), new(exec.ExitError)
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != status || err != nil && got == 0 {
		r.Fatalf("%v, want exit status %d:\n%s", err, status, p.Output())
	}
	return p.Output()
}

// begin begins a replication to all workers that is slow enough to be disturbed.
func (r *racks) begin(source string, flags ...string) (p *lab.Process, id string) {
	r.Helper()
	p = r.command(append([]string{"replicate", "store:" + source, "--to", "/mnt/replicas", "--on", "role=worker", "--rate", "4MB"}, flags...)...)
	r.must(p.Start())
	r.await("the replication begins", func() bool {
		_, after, begun := strings.Cut(p.Output(), "replication watch ")
		id, _, _ = strings.Cut(after, "'")
		return begun
	})
	return p, id
}

// replication returns a replication as the manager knows it; without an id, the newest.
func (r *racks) replication(id string) *replicav1.Replication {
	r.Helper()
	found, args := new(replicav1.Replication), []string{"replication", "get", "-o", "json"}
	if id != "" {
		args = append(args, id)
	}
	r.must(protojson.Unmarshal([]byte(r.run(0, args...)), found))
	return found
}

// awaitReceiving waits until every replica has a part of the object.
func (r *racks) awaitReceiving(id string) {
	r.Helper()
	r.await("every replica has a part", func() bool {
		now := r.replication(id)
		least := now.GetLength()
		for _, replica := range now.GetReplicas() {
			least = min(least, replica.GetBytes())
		}
		return least > 0
	})
}

// file makes a file of random bytes that the store may send.
func (r *racks) file(name string, size int) string {
	r.Helper()
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte([]byte(name + strings.Repeat(" ", 32))[:32])).Read(content)
	path := filepath.Join(r.dir, name)
	r.must(os.MkdirAll(filepath.Dir(path), 0o750))
	r.must(os.WriteFile(path, content, 0o640))
	return path
}

// copyAt returns where a replica has what was replicated.
func copyAt(one *replicator, source string) string {
	return one.disk.Outside(filepath.Join("replicas", filepath.Base(source)))
}

// wantCopy checks that a replica has the source's files, and no others.
func (r *racks) wantCopy(one *replicator, source string) {
	r.Helper()
	labtest.WantCopy(r, source, copyAt(one, source))
}

func matches(text, pattern string) bool {
	return regexp.MustCompile("(?m)" + pattern).MatchString(text)
}
