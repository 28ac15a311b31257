package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program on a host. Fill in what is needed, Start it, and Wait.
type Process struct {
	Name  string // by which results call it; the program's if empty
	Dir   string
	Env   []string // added to the environment of this process
	Stdin io.Reader

	host   *Host
	cmd    *exec.Cmd
	output capture
	ended  chan struct{}
	err    error
	watch  *memoryWatch
	began  time.Time
	took   time.Duration
}

// Command prepares a program to be run on this host.
func (h *Host) Command(program string, arguments ...string) *Process {
	return &Process{Name: program, host: h, cmd: exec.Command(program, arguments...), ended: make(chan struct{})}
}

// Start runs the program. It ends with the lab at the latest, and the kernel kills it if this process dies.
func (p *Process) Start() error {
	if p.host.space == nil {
		return fmt.Errorf("start %s: host %s is not running", p.Name, p.host.name)
	}
	both := io.MultiWriter(&p.output, &p.host.output)
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.Dir, p.Stdin, both, both
	p.cmd.Env = append(append(os.Environ(), p.Env...), ownerVariable+"="+owner())
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second // a grandchild that holds the output does not hold us
	if err := p.host.space.do(p.cmd.Start); err != nil {
		return fmt.Errorf("start %s on %s: %w", p.Name, p.host.name, err)
	}
	p.began = time.Now()
	p.watch = watchMemory(p.cmd.Process.Pid)
	p.host.lab.remember(p)
	go p.reap()
	return nil
}

func (p *Process) reap() {
	err := p.cmd.Wait()
	p.took = time.Since(p.began)
	p.watch.stop()
	if err != nil {
		p.err = fmt.Errorf("%s on %s: %w", p.Name, p.host.name, err)
	}
	close(p.ended)
}

// Wait returns when the program has ended.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Run starts the program and waits for it.
func (p *Process) Run() error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.Wait()
}

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Output is what the program has written, on both its outputs.
func (p *Process) Output() string { return p.output.String() }

// Output is what all programs on this host have written.
func (h *Host) Output() string { return h.output.String() }

// Pid is the process number of a started program.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal to the program and what it started.
func (p *Process) Signal(signal syscall.Signal) error {
	select {
	case <-p.ended:
		return fmt.Errorf("signal %s: %w", p.Name, os.ErrProcessDone)
	default:
	}
	if err := unix.Kill(-p.Pid(), signal); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Kill ends the program without a chance to clean up, and waits until it has.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// Stop freezes the program. Continue lets it go on.
func (p *Process) Stop() error { return p.Signal(syscall.SIGSTOP) }

// Continue ends Stop.
func (p *Process) Continue() error { return p.Signal(syscall.SIGCONT) }

// State is what the kernel says a process does: R, S, D, Z and so on.
type State byte

// Stopped is the state of a frozen process.
const Stopped State = 'T'

// State tells what the program's first process does now.
func (p *Process) State() (State, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		return 0, fmt.Errorf("state of %s: %w", p.Name, err)
	}
	_, fields, ok := bytes.Cut(stat, []byte(") "))
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("state of %s: %q is not understood", p.Name, stat)
	}
	return State(fields[0]), nil
}

func (l *Lab) remember(p *Process) {
	l.guard.Lock()
	defer l.guard.Unlock()
	l.processes = append(l.processes, p)
}

// endProcesses kills what still runs, including what the programs started.
func (l *Lab) endProcesses() {
	l.guard.Lock()
	processes := l.processes
	l.guard.Unlock()
	var group sync.WaitGroup
	for _, p := range processes {
		group.Go(func() { _ = p.Kill() })
	}
	group.Wait()
	for _, h := range l.hosts {
		if h.space != nil {
			killInside(h.space)
		}
	}
}

// EndPrograms kills what still runs, so that every program has a Usage.
func (l *Lab) EndPrograms() { l.endProcesses() }
