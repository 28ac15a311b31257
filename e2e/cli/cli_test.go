// Package cli tests the commands as a user sees them: the scripts in testdata run
// the real programs, with a server of their own.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/cli"
	"github.com/groupcast/groupcast/services/replicator"
	"github.com/groupcast/groupcast/services/standalone"
)

func TestMain(m *testing.M) {
	groupcast := func() { os.Exit(cli.Main(os.Args, os.Stdout, os.Stderr)) }
	testscript.Main(m, map[string]func(){
		"groupcast":            groupcast,
		"kubectl-groupcast":    groupcast,
		"groupcast-standalone": func() { daemon.Main("standalone", standalone.Defaults(), standalone.Run) },
		"groupcast-replicator": func() { daemon.Main("replicator", replicator.Defaults(), replicator.Run) },
	})
}

func TestScripts(t *testing.T) {
	project, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("GROUPCAST_CONFIG", "")
			env.Setenv("PROJECT", project)
			env.Setenv("XDG_CONFIG_HOME", "")
			env.Setenv("GROUPCAST_AGENTS_LISTEN", "127.0.0.1:0") // scripts run in parallel
			env.Setenv("GROUPCAST_GATHERER_ENABLED", "false")
			env.Setenv("GROUPCAST_GATHERER_DATA_LISTEN", "127.0.0.1:0")
			env.Values[runningKey{}] = make(map[string]*program)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"start":     start,
			"await":     await,
			"ends":      ends,
			"interrupt": interrupt,
			"freeze":    func(ts *testscript.TestScript, neg bool, args []string) { signal(ts, neg, args, syscall.SIGSTOP) },
			"thaw":      func(ts *testscript.TestScript, neg bool, args []string) { signal(ts, neg, args, syscall.SIGCONT) },
			"endpoint":  endpoint,
			"address":   address,
			"ndjson":    ndjson,
			"soma":      soma,
			"online":    online,
		},
	})
}

// patience is how long a program may take to write what is awaited.
const patience = time.Minute

// exits STATUS PROGRAM ARGS... runs a program, which has to end with the exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want := args[0]; strconv.Itoa(got) != want {
		ts.Fatalf("exit status %d, want %s", got, want)
	}
}

// program is a program that runs beside the script.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
}

// output can be read while it is being written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

type runningKey struct{}

func running(ts *testscript.TestScript) map[string]*program {
	return ts.Value(runningKey{}).(map[string]*program)
}

func named(ts *testscript.TestScript, name string) *program {
	p := running(ts)[name]
	if p == nil {
		ts.Fatalf("no program was started as %s", name)
	}
	return p
}

// start NAME PROGRAM ARGS... runs a program beside the script until it is interrupted.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARGS...")
	}
	p := &program{cmd: exec.Command(args[1], args[2:]...), ended: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "GROUPCAST_CONFIG", "GROUPCAST_AGENTS_LISTEN", "GROUPCAST_GATHERER_ENABLED", "GROUPCAST_GATHERER_GRPC_LISTEN", "GROUPCAST_GATHERER_DATA_LISTEN"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // interrupt reads the status
	}()
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.ended
	})
	running(ts)[args[0]] = p
}

// await NAME PATTERN waits until a program has written a text.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await NAME PATTERN")
	}
	p, pattern := named(ts, args[0]), regexp.MustCompile("(?m)"+args[1])
	deadline := time.After(patience)
	said := func() bool { return pattern.MatchString(p.stdout.String()) || pattern.MatchString(p.stderr.String()) }
	for !said() {
		select {
		case <-deadline:
			ts.Fatalf("%s did not say %s:\n%s%s", args[0], args[1], &p.stdout, &p.stderr)
		case <-p.ended:
			if said() {
				return
			}
			ts.Fatalf("%s ended:\n%s%s", args[0], &p.stdout, &p.stderr)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ends NAME [STATUS] waits until a program has ended by itself and, if a status is given, checks that.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: ends NAME [STATUS]")
	}
	p := named(ts, args[0])
	select {
	case <-p.ended:
	case <-time.After(patience):
		ts.Fatalf("%s goes on", args[0])
	}
	if got := p.cmd.ProcessState.ExitCode(); len(args) > 1 && strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s: exit status %d, want %s:\n%s", args[0], got, args[1], &p.stderr)
	}
}

// interrupt NAME STATUS interrupts a program, which has to end with the exit status. Its output can then be compared.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: interrupt NAME STATUS")
	}
	p := named(ts, args[0])
	ts.Check(p.cmd.Process.Signal(os.Interrupt))
	select {
	case <-p.ended:
	case <-time.After(patience):
		ts.Fatalf("%s goes on after an interrupt:\n%s%s", args[0], &p.stdout, &p.stderr)
	}
	_, _ = ts.Stdout().Write([]byte(p.stdout.String())) // never fails
	_, _ = ts.Stderr().Write([]byte(p.stderr.String()))
	if got := p.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s: exit status %d, want %s:\n%s", args[0], got, args[1], &p.stderr)
	}
}

// freeze NAME stops a program until thaw NAME.
func signal(ts *testscript.TestScript, neg bool, args []string, which os.Signal) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeze NAME, thaw NAME")
	}
	ts.Check(named(ts, args[0]).cmd.Process.Signal(which))
}

// endpoint VARIABLE FILE sets a variable to the address in a configuration.
func endpoint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: endpoint VARIABLE FILE")
	}
	config, err := uplink.ReadConfig(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Setenv(args[0], config.Endpoints[0])
}

// address VARIABLE... sets variables to addresses on loopback at which nobody listens.
func address(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: address VARIABLE...")
	}
	address, err := testprocess.Address()
	ts.Check(err)
	for _, variable := range args {
		ts.Setenv(variable, address)
	}
}

// online NAME... waits until the managers hear all these replicators and agents; ! online NAME..., until they hear none of them.
func online(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: [!] online NAME...")
	}
	want := len(args)
	if neg {
		want = 0
	}
	client, err := sdk.Open(ts.MkAbs(ts.Getenv("GROUPCAST_CONFIG")))
	ts.Check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for known := -1; known != want; {
		replicators, err := client.Replicators(ctx)
		ts.Check(err)
		agents, err := client.Agents(ctx)
		ts.Check(err)
		known = 0
		note := func(name, state string) {
			if state == "online" && slices.Contains(args, name) {
				known++
			}
		}
		for _, r := range replicators {
			note(r.Name, string(r.State))
		}
		for _, a := range agents {
			note(a.Name, a.State)
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("%d of %v are online", known, args)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ndjson FILE fails unless each line of the file is a JSON object.
func ndjson(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ndjson FILE")
	}
	for line := range bytes.Lines([]byte(ts.ReadFile(args[0]))) {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			ts.Fatalf("%q is no JSON object: %v", line, err)
		}
	}
}
