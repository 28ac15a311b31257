package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// An interrupted stream goes on while bytes get through, and for a while after that, but not if the gatherer
// is gone or pauses it.
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

// There is a line at once when another reason keeps it from sending, and otherwise every few seconds.
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
		for range 10 { // it says nothing new
			time.Sleep(linePause)
			tell("no such host")
		}
		if said.String() != want {
			t.Errorf("it says %q again", said.String())
		}
		time.Sleep(samePause)
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

// A rate is shown when it is known: not for an upload that has just begun to send, nor for time in which it could not.
func TestRateIsShownWhenItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		shown := newUploading(&app{stderr: &said})
		tell := func(sent uint64, paused string, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			shown.show(gather.Progress{Path: "log", Sent: sent, Length: 90 << 10, Attached: true, Connections: 2, Paused: paused})
		}
		for _, step := range []struct {
			sent   uint64
			paused string
			after  time.Duration
			want   string
		}{
			{0, "", time.Second, "log  0 B of 90 KiB  over 2 connections\n"}, // it has connected for a second
			{20 << 10, "", linePause, "log  20 KiB of 90 KiB  4.0 KiB/s over 2 connections\n"},
			{20 << 10, "queued", linePause, "log  20 KiB of 90 KiB  paused by the gatherer: queued\n"},
			{20 << 10, "", 100 * time.Millisecond, "log  20 KiB of 90 KiB  over 2 connections\n"},
			{60 << 10, "", linePause, "log  60 KiB of 90 KiB  8.0 KiB/s over 2 connections\n"},
		} {
			said.Reset()
			tell(step.sent, step.paused, step.after)
			if said.String() != step.want {
				t.Errorf("after %v: %q, want %q", step.after, said.String(), step.want)
			}
		}
	})
}

// An upload to a gatherer that is named by its name waits for a manager to say where it is.
func TestUploadWaitsForManagers(t *testing.T) {
	manager := managertest.NewProcess(t, t.TempDir())
	manager.Start(t)
	manager.WaitServing(t)
	manager.Kill()
	var said testprocess.Output
	a := &app{stderr: &said, config: manager.Access, timeout: time.Second}
	found := make(chan error, 1)
	go func() {
		_, err := a.awaitGatherer(t.Context(), &upload{to: "archive"})
		found <- err
	}()
	select {
	case err := <-found:
		t.Fatalf("it ends while there is no manager: %v", err)
	case <-time.After(4 * time.Second):
	}
	if lines := strings.Count(said.String(), "\n"); lines != 1 || !strings.Contains(said.String(), "trying again") {
		t.Errorf("it says %q, want one line that it tries again", said.String())
	}
	manager.Start(t)
	if err := <-found; sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("once there is a manager: %v, want that it knows no such gatherer", err)
	}
}

// An upload that is interrupted while no manager answers is that, also between two calls.
func TestWaitingUploadIsInterrupted(t *testing.T) {
	ca, err := identity.NewCA(identity.DefaultTrustDomain, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := ca.IssueBundle(identity.ID{Role: identity.Member, Name: "alice"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	config := sdk.Config{Endpoints: []string{"127.0.0.1:1"}, TrustDomain: identity.DefaultTrustDomain, CredentialsDir: "credentials"}
	if err := errors.Join(identity.FilesIn(filepath.Join(filepath.Dir(file), "credentials")).Write(bundle), config.Write(file)); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	a := &app{config: file, timeout: 100 * time.Millisecond, stderr: hearing{"trying again": interrupt}}
	if _, err := a.awaitGatherer(ctx, &upload{to: "archive"}); statusOf(err) != exitInterrupted {
		t.Errorf("it ends with %v", err)
	}
}

// An upload to where a gatherer might be ends when nobody has answered there for as long as a call may take.
func TestUploadToAGuess(t *testing.T) {
	dir, small := t.TempDir(), t.TempDir() // files that are small go together
	for of, length := range map[string]int{dir: 300 << 10, small: 10} {
		for _, name := range []string{"f", "g"} {
			if err := os.WriteFile(filepath.Join(of, name), make([]byte, length), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	access := managertest.Start(t).Access
	for what, u := range map[string]*upload{filepath.Join(dir, "f"): {}, dir: {}, small: {}, filepath.Join(dir, "g"): {follow: true, state: filepath.Join(t.TempDir(), "state")}} {
		var said bytes.Buffer
		a := &app{stdout: &said, stderr: &said, config: access, timeout: time.Second}
		u.to, u.guessed = "127.0.0.1:1", true
		client, err := a.gatherer(t.Context(), u.to, gather.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = a.upload(t.Context(), client, u, what)
		if exitStatus(err) != exitUnavailable || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: exit status %d: %v", what, exitStatus(err), err)
		}
		if hint := a.hint(err); !strings.Contains(hint, "is a gatherer at 127.0.0.1:1? --to or GROUPCAST_GATHERER names one") {
			t.Errorf("the hint is %q", hint)
		}
		if strings.Contains(said.String(), "interrupted") {
			t.Errorf("%s: it says %s", what, said.String())
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A user whose upload is cut off by another of the same name learns from the command how both can go on: the SDK's error is for programs.
func TestFencedUploadIsToldWhatHelps(t *testing.T) {
	err := fmt.Errorf("upload f: %w", gather.ErrFenced)
	if hint := new(app).hint(err); !strings.Contains(hint, "--as") || strings.Contains(err.Error(), "--") {
		t.Errorf("%v%s", err, hint)
	}
}

// A gatherer that was there may come back, and one that was named is waited for.
func TestOthersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		met := func() *guess { return &guess{patience: time.Second, stop: stop} }
		for g, is := range map[*guess]gather.Progress{
			met(): {Attached: true},
			met(): {Detached: "there is no room: try again in up to 15s", DetachedReason: "PLACE_KEPT"}, // only a gatherer says so
			nil:   {},
		} {
			g.heard(gather.Progress{})
			g.heard(is)
			time.Sleep(time.Hour)
			g.heard(gather.Progress{Detached: "connection refused"})
			if err := g.why(errPartial); ctx.Err() != nil || !errors.Is(err, errPartial) {
				t.Errorf("after %+v it ends with %v", is, err)
			}
		}
	})
}

// ending is a source that is interrupted as it gives something.
type ending struct{ interrupt func() }

func (e ending) Read(p []byte) (int, error) {
	e.interrupt()
	return copy(p, "read"), nil
}

// What was read from a source is uploaded, even if the upload is interrupted in the same moment: it could not be read again.
func TestInterruptedReadLosesNothing(t *testing.T) {
	for range 100 { // which of the two is seen first is left to chance
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			read, err := io.ReadAll(&until{ctx, ending{interrupt}})
			if string(read) != "read" || err != nil {
				t.Errorf("read %q, %v", read, err)
			}
		})
	}
}

// Who was sent other bytes than there are is told so by the exit status, as by a delivery.
func TestDamagedUploadHasTheStatusOfADamagedDelivery(t *testing.T) {
	for _, err := range []error{&sdk.Error{Code: sdk.Failed, Reason: "DAMAGED"}, &sdk.DeliveryError{Reason: "damaged"}} {
		if got := exitStatus(fmt.Errorf("upload: %w", err)); got != exitDamaged {
			t.Errorf("%v: exit status %d, want %d", err, got, exitDamaged)
		}
	}
}
