package manager_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A manager that stops, and a client that closes, leave no goroutine behind.
func TestStopLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m := managertest.Start(t)
	client, err := sdk.Open(m.Access)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for event, err := range session.Events(t.Context()) {
		if err != nil || len(event.Snapshot) != 1 {
			t.Fatalf("snapshot %v %v", event, err)
		}
		break
	}
	session.Close()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	m.Stop(t)
	goleak.VerifyNone(t, before)
}
