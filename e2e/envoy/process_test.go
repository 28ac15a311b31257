package envoy_test

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// process is a running program.
type process struct {
	*exec.Cmd
	said  testprocess.Output
	ended chan struct{}
}

// run starts a program that is killed when the test ends.
func run(t testing.TB, program string, arguments ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(program, arguments...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = &p.said, &p.said
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended already
		<-p.ended
		if said := p.said.String(); t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), said[max(0, len(said)-8000):])
		}
	})
	return p
}

// wants checks that the program ends by itself, with this exit status.
func (p *process) wants(t testing.TB, status int) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%s runs on", filepath.Base(p.Path))
	}
	if got := p.ProcessState.ExitCode(); got != status {
		t.Errorf("%s ended with %d, want %d:\n%s", filepath.Base(p.Path), got, status, p.said.String())
	}
}
