package managertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
)

// Process is a manager in a process of its own.
type Process struct {
	Dir     string
	Address string
	Access  string

	binary string
	args   []string
	cmd    *exec.Cmd
	output *testprocess.Output
	exited chan struct{}
}

// NewProcess prepares a manager that keeps everything below dir and takes a free
// port. Start starts it. Args are added to its command line.
func NewProcess(t testing.TB, dir string, args ...string) *Process {
	t.Helper()
	p := &Process{
		Dir: dir, Address: testprocess.FreeAddress(t), Access: filepath.Join(dir, "admin.yaml"),
		binary: testprocess.Binary(t, "github.com/groupcast/groupcast/services/manager/cmd/groupcast-manager"), output: new(testprocess.Output),
	}
	p.args = append([]string{
		"--grpc-listen=" + p.Address, "--admin-listen=", "--store-data-dir=" + filepath.Join(dir, "store"),
		"--identity-ca-dir=" + filepath.Join(dir, "ca"), "--admin-access-file=" + p.Access, "--stop-wait=1s",
	}, args...)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the manager of %s said:\n%s", dir, p.output)
		}
	})
	return p
}

// Start starts the process, again if it ran before.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start manager: %v", err)
	}
	p.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(p.cmd, p.exited)
}

// WaitServing waits until the process accepts connections.
func (p *Process) WaitServing(t testing.TB) {
	t.Helper()
	deadline := time.After(startTimeout)
	for {
		connection, err := net.Dial("tcp", p.Address)
		if err == nil {
			connection.Close()
			// An earlier process may have left its own.
			if access, err := uplink.ReadConfig(p.Access); err == nil && access.Endpoints[0] == p.Address {
				return
			}
		}
		select {
		case <-p.exited:
			t.Fatalf("the manager ended:\n%s", p.output)
		case <-deadline:
			t.Fatalf("the manager does not serve:\n%s", p.output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// WaitExit waits for the process to end, and returns its exit status.
func (p *Process) WaitExit(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("the manager runs on:\n%s", p.output)
		return 0
	}
}

// Said returns what the process wrote so far.
func (p *Process) Said() string { return p.output.String() }

// Signal sends the process a signal.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Freeze has the process hang, until Thaw is called.
func (p *Process) Freeze(t testing.TB) { testprocess.Freeze(t, p.cmd.Process) }

// Thaw lets it go on.
func (p *Process) Thaw(t testing.TB) { testprocess.Thaw(t, p.cmd.Process) }

// Kill ends the process at once, as a crash would.
func (p *Process) Kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.exited
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Client returns a client with an operator's identity, for this manager alone. It is closed with the test.
func (p *Process) Client(t testing.TB) *sdk.Client {
	t.Helper()
	return Client(t, p.Access)
}
