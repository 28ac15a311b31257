// The demo starts a standalone server with the commands in a directory, and
// shows the main job at work: it types what a user would type, and shows what
// the user would see. Everything it makes is in a temporary directory, and gone
// when it ends.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo DIRECTORY-OF-THE-COMMANDS")
		os.Exit(2)
	}
	if err := show(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	ctx    context.Context
	bin    string
	access string

	mu      sync.Mutex
	started []*exec.Cmd
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
	d.say("Somebody watches who comes and goes.")
	if _, err := d.background("member", "watch", "models"); err != nil {
		return err
	}
	d.pause(time.Second)
	d.say("Three members join. Each holds a session, which heartbeats keep alive.")
	members := make(map[string]*exec.Cmd)
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		if members[name], err = d.background("join", "models", "--as", name, "--node", "rack-a-"+name, "--label", "zone=a"); err != nil {
			return err
		}
		d.pause(500 * time.Millisecond)
	}
	if err := d.run("member", "list", "models", "-o", "wide"); err != nil {
		return err
	}
	d.say("node-1 leaves in order.")
	if err := members["node-1"].Process.Signal(os.Interrupt); err != nil {
		return err
	}
	d.pause(time.Second)
	d.say("node-2 joins again from elsewhere: the new incarnation fences the old one.")
	if _, err := d.background("join", "models", "--as", "node-2", "--node", "rack-b-node-2"); err != nil {
		return err
	}
	d.pause(3 * time.Second)
	d.say("node-3 crashes (kill -9). It is silent, and expires after 10 seconds.")
	if err := members["node-3"].Process.Kill(); err != nil {
		return err
	}
	d.pause(12 * time.Second)
	if err := d.run("member", "list", "models"); err != nil {
		return err
	}
	if err := d.run("status", "-o", "wide"); err != nil {
		return err
	}
	d.say("That was all on this machine. Next: README.md, 'Use it'.")
	return ctx.Err()
}

// serve starts the server and waits until it is ready.
func (d *demo) serve(dir string) error {
	data := filepath.Join(dir, "data")
	fmt.Printf("$ groupcast-standalone --data %s\n", data)
	server := exec.Command(filepath.Join(d.bin, "groupcast-standalone"), "--data", data,
		"--grpc-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "error")
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

// run runs a command to its end and shows what it says.
func (d *demo) run(args ...string) error {
	if d.ctx.Err() != nil {
		return d.ctx.Err()
	}
	fmt.Printf("$ groupcast %s\n", strings.Join(args, " "))
	command := d.command(args)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("groupcast %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// background starts a command that goes on. What a watch says is shown as it comes.
func (d *demo) background(args ...string) (*exec.Cmd, error) {
	if d.ctx.Err() != nil {
		return nil, d.ctx.Err()
	}
	fmt.Printf("$ groupcast %s &\n", strings.Join(args, " "))
	command := d.command(args)
	if args[1] != "watch" {
		return command, d.start(command)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	go indent(stdout)
	return command, d.start(command)
}

func indent(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		fmt.Println("    watch |", lines.Text())
	}
}

func (d *demo) say(text string) {
	if d.ctx.Err() == nil {
		fmt.Printf("\n# %s\n", text)
	}
}

// pause lets what was started take its effect, before the eyes of who watches.
func (d *demo) pause(t time.Duration) {
	select {
	case <-d.ctx.Done():
	case <-time.After(t):
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
