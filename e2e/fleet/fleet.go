// Package fleet runs our own commands on the network lab: a manager on a host of its own, and
// session agents and whatever else is started on others.
//
// Every host reaches the manager through a wire of its own that is not part of the network under
// test: only deliveries cross the emulated links.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// Port is where agents accept deliveries.
const Port = 7410

// controlAddress is where every host finds the manager.
const controlAddress = "127.0.0.1:7400"

const module = "github.com/groupcast/groupcast/"

// ManagerName is the name of the manager's process in results.
const ManagerName = "groupcast-manager"

// AgentName is the name of agents' processes in results.
const AgentName = "groupcast-agent"

// Fleet is a running manager and what was started with it.
type Fleet struct {
	// Client acts as an operator.
	Client *sdk.Client
	// Build returns the program for a command that is started from now on: today's, unless another function is set.
	Build func(importPath string) (binary string, err error)

	manager *lab.Host
	serving *lab.Process // on the manager
	wires   []*wire
	wired   map[*lab.Host]bool
	dir     string
}

// Start runs a manager on a host without links. Close has to be called even after an error.
func Start(ctx context.Context, manager *lab.Host) (*Fleet, error) {
	return StartWith(ctx, manager, testprocess.Build)
}

// StartWith is Start with programs from another build function.
func StartWith(ctx context.Context, manager *lab.Host, build func(importPath string) (binary string, err error)) (*Fleet, error) {
	f := &Fleet{Build: build, manager: manager, wired: map[*lab.Host]bool{}}
	var err error
	if f.dir, err = os.MkdirTemp(scratch(), "groupcast-fleet-"); err != nil {
		return f, err
	}
	if err := f.startManager(ctx); err != nil {
		return f, err
	}
	outside, err := f.outside(ctx)
	if err != nil {
		return f, err
	}
	f.Client, err = sdk.Open(outside)
	return f, err
}

func (f *Fleet) startManager(ctx context.Context) error {
	program, err := f.Build(module + "services/manager/cmd/groupcast-manager")
	if err != nil {
		return err
	}
	f.serving = f.manager.Command(program, "--grpc-listen", controlAddress, "--admin-listen", "", "--log-level", "warn", "--stop-wait", "1s",
		"--store-data-dir", filepath.Join(f.dir, "store"), "--identity-ca-dir", filepath.Join(f.dir, "ca"), "--admin-access-file", f.Access())
	f.serving.Name = ManagerName
	if err := f.serving.Start(); err != nil {
		return err
	}
	return await(ctx, f.serving, func() bool { return f.isServing(ctx) })
}

// isServing reports whether the manager accepts connections, and has said how to reach it.
func (f *Fleet) isServing(ctx context.Context) bool {
	connection, err := f.manager.Dial(ctx, "tcp4", controlAddress)
	if err != nil {
		return false
	}
	connection.Close()
	_, err = os.Stat(f.Access())
	return err == nil
}

// RestartManager stops the manager, and starts the program that Build now returns, with the same store.
func (f *Fleet) RestartManager(ctx context.Context) error {
	if err := f.serving.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := f.serving.Wait(); err != nil {
		return fmt.Errorf("%w; the manager wrote: %s", err, f.serving.Output())
	}
	return f.startManager(ctx)
}

// outside writes an operator's configuration for this process, which is not on any host.
func (f *Fleet) outside(ctx context.Context) (file string, err error) {
	w, err := lay(ctx, nil, f.manager, "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	f.wires = append(f.wires, w)
	text, err := os.ReadFile(f.Access())
	if err != nil {
		return "", err
	}
	file = filepath.Join(filepath.Dir(f.Access()), "outside.yaml")
	return file, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), controlAddress, w.address())), 0o600)
}

// scratch returns a directory in memory, so that the manager does not wait for a disk.
func scratch() string {
	const memory = "/dev/shm"
	if state, err := os.Stat(memory); err == nil && state.IsDir() {
		return memory
	}
	return os.TempDir()
}

// Access is an operator's configuration file that works on every host that is Reached.
func (f *Fleet) Access() string { return filepath.Join(f.dir, "admin.yaml") }

// Reach lets programs on a host reach the manager.
func (f *Fleet) Reach(ctx context.Context, host *lab.Host) error {
	if f.wired[host] {
		return nil
	}
	w, err := lay(ctx, host, f.manager, controlAddress)
	if err != nil {
		return fmt.Errorf("reach the manager from %s: %w", host.Name(), err)
	}
	f.wires, f.wired[host] = append(f.wires, w), true
	return nil
}

// Agent starts a session agent called after its host, with its cache below a directory,
// and waits until the manager knows it.
func (f *Fleet) Agent(ctx context.Context, host *lab.Host, zone, cache string, flags ...string) (*lab.Process, error) {
	name := strings.ToLower(host.Name())
	process, err := f.service(ctx, host, "agent", name, append([]string{
		"--node", host.Name(), "--zone", zone, "--data-listen", fmt.Sprintf("0.0.0.0:%d", Port), "--data-addresses", host.At(Port),
		"--cache-dir", filepath.Join(cache, "groupcast-cache"),
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	return process, await(ctx, process, func() bool { return f.isOnline(ctx, name) })
}

// service starts a service on a host, with a token for a role and a name.
func (f *Fleet) service(ctx context.Context, host *lab.Host, role, name string, flags ...string) (*lab.Process, error) {
	if err := f.Reach(ctx, host); err != nil {
		return nil, err
	}
	program, err := f.Build(module + "services/" + role + "/cmd/groupcast-" + role)
	if err != nil {
		return nil, err
	}
	token, _, err := f.Client.CreateToken(ctx, sdk.Token{Role: role, Name: name})
	if err != nil {
		return nil, err
	}
	own := filepath.Join(f.dir, name)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(own, "token"), []byte(token), 0o600); err != nil {
		return nil, err
	}
	process := host.Command(program, append([]string{
		"--managers", controlAddress, "--credentials-dir", filepath.Join(own, "credentials"), "--join-token-file", filepath.Join(own, "token"),
		"--admin-listen", "", "--log-level", "warn",
	}, flags...)...)
	process.Name = "groupcast-" + role
	return process, process.Start()
}

func (f *Fleet) isOnline(ctx context.Context, name string) bool {
	agents, err := f.Client.Agents(ctx)
	if err != nil {
		return false
	}
	for _, agent := range agents {
		if agent.Name == name && agent.State == "online" {
			return true
		}
	}
	return false
}

// Groupcast starts the groupcast command on a host, as an operator.
func (f *Fleet) Groupcast(ctx context.Context, host *lab.Host, arguments ...string) (*lab.Process, error) {
	process, err := f.Prepare(ctx, host, "services/cli/cmd/groupcast", arguments...)
	if err != nil {
		return nil, err
	}
	return process, process.Start()
}

// Prepare builds a command of this module, to be started on a host from where it can reach the manager, as GROUPCAST_CONFIG says.
func (f *Fleet) Prepare(ctx context.Context, host *lab.Host, pkg string, arguments ...string) (*lab.Process, error) {
	program, err := f.Build(module + pkg)
	if err != nil {
		return nil, err
	}
	if err := f.Reach(ctx, host); err != nil {
		return nil, err
	}
	process := host.Command(program, arguments...)
	process.Name, process.Dir = path.Base(pkg), "/"
	process.Env = []string{"GROUPCAST_CONFIG=" + f.Access()}
	return process, nil
}

// AwaitMembers waits until so many members have joined a group.
func (f *Fleet) AwaitMembers(ctx context.Context, group string, members int) error {
	for {
		there, err := f.Client.Members(ctx, group)
		if err == nil && len(there) >= members {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %d members of %s: %d are there: %w", members, group, len(there), errors.Join(err, ctx.Err()))
		}
		pause(ctx)
	}
}

// AwaitMeasured waits until every agent and some other have measured their distance, as agents do when they begin;
// with a single agent it returns at once.
func (f *Fleet) AwaitMeasured(ctx context.Context) error {
	for {
		agents, err := f.Client.Agents(ctx)
		alone := slices.ContainsFunc(agents, func(agent sdk.Agent) bool { return len(agent.RoundTrips) == 0 })
		if err == nil && (!alone || len(agents) == 1) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %d agents to be measured: %w", len(agents), errors.Join(err, ctx.Err()))
		}
		pause(ctx)
	}
}

// Close ends the wires and removes what was written. The lab ends the processes.
func (f *Fleet) Close() error {
	if f.Client != nil {
		_ = f.Client.Close()
	}
	for _, w := range f.wires {
		w.cut()
	}
	if f.dir == "" {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// patience bounds how long a process may take to serve.
const patience = 30 * time.Second

// await waits until a process serves.
func await(ctx context.Context, process *lab.Process, serves func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !serves() {
		select {
		case <-process.Ended():
			return fmt.Errorf("%s has ended: %w; it wrote: %s", process.Name, process.Wait(), process.Output())
		default:
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for %s: %w; it wrote: %s", process.Name, ctx.Err(), process.Output())
		}
		pause(ctx)
	}
	return nil
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}
