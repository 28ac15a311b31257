// Package testprocess helps tests and experiments that run real programs: it builds them once,
// keeps what they say, and finds ports for them.
package testprocess

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Binary is Build for a test.
func Binary(t testing.TB, importPath string) string {
	t.Helper()
	binary, err := Build(importPath)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Build builds a command of this module or of a module that it depends on, once per
// process, and returns the program's file, which is there until Remove. What Prepare has built is taken as it is.
func Build(importPath string) (binary string, err error) {
	if dir := os.Getenv(Prepared); dir != "" {
		return prepared(built(filepath.Join(dir, part(importPath)), importPath))
	}
	return once(importPath, func(dir string) (string, error) { return built(dir, importPath), build("", dir, importPath) })
}

// once makes a file in a directory of its own, once per process.
func once(what string, produce func(dir string) (file string, err error)) (file string, err error) {
	made, _ := files.LoadOrStore(what, sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "groupcast-test-")
		if err != nil {
			return "", err
		}
		return produce(dir)
	}))
	return made.(func() (string, error))()
}

var files sync.Map // from what a file is to a func() (string, error)

// build builds commands of the module in the directory sources; "" is the present one. They know nothing of a commit, so
// that they are the same while their sources are.
func build(sources, to string, packages ...string) error {
	command := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", to + "/"}, packages...)...)
	command.Dir, command.Env = sources, append(os.Environ(), "CGO_ENABLED=0") // as users build it
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", packages, err, text)
	}
	return nil
}

// built returns the file that a command is in once it is built.
func built(dir, importPath string) string {
	name := path.Base(importPath)
	if version.MatchString(name) { // a module's major version is not the name of what it builds
		name = path.Base(path.Dir(importPath))
	}
	return filepath.Join(dir, name)
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// Exit ends a package's TestMain: what was built is removed.
func Exit(status int) {
	Remove()
	os.Exit(status)
}

// Remove removes what was built.
func Remove() {
	files.Range(func(_, made any) bool {
		if file, err := made.(func() (string, error))(); err == nil {
			os.RemoveAll(filepath.Dir(file))
		}
		return true
	})
}

// Freeze stops a process, and waits until none of its threads runs: some do for a moment after the signal.
func Freeze(t testing.TB, process *os.Process) {
	t.Helper()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !frozen(t, process); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d does not stop", process.Pid)
		}
	}
}

// frozen reports whether all threads of a process are stopped.
func frozen(t testing.TB, process *os.Process) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of process %d: %v %v", process.Pid, threads, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false
		}
		// The state comes after the name in parentheses, which may itself contain parentheses.
		if rest := stat[bytes.LastIndexByte(stat, ')')+1:]; !bytes.HasPrefix(rest, []byte(" T ")) {
			return false
		}
	}
	return true
}

// Thaw ends Freeze.
func Thaw(t testing.TB, process *os.Process) {
	t.Helper()
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// Output keeps what a program says, readable while it runs.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write keeps further output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
