package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// Topology says what machines there are, all of them on one LAN.
type Topology struct {
	// Agents is how many agents there are: agent-a on node a in zone a, agent-b, and so on.
	// The sender is on node a.
	Agents int
	// Members are the nodes of the members m1, m2 and so on, one letter each.
	Members string
	// Late are the nodes of further members that are not started at the beginning: Restart starts them.
	Late string
	// Policy holds flags for the group.
	Policy []string
	// Cables are the cables to be changed or limited, by machine; others are perfect.
	Cables map[string]link.Shape
	// Flags are additional flags of an agent, by machine.
	Flags map[string][]string
	// Disks are small disks for an agent's cache, or for what a member receives. Otherwise the disks of
	// the manager and of members are large, and in memory: so it makes no difference how busy the
	// machine's own disk is.
	Disks map[string]link.Bytes
	// SlowDisks are the machines whose disk can be slowed down.
	SlowDisks []string
}

// Machine is a host and the program on it.
type Machine struct {
	*lab.Host
	Cable   *lab.Link
	Disk    *lab.Disk // nil if it has none
	Process *lab.Process

	name    string
	node    string
	dir     string // for what it keeps
	command func() *lab.Process
}

// Net is a running group.
type Net struct {
	testing.TB
	Lab      *lab.Lab
	Manager  *Machine
	Sender   *Machine
	Agents   []*Machine
	Members  []*Machine // including the late ones
	intruder *Machine   // a machine that takes no part in anything
	machines map[string]*Machine
	topology Topology
	dir      string
	lan      *lab.LAN
	objects  map[string][]Object // by name
	lossy    map[string]bool     // names of streams in datagrams: no member need have all of one
	liars    map[string]bool     // machines that do not say what their links carried
	killed   map[death]bool      // machines that do not say everything in a delivery
	limited  map[string]controlGroup
	pushes   []*Push
}

const (
	group     = "g"
	grpcPort  = 7400
	dataPort  = 7410
	adminPort = 7411
)

// commands is where the programs are.
const commands = "github.com/groupcast/groupcast/services/"

// Start starts a group, and waits until every agent is ready and every member has joined. The group
// ends with the test, which fails unless what must always hold does.
func Start(t testing.TB, topology Topology) *Net {
	t.Helper()
	began := time.Now()
	n := &Net{
		TB: t, Lab: labtest.New(t, 1), topology: topology, dir: t.TempDir(),
		machines: make(map[string]*Machine), objects: make(map[string][]Object), lossy: make(map[string]bool), liars: make(map[string]bool), killed: make(map[death]bool), limited: make(map[string]controlGroup),
	}
	n.declare()
	labtest.Start(t, n.Lab)
	t.Cleanup(n.check)
	n.mountDisks()
	n.startManager()
	n.begin()
	n.AwaitReady()
	t.Logf("started in %v", time.Since(began).Round(time.Millisecond))
	return n
}

func (n *Net) mountDisks() {
	n.Helper()
	sizes := make(map[string]link.Bytes)
	for _, m := range append(n.Members, n.Manager) {
		sizes[m.name] = 1 << 30
	}
	for _, name := range n.topology.SlowDisks {
		sizes[name] = 1 << 30
	}
	maps.Copy(sizes, n.topology.Disks)
	for name, size := range sizes {
		mount := n.machines[name].Host.Disk
		if slices.Contains(n.topology.SlowDisks, name) {
			mount = n.machines[name].SlowableDisk
		}
		disk, err := mount(size)
		n.must(err)
		n.machines[name].Disk = disk
	}
}

// declare makes the machines.
func (n *Net) declare() {
	n.lan = n.Lab.LAN("lan")
	n.Manager, n.Sender = n.machine("manager", ""), n.machine("sender", "a")
	n.intruder = n.machine("intruder", "")
	for i := range n.topology.Agents {
		letter := string(rune('a' + i))
		n.Agents = append(n.Agents, n.machine("agent-"+letter, letter))
	}
	for i, node := range n.topology.Members + n.topology.Late {
		n.Members = append(n.Members, n.machine(fmt.Sprintf("m%d", i+1), string(node)))
	}
}

func (n *Net) machine(name, node string) *Machine {
	m := &Machine{Host: n.Lab.Host(name), name: name, node: node, dir: filepath.Join(n.dir, name)}
	shape, shaped := n.topology.Cables[name]
	m.Cable = n.Lab.Link(m.Host, n.lan, shape)
	if shaped {
		m.Cable.Emulated()
	}
	n.must(os.Mkdir(m.dir, 0o700))
	n.machines[name] = m
	return m
}

// Machine returns the machine of a name.
func (n *Net) Machine(name string) *Machine {
	n.Helper()
	m := n.machines[name]
	if m == nil {
		n.Fatalf("there is no machine %s", name)
	}
	return m
}

func (n *Net) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *Net) startManager() {
	n.Helper()
	binary := testprocess.Binary(n, commands+"manager/cmd/groupcast-manager")
	m := n.Manager
	m.command = func() *lab.Process {
		return m.Command(binary, "--grpc-listen="+m.At(grpcPort), "--address="+m.At(grpcPort), "--admin-listen=", "--store-data-dir="+n.place(m, "store"),
			"--identity-ca-dir="+filepath.Join(m.dir, "ca"), "--admin-access-file="+n.access(), "--stop-wait=1s")
	}
	n.Restart("manager")
	n.Await("the manager serves", func() bool {
		_, err := n.call(m, n.access(), "status")
		return err == nil
	})
	n.run(m, append([]string{"group", "create", group}, n.topology.Policy...)...)
}

func (n *Net) access() string { return filepath.Join(n.Manager.dir, "admin.yaml") }

// begin gives every machine an identity, and starts the agents and the receivers.
func (n *Net) begin() {
	n.Helper()
	var all sync.WaitGroup
	failed := make(chan error, len(n.machines))
	for _, m := range slices.Concat(n.Agents, n.Members, []*Machine{n.Sender}) {
		all.Go(func() { failed <- n.enroll(m) })
	}
	all.Wait()
	for range len(n.Agents) + len(n.Members) + 1 {
		n.must(<-failed)
	}
	agent := testprocess.Binary(n, commands+"agent/cmd/groupcast-agent")
	for _, m := range n.Agents {
		flags := slices.Concat([]string{
			"--managers=" + n.Manager.At(grpcPort), "--credentials-dir=" + filepath.Join(m.dir, "credentials"), "--join-token-file=" + filepath.Join(m.dir, "token"),
			"--node=" + m.node, "--zone=" + m.node, "--data-listen=" + m.At(dataPort), fmt.Sprintf("--admin-listen=127.0.0.1:%d", adminPort),
			"--cache-dir=" + n.place(m, "cache"), "--stop-wait=1s", "--log-level=debug",
		}, n.topology.Flags[m.name])
		m.command = func() *lab.Process { return m.Command(agent, flags...) }
		n.Restart(m.name)
	}
	for _, m := range n.Members {
		m.command = func() *lab.Process { return n.pull(m) }
	}
	for _, m := range n.Members[:len(n.topology.Members)] {
		n.Restart(m.name)
	}
}

// place is where a machine keeps something, in the machine's own terms.
func (n *Net) place(m *Machine, name string) string {
	if m.Disk != nil {
		return m.Disk.Inside(name)
	}
	return filepath.Join(m.dir, name)
}

// enroll gives a machine its identity; an agent gets a token, which it exchanges itself.
func (n *Net) enroll(m *Machine) error {
	isAgent := strings.HasPrefix(m.name, "agent-")
	create := []string{"token", "create", m.name, "--group", group}
	if isAgent {
		create = []string{"token", "create", m.name, "--role", "agent"}
	}
	token, err := n.call(n.Manager, n.access(), create...)
	switch {
	case err != nil:
		return err
	case isAgent:
		return os.WriteFile(filepath.Join(m.dir, "token"), token, 0o600)
	}
	_, err = n.call(m, m.config(), "enroll", "--endpoint", n.Manager.At(grpcPort), "--token", strings.TrimSpace(string(token)))
	return err
}

func (m *Machine) config() string { return filepath.Join(m.dir, "config.yaml") }

// Into is where a member's objects appear, in the test's terms.
func (m *Machine) Into() string {
	if m.Disk != nil {
		return m.Disk.Outside("into")
	}
	return filepath.Join(m.dir, "into")
}

func (n *Net) pull(m *Machine) *lab.Process {
	return n.groupcast(m, m.config(), "pull", "--debug", "--group", group, "--as", m.name, "--node", m.node, "--into", n.place(m, "into"))
}

// Restart starts a machine's program, even if it ran before.
func (n *Net) Restart(name string) {
	n.Helper()
	m := n.Machine(name)
	m.Process = m.command()
	n.must(m.Process.Start())
}

// AwaitReady waits until every agent is ready and every member has joined.
func (n *Net) AwaitReady() {
	n.Helper()
	for _, m := range n.Agents {
		n.Await(m.name+" is ready", func() bool {
			_, err := n.get(m, "/readyz")
			return err == nil
		})
	}
	for _, m := range n.Members {
		n.Await(m.name+" has joined", func() bool { return m.Process == nil || strings.Contains(m.Process.Output(), "joined "+group) })
	}
}

// groupcast returns the groupcast command, to be run on a machine.
func (n *Net) groupcast(m *Machine, config string, args ...string) *lab.Process {
	return m.Command(testprocess.Binary(n, commands+"cli/cmd/groupcast"), append([]string{"--config", config}, args...)...)
}

// Context returns a context that ends with the test.
func (n *Net) Context() context.Context { return n.TB.Context() }
