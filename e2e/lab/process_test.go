package lab_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

func TestProgramRunsInItsHost(t *testing.T) {
	_, a, b := pair(t, 1, link.Shape{})
	p := a.Command("cat", "/proc/net/fib_trie")
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Output(), a.Addr().String()) || a.Output() != p.Output() || b.Output() != "" {
		t.Errorf("a wrote %q, b wrote %q", a.Output(), b.Output())
	}
}

func TestProgramsErrorNamesProgramAndHost(t *testing.T) {
	_, a, _ := pair(t, 1, link.Shape{})
	err := a.Command("false").Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || err.Error() != "false on a: exit status 1" {
		t.Errorf("error %v", err)
	}
	if err := a.Command("no-such-program").Run(); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

func TestStopContinueAndKill(t *testing.T) {
	_, a, _ := pair(t, 1, link.Shape{})
	p := a.Command("sleep", "1000")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		act  func() error
		want lab.State
	}{{p.Stop, lab.Stopped}, {p.Continue, 'S'}} {
		if err := step.act(); err != nil {
			t.Fatal(err)
		}
		awaitState(t, p, step.want)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("error %v", err)
	}
	if err := p.Stop(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop of a dead program: %v", err)
	}
}

func awaitState(t *testing.T, p *lab.Process, want lab.State) {
	t.Helper()
	var state lab.State
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		var err error
		if state, err = p.State(); err != nil {
			t.Fatal(err)
		}
		if state == want {
			return
		}
	}
	t.Errorf("process is in state %c, want %c", state, want)
}

func TestUsageTellsProcessorAndMemory(t *testing.T) {
	_, a, _ := pair(t, 1, link.Shape{})
	// The shell doubles a string to 32 MiB, then counts for a while.
	p := a.Command("sh", "-c", `x=0123456789abcdef0123456789abcdef
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do x=$x$x; done
i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	used := p.Usage()
	if used.PeakMemory < 32*link.MiB || used.PeakMemory > 512*link.MiB {
		t.Errorf("peak memory %d MiB", used.PeakMemory/link.MiB)
	}
	if used.Processor < 20*time.Millisecond || used.Processor > used.Took+time.Second/10 {
		t.Errorf("processor time %v in %v", used.Processor, used.Took)
	}
}

const runAsOwner = "LAB_TEST_OWNER"

// TestOwner is not a test of its own: the tests below run it as the process that owns a lab. It
// prints the process numbers of a program and of a daemon, and stays.
func TestOwner(t *testing.T) {
	manner := os.Getenv(runAsOwner)
	if manner == "" {
		return
	}
	l := labtest.New(t, 1)
	a, b := l.Host("a"), l.Host("b")
	l.Link(a, b, link.Shape{Delay: time.Millisecond})
	labtest.Start(t, l)
	p := a.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo daemon $!; exec sleep 1000")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for p.Output() == "" {
		<-time.After(time.Millisecond)
	}
	_, _ = os.Stdout.WriteString("program " + strconv.Itoa(p.Pid()) + "\n" + p.Output())
	if manner == "panic" {
		panic("as told")
	}
	<-time.After(time.Minute)
}

// startOwner runs TestOwner in a process of its own and returns it with the
// program and the daemon that it started.
func startOwner(t *testing.T, manner string) (owner *exec.Cmd, program, daemon int) {
	t.Helper()
	labtest.Require(t)
	owner = exec.Command(os.Args[0], "-test.run=^TestOwner$")
	owner.Env = append(os.Environ(), runAsOwner+"="+manner)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	program, daemon = readPid(t, lines, "program "), readPid(t, lines, "daemon ")
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return owner, program, daemon
}

func readPid(t *testing.T, lines *bufio.Reader, before string) int {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), before); ok {
			pid, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
}

func TestProgramsDieWithTheirOwner(t *testing.T) {
	for manner, end := range map[string]func(*exec.Cmd) error{
		"SIGINT":  func(owner *exec.Cmd) error { return owner.Process.Signal(syscall.SIGINT) },
		"SIGKILL": func(owner *exec.Cmd) error { return owner.Process.Kill() },
		"panic":   func(*exec.Cmd) error { return nil },
	} {
		t.Run(manner, func(t *testing.T) {
			owner, program, daemon := startOwner(t, manner)
			if err := end(owner); err != nil {
				t.Fatal(err)
			}
			if err := owner.Wait(); err == nil {
				t.Error("the owner ended well")
			}
			awaitGone(t, program)

			l := lab.New(1)
			l.Host("next")
			labtest.Start(t, l)
			awaitGone(t, daemon)
		})
	}
}

func TestStartSparesTheLivingLab(t *testing.T) {
	owner, program, daemon := startOwner(t, "stay")
	l := lab.New(1)
	l.Host("next")
	labtest.Start(t, l)
	for _, pid := range []int{program, daemon} {
		if err := syscall.Kill(pid, 0); err != nil {
			t.Errorf("process %d of a living lab: %v", pid, err)
		}
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	awaitGone(t, program)
	_ = syscall.Kill(daemon, syscall.SIGKILL)
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}
