package standalone_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

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
