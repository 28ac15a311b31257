package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// interrupting interrupts when something is written to it.
type interrupting struct{ context.CancelFunc }

func (i interrupting) Write(text []byte) (int, error) {
	i.CancelFunc()
	return len(text), nil
}

// A command that is interrupted has not failed, nor has one that is no longer run.
func TestInterruptedCommands(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	one := sdk.Arrived{Incoming: sdk.Incoming{Name: "object"}, Path: "into/object"}
	for _, want := range []string{"--exec was interrupted for object, which is in into/object", "--exec was not run for object, which is in into/object"} {
		err := execute(ctx, interrupting{interrupt}, "echo runs; sleep 1000", one)
		if !errors.Is(err, errInterrupted) || fmt.Sprint(err) != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := execute(t.Context(), new(strings.Builder), "exit 9", one); err == nil || errors.Is(err, errInterrupted) {
		t.Errorf("a command that fails: %v", err)
	}
}

// What the command's shell has begun has ended, too, when a command counts as interrupted, though the shell is gone before.
func TestInterruptedCommandsChildrenEnd(t *testing.T) {
	for what, child := range map[string]string{
		"takes a moment": "trap 'sleep 0.3; exit' TERM; touch begun; while :; do sleep 0.05; done",
		"ignores it":     "trap '' TERM; touch begun; while :; do sleep 0.05; done",
	} {
		dir := t.TempDir()
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
					interrupt()
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		output, err := os.Create(filepath.Join(dir, "output")) // a file, as no pipe keeps it waiting
		if err != nil {
			t.Fatal(err)
		}
		command := fmt.Sprintf("cd '%s'; sh -c \"%s\" & echo $! >pid; wait", dir, child)
		if err := execute(ctx, output, command, sdk.Arrived{}); !errors.Is(err, errInterrupted) {
			t.Errorf("%s: %v", what, err)
		}
		interrupt()
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		goesOn := func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			return err == nil && !strings.Contains(string(status), "zombie")
		}
		for range 100 { // one that is killed is gone a moment later
			if !goesOn() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if goesOn() {
			t.Errorf("%s: it goes on", what)
		}
		output.Close()
	}
}

// A member whose session has ended says why at once, and not only when the command has run for all.
func TestCommandsThatAreLeftAreTold(t *testing.T) {
	var said strings.Builder
	a, goOn := &app{stderr: &said}, make(chan struct{})
	c := &commands{run: func(sdk.Arrived) error { <-goOn; return nil }}
	for range 3 {
		c.add(sdk.Arrived{})
	}
	a.sayCommandsLeft(nil, c) // it ends for another reason
	a.sayCommandsLeft(&sdk.SessionEnded{State: "fenced"}, c)
	close(goOn)
	if err := c.end(); err != nil {
		t.Error(err)
	}
	a.sayCommandsLeft(&sdk.SessionEnded{State: "fenced"}, c)
	if want := "; nothing is received any more, and --exec has yet to end for 3 objects\n"; said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
}
