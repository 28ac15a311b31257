package standalone_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A program may take its time over what has arrived: what else comes is received meanwhile.
func TestOthersAreReceivedMeanwhile(t *testing.T) {
	client := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	join := func(role sdk.Role) *sdk.Session {
		session, err := client.Join(ctx, sdk.Join{Group: "g", Name: string(role), Roles: []sdk.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(session.Close)
		return session
	}
	receiver, sender := join(sdk.Receive), join(sdk.Send)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	send := func(name string) *sdk.Outgoing {
		out, err := sender.Send(ctx, file, sdk.SendOptions{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	send("first")
	for arrived, err := range receiver.Receive(ctx, sdk.ReceiveOptions{Into: t.TempDir()}) {
		if err != nil || arrived.Err != nil {
			t.Fatalf("%+v, %v", arrived, err)
		}
		if ended, err := send("second").Wait(ctx); err != nil || ended.State != sdk.DeliveryComplete {
			t.Errorf("while the program has the first, the second is %v (%v), want that it is complete", ended.State, err)
		}
		return
	}
}

// What nobody has gone on with for a week is removed when a member begins to receive. What is younger stays.
func TestAbandonedIsRemoved(t *testing.T) {
	client := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	into := t.TempDir()
	partial := func(tag string, age time.Duration) string {
		dir := filepath.Join(into, ".groupcast-partial", tag)
		journal, at := filepath.Join(dir, "journal"), time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(journal, nil, 0o600), os.Chtimes(journal, at, at)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	old, young := partial("old", 8*24*time.Hour), partial("young", 6*24*time.Hour)
	session, err := client.Join(ctx, sdk.Join{Group: "g", Name: "m", Roles: []sdk.Role{sdk.Receive}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	receiving, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for range session.Receive(receiving, sdk.ReceiveOptions{Into: into}) {
		}
	})
	for there := true; there; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(old); err != nil {
			there = false
		}
		if ctx.Err() != nil {
			t.Fatal("what is old stays")
		}
	}
	stop()
	running.Wait() // with the sweep
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
}
