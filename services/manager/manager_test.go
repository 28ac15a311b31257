package manager_test

import (
	"errors"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

func TestSessionLife(t *testing.T) {
	t.Parallel()
	m := managertest.Start(t)
	client := m.Client(t)
	made, err := client.CreateGroup(t.Context(), "models", sdk.Policy{AckLevel: sdk.Received})
	if err != nil {
		t.Fatal(err)
	}
	if made.Policy.ControlMode != sdk.Hop || made.Policy.AckLevel != sdk.Received {
		t.Errorf("policy %+v: want hop decided and received kept", made.Policy)
	}
	alice, err := client.Join(t.Context(), sdk.Join{Group: "models", Name: "alice", Node: "n1", Addresses: []string{"10.0.0.1:7410"}})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan sdk.MemberEvent, 100)
	go func() {
		for event, err := range alice.Events(t.Context()) {
			if err != nil {
				close(events)
				return
			}
			events <- event
		}
	}()
	if event := <-events; len(event.Snapshot) != 1 || event.Snapshot[0].Name != "alice" {
		t.Fatalf("snapshot %+v, want alice", event)
	}
	bob, err := client.Join(t.Context(), sdk.Join{Group: "models", Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, sdk.Added, "bob", "active")
	again, err := client.Join(t.Context(), sdk.Join{Group: "models", Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, sdk.Removed, "bob", "fenced")
	wantEvent(t, events, sdk.Added, "bob", "active")
	if again.Member().Incarnation <= bob.Member().Incarnation {
		t.Errorf("incarnation %d follows %d: it only grows", again.Member().Incarnation, bob.Member().Incarnation)
	}
	<-bob.Done()
	var ended *sdk.SessionEnded
	if !errors.As(bob.Err(), &ended) || ended.State != "fenced" {
		t.Errorf("the old incarnation ended with %v, want fenced", bob.Err())
	}
	if err := client.DeleteGroup(t.Context(), "models", false); sdk.CodeOf(err) != sdk.Conflict {
		t.Errorf("delete of a group in use: %v, want a conflict", err)
	}
	if err := again.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, sdk.Removed, "bob", "left")
	begun := time.Now()
	silent, err := client.Join(t.Context(), sdk.Join{Group: "models", Name: "carol"})
	if err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, sdk.Added, "carol", "active")
	silent.Close()
	wantEvent(t, events, sdk.Removed, "carol", "expired")
	if lived := time.Since(begun); lived < group.Expiry {
		t.Errorf("carol expired after %v, want %v", lived, group.Expiry)
	}
	if err := client.DeleteGroup(t.Context(), "models", true); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, events, sdk.Removed, "alice", "expelled")
}

func wantEvent(t *testing.T, events <-chan sdk.MemberEvent, change sdk.ChangeType, name string, state sdk.MemberState) {
	t.Helper()
	select {
	case event := <-events:
		if event.Change != change || event.Member.Name != name || event.Member.State != state {
			t.Fatalf("event %s %s %s, want %s %s %s", event.Change, event.Member.Name, event.Member.State, change, name, state)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("no event, want %s %s %s", change, name, state)
	}
}
