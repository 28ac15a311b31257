package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// commands runs the command of --exec for each object, one after another in the order in which they arrived, while others are received.
type commands struct {
	run func(sdk.Arrived) error

	running sync.WaitGroup
	mu      sync.Mutex
	waiting []sdk.Arrived
	busy    bool
	yet     int   // how many objects it has not ended for
	failed  error // of the last one that failed
}

// add has the command run for an object when it is its turn. Whoever calls add has to call end, too.
func (c *commands) add(one sdk.Arrived) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting, c.yet = append(c.waiting, one), c.yet+1
	if !c.busy {
		c.busy = true
		c.running.Go(c.work)
	}
}

// work runs the command until nothing waits.
func (c *commands) work() {
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		one := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
		err := c.run(one)
		c.mu.Lock()
		c.failed = cmp.Or(err, c.failed)
		c.yet--
		c.mu.Unlock()
	}
}

// left returns for how many objects the command has not ended.
func (c *commands) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.yet
}

// end waits until the command has run for all, and returns the last failure.
func (c *commands) end() error {
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// sayCommandsLeft says why a session has ended, if it has, and which commands are still waited for: that may take hours.
func (a *app) sayCommandsLeft(ended *sdk.SessionEnded, commands *commands) {
	if left := commands.left(); ended != nil && left > 0 {
		fmt.Fprintf(a.stderr, "%v; nothing is received any more, and --exec has yet to end for %s\n", ended, plural(left, "object"))
	}
}

// execStop is how long a command that is interrupted may take to end.
const execStop = 5 * time.Second

// interruptedExec is an interruption that names the object for which the command was not done.
type interruptedExec struct {
	what string
	of   sdk.Arrived
}

func (e interruptedExec) Error() string {
	return fmt.Sprintf("--exec %s for %s, which is in %s", e.what, printable.Text(e.of.Name), printable.Text(e.of.Path))
}
func (interruptedExec) Unwrap() error { return errInterrupted }

// execute runs a command for an object, unless ctx is done.
func execute(ctx context.Context, output io.Writer, what string, one sdk.Arrived) error {
	if ctx.Err() != nil {
		return interruptedExec{"was not run", one}
	}
	command := exec.CommandContext(ctx, "sh", "-c", what)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to end what the shell has begun, too
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = execStop
	command.Stdout, command.Stderr = output, output
	command.Env = append(os.Environ(),
		"GROUPCAST_PATH="+one.Path, "GROUPCAST_NAME="+one.Name, "GROUPCAST_SENDER="+one.Sender,
		"GROUPCAST_DELIVERY="+one.ID, fmt.Sprintf("GROUPCAST_BYTES=%d", one.Bytes))
	err := command.Run()
	if ctx.Err() != nil && command.Process != nil {
		endGroup(command.Process.Pid)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return interruptedExec{"was interrupted", one}
	case err != nil:
		return fmt.Errorf("--exec for %s: %w", printable.Text(one.Name), err)
	}
	return nil
}

// endGroup waits until the last process of a group has ended that was told to: the shell may be gone before what it began. In the end it kills them.
func endGroup(group int) {
	for until := time.Now().Add(execStop); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if syscall.Kill(-group, 0) != nil {
			return // there is none
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL) // all may be gone by now
}
