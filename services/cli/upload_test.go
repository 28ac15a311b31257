package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/sdk/gather"
)

// An interrupted stream goes on while bytes get through, and for a while without, but not where the gatherer
// is gone or pauses.
func TestInterruptedStreamParts(t *testing.T) {
	moving := func(at uint64) gather.Progress {
		return gather.Progress{Sent: at, Stored: at, Length: 3 << 20, Attached: true}
	}
	paused, gone := moving(1), moving(1)
	paused.Paused, gone.Attached = "queued", false
	for what, tt := range map[string]struct {
		then  gather.Progress
		after time.Duration
	}{
		"nothing gets through": {moving(1 << 20), partingPatience},
		"paused":               {paused, 0},
		"gone":                 {gone, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			ending, stop := context.WithCancelCause(t.Context())
			leaving := &parting{interrupted: ctx, stop: stop}
			leaving.heard(paused) // before it is interrupted, it waits
			interrupt()
			for at := range uint64(10) {
				leaving.heard(moving(at << 10))
				time.Sleep(partingPatience - time.Second) // in no time
			}
			leaving.heard(moving(1 << 20))
			if ending.Err() != nil {
				t.Fatalf("%s: it ends while bytes get through", what)
			}
			began := time.Now()
			for leaving.heard(tt.then); ending.Err() == nil; leaving.heard(tt.then) {
				time.Sleep(200 * time.Millisecond)
			}
			if took := time.Since(began); took != tt.after || !errors.Is(context.Cause(ending), errInterrupted) {
				t.Errorf("%s: it ends after %v with %v, want %v", what, took, context.Cause(ending), tt.after)
			}
		})
	}
	leaving := &parting{last: moving(1 << 20)}
	if words := leaving.words(false); words != "interrupted: 2.0 MiB of what was read are not at the gatherer, and are lost" {
		t.Error(words)
	}
}

// A line is told at once when there is another reason why nothing is sent, and else every few seconds.
func TestReasonIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		shown := newUploading(&app{stderr: &said})
		tell := func(detached string) {
			shown.show(gather.Progress{Path: "log", Length: 10, Detached: detached})
			time.Sleep(200 * time.Millisecond)
		}
		tell("") // it has not answered yet
		for range 10 {
			tell("connection refused")
		}
		tell("no such host")
		want := "log  0 B of 10 B  not connected: connection refused; trying again\nlog  0 B of 10 B  not connected: no such host; trying again\n"
		if said.String() != want {
			t.Errorf("it says %q, want %q", said.String(), want)
		}
		time.Sleep(linePause)
		tell("no such host")
		if lines := strings.Count(said.String(), "\n"); lines != 3 {
			t.Errorf("%d lines, want another one", lines)
		}
		said.Reset()
		shown.show(gather.Progress{Path: "log", Sent: 10, Length: 10, Attached: true, Ended: true})
		if said.Len() > 0 {
			t.Errorf("what has ended is shown, beside what became of it: %s", said.String())
		}
	})
}
