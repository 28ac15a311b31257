package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// C26: 2,000 members freeze together. They expire in a few transactions, the epoch
// grows by steps and not by members, and all can come back.
func TestC26MassExpiry(t *testing.T) {
	const members = 2000
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	joinAll := func() { joinMany(t, sessions, members) }
	joinAll() // and send no heartbeat
	group, err := client.Group(t.Context(), "g")
	if err != nil || group.Members != members {
		t.Fatalf("%d members joined (%v), want %d", group.Members, err, members)
	}
	before := group.Epoch
	eventually(t, 20*time.Second, "all members expired", func() bool {
		group, err = client.Group(t.Context(), "g")
		return err == nil && group.Members == 0
	})
	wait(t, 2*time.Second)
	if group, err = client.Group(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if steps := group.Epoch - before; steps < 1 || steps > 15 {
		t.Errorf("the epoch grew by %d for %d expiries, want a few steps", steps, members)
	}
	joinAll()
	if group, err = client.Group(t.Context(), "g"); err != nil || group.Members != members {
		t.Errorf("%d members came back (%v), want %d", group.Members, err, members)
	}
}

// Joins that their callers give up while they are written, as those of processes that are killed, leave
// no members that nobody keeps.
func TestGivenUpJoinsExpire(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		_, _ = sessions.Join(ctx, &groupv1.JoinRequest{Group: "g", Name: fmt.Sprintf("m%d", i)})
		cancel()
	}
	eventually(t, 20*time.Second, "all members expired", func() bool {
		members, err := client.Members(t.Context(), "g")
		return err == nil && len(members) == 0
	})
}

// C27: one member joins and leaves as fast as it can. It is slowed down; others are not.
func TestC27Flapping(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	connection := managertest.Dial(t, mustRead(t, m.Access))
	sessions := groupv1.NewSessionServiceClient(connection)
	refused, joined, begun := 0, 0, time.Now()
	before, err := client.Group(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		_, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: "flapper"})
		if err != nil {
			refused++
			continue
		}
		joined++
		if _, err := sessions.Leave(t.Context(), &groupv1.LeaveRequest{Group: "g", Name: "flapper"}); err != nil {
			t.Fatal(err)
		}
	}
	seconds := int(time.Since(begun).Seconds())
	if joined < 10 || joined > 20+seconds {
		t.Errorf("%d joins were accepted and %d refused in %d s, want a burst of about 10", joined, refused, seconds)
	}
	if _, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "calm"}); err != nil {
		t.Errorf("another member: %v", err)
	}
	after, err := client.Group(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if steps, took := after.Epoch-before.Epoch, time.Since(begun); steps > uint64(took.Seconds())+4 {
		t.Errorf("the epoch grew by %d within %v, want at most one a second", steps, took)
	}
}

// joinMany joins members m-0 and so on, many at a time. They send no heartbeats.
func joinMany(t *testing.T, sessions groupv1.SessionServiceClient, members int) {
	t.Helper()
	const workers = 64
	var joining sync.WaitGroup
	for worker := range workers {
		joining.Go(func() {
			for i := worker; i < members; i += workers {
				if _, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: fmt.Sprintf("m-%d", i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	joining.Wait()
}
