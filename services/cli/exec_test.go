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

// A command that is interrupted has not failed, nor one that is not run any more.
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
