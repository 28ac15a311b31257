package standalone_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
)

// A sender whose disk is full reads on when members have acknowledged what it keeps: the stream comes whole, though
// it is much larger than the disk.
func TestStreamsWaitForRoom(t *testing.T) {
	client := serve(t)
	into := t.TempDir()
	t.Setenv("TMPDIR", testdisk.Memory(t, "size=512k"))
	want := make([]byte, 4<<20)
	_, _ = rand.Read(want) // it never fails
	ended, path := stream(t, client, into, bytes.NewReader(want))
	got, err := os.ReadFile(path)
	if ended.State != sdk.DeliveryComplete || err != nil || !bytes.Equal(got, want) {
		t.Errorf("it ended as %s (%s) with %d of %d bytes, %v", ended.State, ended.Reason, len(got), len(want), err)
	}
}

// A source that gives neither bytes nor an error for ever ends the stream as failed.
func TestStreamsOfNothingEnd(t *testing.T) {
	ended, _ := stream(t, serve(t), t.TempDir(), iotest.ErrReader(nil))
	if ended.State != sdk.DeliveryFailed || len(ended.Receipts) != 1 || ended.Receipts[0].Reason != "failed" {
		t.Errorf("it ended as %s with %+v", ended.State, ended.Receipts)
	}
}

// patient is a source that gives nothing before its stream is received.
type patient struct {
	received <-chan struct{}
	from     io.Reader
}

func (p patient) Read(to []byte) (int, error) {
	<-p.received
	return p.from.Read(to)
}

// stream sends a stream to one receiver, and returns how that ended and where it is.
func stream(t *testing.T, client *sdk.Client, into string, from io.Reader) (ended sdk.Delivery, path string) {
	t.Helper()
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
	received := make(chan struct{})
	out, err := sender.SendStream(ctx, patient{received, from}, sdk.SendOptions{Name: "live"})
	if err != nil {
		t.Fatal(err)
	}
	for arrived, err := range receiver.Receive(ctx, sdk.ReceiveOptions{Into: into, Begun: func(sdk.Incoming) { close(received) }}) {
		if err != nil {
			t.Fatal(err)
		}
		path = arrived.Path
		break
	}
	if ended, err = out.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return ended, path
}
