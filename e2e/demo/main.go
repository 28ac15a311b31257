// The demo starts a standalone server, with the commands in a directory, and shows the main job at
// work: it types what a user would type, and shows what the user would see. Everything that it
// creates is in a temporary directory, which is removed when it ends.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	arguments, part := os.Args[1:], show
	if len(arguments) == 2 && arguments[0] == gathering {
		arguments, part = arguments[1:], gather
	}
	if len(arguments) != 1 {
		fmt.Fprintln(os.Stderr, "usage: demo DIRECTORY-OF-THE-COMMANDS")
		os.Exit(2)
	}
	if err := part(ctx, arguments[0]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	ctx    context.Context
	bin    string
	access string

	mu       sync.Mutex
	started  []*exec.Cmd
	terminal sync.Mutex // of whoever writes to it: a command that runs draws again what it has drawn
}

func show(ctx context.Context, bin string) error {
	dir, err := os.MkdirTemp("", "groupcast-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	d := &demo{ctx: ctx, bin: bin}
	defer d.end()

	d.say("A standalone server: the state, the certificates and an operator's access, all in one directory.")
	if err := d.serve(dir); err != nil {
		return err
	}
	d.say("A group is a named set of members with a policy.")
	if err := d.run("group", "create", "models", "--ack", "durable", "--max-members", "64"); err != nil {
		return err
	}
	d.say("Two session agents run in the server, in two zones. They relay, cache and duplicate.")
	if err := d.run("agent", "list"); err != nil {
		return err
	}
	d.say("Three members join to receive, one in zone a and two in zone b.")
	members := make(map[string]*exec.Cmd)
	for _, member := range []struct{ name, zone string }{{"node-1", "a"}, {"node-2", "b"}, {"node-3", "b"}} {
		if members[member.name], err = d.receive(dir, member.name, member.zone); err != nil {
			return err
		}
	}
	pause.For(d.ctx, time.Second)
	if err := d.run("member", "list", "models"); err != nil {
		return err
	}
	if err := d.push(dir, members); err != nil {
		return err
	}
	if err := d.run("status", "-o", "wide"); err != nil {
		return err
	}
	if err := showGathering(ctx, bin); err != nil {
		return err
	}
	d.say("That was all on this machine. Next: README.md, 'Use it'.")
	return ctx.Err()
}

// push delivers an object, and shows the consequences.
func (d *demo) push(dir string, members map[string]*exec.Cmd) error {
	object := filepath.Join(dir, "model.bin")
	if err := makeObject(object); err != nil {
		return err
	}
	d.say("256 MB to all of them: once to the first agent, once between the agents, and from there to each member.")
	if err := d.run("push", object, "--group", "models", "-o", "wide"); err != nil {
		return err
	}
	d.say("Who fed whom, and why.")
	if err := d.run("delivery", "explain"); err != nil {
		return err
	}
	d.say("The same again: everybody has it already, which their hashes prove. No byte is sent.")
	if err := d.run("push", object, "--group", "models"); err != nil {
		return err
	}
	d.say("Who joins late gets it from its agent's cache.")
	if _, err := d.receive(dir, "node-4", "a"); err != nil {
		return err
	}
	pause.For(d.ctx, 2*time.Second)
	if err := d.run("delivery", "list"); err != nil {
		return err
	}
	d.say("A member crashes (kill -9) in the middle of a delivery. It is told as it is.")
	time.AfterFunc(time.Second, func() { _ = members["node-3"].Process.Kill() })
	err := d.run("push", object, "--group", "models", "--name", "again.bin", "--rate", "60MB", "--deadline", "12s")
	if status := new(exec.ExitError); errors.As(err, &status) && status.ExitCode() == partial {
		d.say("The exit status is 3: some members have it, and not all.")
		err = nil
	}
	return err
}

// partial is the exit status of a delivery that not every member has.
const partial = 3

// makeObject creates a file of 256 MB that cannot be compressed.
func makeObject(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyN(file, rand.NewChaCha8([32]byte{}), 256e6)
	return errors.Join(err, file.Close())
}

// receive starts a member that receives into a directory of its own.
func (d *demo) receive(dir, name, zone string) (*exec.Cmd, error) {
	return d.background("pull", "--group", "models", "--as", name, "--label", "zone="+zone, "--into", filepath.Join(dir, name))
}

// serve starts the server and waits until it is ready.
func (d *demo) serve(dir string) error {
	data := filepath.Join(dir, "data")
	fmt.Printf("$ groupcast-standalone --data %s --agents-count 2\n", data)
	server := exec.Command(filepath.Join(d.bin, "groupcast-standalone"), "--data", data,
		"--agents-count", "2", "--agents-listen", "127.0.0.1:0", "--gatherer-enabled=false", "--grpc-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "error")
	server.Stderr = os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.start(server); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server did not become ready: %w", err)
	}
	fmt.Print(line)
	d.access = strings.TrimSpace(strings.TrimPrefix(line, "ready: "))
	fmt.Printf("$ export GROUPCAST_CONFIG=%s\n", d.access)
	return nil
}

func (d *demo) start(command *exec.Cmd) error {
	// A terminal's interrupt is for the demo, which then ends what it started in order.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = append(d.started, command)
	return nil
}

func (d *demo) command(args []string) *exec.Cmd {
	command := exec.Command(filepath.Join(d.bin, "groupcast"), args...)
	command.Env = append(os.Environ(), "GROUPCAST_CONFIG="+d.access)
	return command
}

// run runs a command to its end, and shows what it prints.
func (d *demo) run(args ...string) error {
	if d.ctx.Err() != nil {
		return d.ctx.Err()
	}
	d.terminal.Lock()
	defer d.terminal.Unlock()
	fmt.Printf("$ groupcast %s\n", strings.Join(args, " "))
	command := d.command(args)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("groupcast %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// background starts a command that keeps running. What it prints is shown as it comes, but not within what another command draws.
func (d *demo) background(args ...string) (*exec.Cmd, error) {
	if d.ctx.Err() != nil {
		return nil, d.ctx.Err()
	}
	fmt.Printf("$ groupcast %s &\n", strings.Join(args, " "))
	command := d.command(args)
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	go d.indent(args[4], stdout)
	return command, d.start(command)
}

func (d *demo) indent(who string, from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		d.terminal.Lock()
		fmt.Printf("    %s | %s\n", who, lines.Text())
		d.terminal.Unlock()
	}
}

func (d *demo) say(text string) {
	if d.ctx.Err() == nil {
		fmt.Printf("\n# %s\n", text)
	}
}

// end ends all that was started, the server last.
func (d *demo) end() {
	for i := len(d.started) - 1; i >= 0; i-- {
		process := d.started[i]
		if err := process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			process.Process.Kill()
		}
		process.Wait()
	}
}
