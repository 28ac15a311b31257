package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// Commands for finished files: how many run at once, and how many may wait. When as many wait, finishing another upload
// waits, too.
const (
	commandsMost = 4
	commandsWait = 1024
	// commandPatience is how long one may take to end after it was told to.
	commandPatience = 5 * time.Second
	// scarcePause is how long to wait before one that could not start is tried again.
	scarcePause = time.Second
)

// commands holds the commands that run, and all that run or wait.
type commands struct{ running, known chan struct{} }

func newCommands() commands {
	return commands{make(chan struct{}, commandsMost), make(chan struct{}, commandsMost+commandsWait)}
}

// runFor runs the command for each of a client's finished files, with the file's path as the last argument. It notes for all of them
// that the command is due before any waits for its turn: the gatherer may be killed meanwhile.
func (r *Roster) runFor(client string, files []sink.Placed) {
	if len(r.Exec) == 0 {
		return
	}
	all := make([]due, len(files))
	for i, one := range files {
		all[i] = r.noteDue(client, one)
	}
	for _, one := range all {
		r.queue(one)
	}
}

// queue has a command run when it is its turn. If the gatherer stops first, its next process runs it.
func (r *Roster) queue(one due) {
	r.commands.known <- struct{}{}
	r.running.Go(func() {
		defer one.letGo()
		defer func() { <-r.commands.known }()
		select {
		case r.commands.running <- struct{}{}:
			defer func() { <-r.commands.running }()
			r.command(one.Client, one.Path, one.file)
		case <-r.life.Done():
		}
		if r.life.Err() == nil {
			one.isDone()
			return
		}
		r.Log.Info("the gatherer stops: the command for a finished file is run when it is back", "file", one.file)
	})
}

// command runs the command for a file. If there are too few descriptors, processes or memory to start it, that is tried again until there
// are enough.
func (r *Roster) command(client, path, file string) {
	said, err := r.execute(client, path, file)
	for told := false; isScarce(err) || errors.Is(err, syscall.EAGAIN); said, err = r.execute(client, path, file) {
		if !told {
			r.Log.Warn("the command for a finished file cannot be started yet; it is tried again", "file", file, "error", err)
			told = true
		}
		if !pause.For(r.life, scarcePause) {
			return
		}
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // it has ended well, and left something running that has its output
		r.Log.Warn("the command for a finished file failed", "file", file, "error", err, "output", string(said))
	}
}

// runOnce runs it once, and returns what it said. It leads a process group of its own, so that what it has started ends with it.
func (r *Roster) runOnce(client, path, file string) ([]byte, error) {
	ctx, cancel := r.life, func() {}
	if r.ExecTime > 0 {
		ctx, cancel = context.WithTimeoutCause(r.life, r.ExecTime, fmt.Errorf("it has taken %v (execTime), and was ended", r.ExecTime))
	}
	defer cancel()
	command := exec.CommandContext(ctx, r.Exec[0], append(r.Exec[1:len(r.Exec):len(r.Exec)], file)...)
	command.Env = append(command.Environ(), "GROUPCAST_CLIENT="+client, "GROUPCAST_PATH="+path)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = commandPatience
	said := &clipped{}
	command.Stdout, command.Stderr = said, said
	err := command.Run()
	if ctx.Err() != nil && command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // the group may be gone
		err = cmp.Or(context.Cause(ctx), err)
	}
	return said.text, err
}

// clippedAt is how much is kept of what a command says.
const clippedAt = 1000

// clipped keeps the beginning of what is written.
type clipped struct{ text []byte }

func (c *clipped) Write(p []byte) (int, error) {
	c.text = append(c.text, p[:min(len(p), clippedAt-len(c.text))]...)
	return len(p), nil
}
