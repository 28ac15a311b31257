package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
