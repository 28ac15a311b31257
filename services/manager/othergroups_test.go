package manager_test

import (
	"errors"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A new token puts a member out of the groups that it does not name: the member's sessions and watches there end, also where they are those of
// a client that enrolled before. In the other groups it goes on.
func TestTokenForOtherGroupsPutsTheMemberOut(t *testing.T) {
	m := managertest.Start(t)
	createGroups(t, m, "models", "logs")
	alice := sdk.Token{Role: "member", Name: "alice", Groups: []string{"models", "logs"}}
	client := dial(t, m.Enroll(t, alice))
	models, logs := joinAs(t, client, "models"), joinAs(t, client, "logs")
	watching := watchMembers(t, client, "models")

	alice.Groups = []string{"logs"}
	m.Enroll(t, alice)
	wantPutOut(t, models)
	var ended *sdk.SessionEnded
	if err := models.Err(); !errors.As(err, &ended) || ended.State != "expelled" {
		t.Errorf("the session in models ended with %v, want that it was expelled", err)
	}
	select {
	case err := <-watching:
		if sdk.CodeOf(err) != sdk.Forbidden {
			t.Errorf("the watch of models ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the watch of models goes on")
	}
	if _, err := client.Members(t.Context(), "logs"); err != nil {
		t.Errorf("members of logs: %v", err)
	}
	if err := logs.Err(); err != nil {
		t.Errorf("the session in logs ended: %v", err)
	}
}

// watchMembers returns, once a client watches the members of a group, where it is told how that ends.
func watchMembers(t *testing.T, client *sdk.Client, group string) (ended <-chan error) {
	t.Helper()
	begun, end := make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		for _, err := range client.WatchMembers(t.Context(), group) {
			if err != nil {
				end <- err
				return
			}
			begun <- struct{}{}
		}
	}()
	select {
	case <-begun:
	case err := <-end:
		t.Fatal(err)
	}
	return end
}
