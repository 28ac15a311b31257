package manager_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// C33: a manager sleeps through changes and the compaction of their history. Its watchers miss nothing: they are given the state anew, without
// the members that were removed.
func TestC33WatchAcrossCompaction(t *testing.T) {
	cluster := managertest.StartCluster(t, 2)
	leader := cluster.Leader(t)
	follower := cluster.Follower(leader)
	client := leader.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "stays"}); err != nil {
		t.Fatal(err)
	}
	goes, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "goes"})
	if err != nil {
		t.Fatal(err)
	}
	known := follow(t, follower.Client(t), "g")
	eventually(t, 30*time.Second, "the watcher knows both", func() bool { return known.are("goes", "stays") })

	follower.Freeze(t)
	if err := goes.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := client.CreateGroup(t.Context(), fmt.Sprintf("other-%d", i), sdk.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Etcd.Compact(t)
	wait(t, 3*time.Second)
	follower.Thaw(t)
	eventually(t, 20*time.Second, "the watcher knows who is left", func() bool { return known.are("stays") })
}

// A watcher that does not read is told to list again, and nothing waits for it.
func TestSlowWatcherRelists(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	connection := managertest.Dial(t, mustRead(t, m.Access))
	sessions := groupv1.NewSessionServiceClient(connection)
	slow, err := sessions.WatchMembers(t.Context(), &groupv1.WatchMembersRequest{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := slow.Recv()
	if err != nil {
		t.Fatal(err)
	}
	joinMany(t, sessions, 20000) // more than the managers keep
	at := first.GetRevision()
	for {
		message, err := slow.Recv()
		if err != nil {
			if managertest.Reason(err) != "RELIST" {
				t.Fatalf("a slow watcher is told %v, want RELIST", err)
			}
			break
		}
		if message.GetRevision() < at {
			t.Fatalf("revision %d after %d", message.GetRevision(), at)
		}
		at = message.GetRevision()
	}
	// So is a watcher that comes back too late.
	late, err := sessions.WatchMembers(t.Context(), &groupv1.WatchMembersRequest{Group: "g", ResumeRevision: first.GetRevision()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Recv(); managertest.Reason(err) != "RELIST" {
		t.Errorf("a late watcher is told %v, want RELIST", err)
	}
}

// following is what a watcher knows.
type following struct {
	mu      sync.Mutex
	members map[string]bool
}

func follow(t *testing.T, client *sdk.Client, group string) *following {
	t.Helper()
	f := &following{members: make(map[string]bool)}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	watching.Go(func() {
		for event, err := range client.WatchMembers(ctx, group) {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			f.note(event)
		}
	})
	return f
}

func (f *following) note(event sdk.MemberEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch event.Change {
	case "":
		f.members = make(map[string]bool)
		for _, member := range event.Snapshot {
			f.members[member.Name] = true
		}
	case sdk.Added:
		f.members[event.Member.Name] = true
	case sdk.Removed:
		delete(f.members, event.Member.Name)
	}
}

func (f *following) are(names ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if !f.members[name] {
			return false
		}
	}
	return len(f.members) == len(names)
}

// A client that holds a session is told when all managers are gone, since when, and when one is back.
func TestAwayManagersAreTold(t *testing.T) {
	t.Parallel()
	cluster := managertest.StartCluster(t, 1)
	leader := cluster.Leader(t)
	told := make(chan time.Time, 10)
	client, err := sdk.Dial(mustRead(t, leader.Access), sdk.WithAway(func(since time.Time) { told <- since }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	leader.Freeze(t)
	frozen := time.Now()
	if since := <-told; since.IsZero() || since.Sub(frozen) > 8*time.Second {
		t.Errorf("told of %v, want since %v", since, frozen)
	}
	leader.Thaw(t)
	if since := <-told; !since.IsZero() {
		t.Errorf("told of %v again, want that it is over", since)
	}
}

// startMember starts a manager, and has a member of a group join with a role.
func startMember(t *testing.T, role sdk.Role) (*sdk.Client, *sdk.Session) {
	t.Helper()
	client := managertest.Start(t).Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "g", Name: "m", Roles: []sdk.Role{role}})
	if err != nil {
		t.Fatal(err)
	}
	return client, session
}

// Closing a client ends all that it watches, its sessions, and whatever receives in them.
func TestClosedClientEndsAll(t *testing.T) {
	client, session := startMember(t, sdk.Receive)
	ended := make(chan error, 2)
	begun := make(chan struct{}, 1)
	go func() {
		for _, err := range client.WatchGroups(t.Context(), "") {
			if err != nil {
				ended <- err
				return
			}
			select {
			case begun <- struct{}{}:
			default:
			}
		}
	}()
	go func() {
		for _, err := range session.Receive(t.Context(), sdk.ReceiveOptions{Into: t.TempDir()}) {
			ended <- err
		}
	}()
	<-begun
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for range cap(ended) {
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("what a closed client does goes on")
		}
	}
	<-session.Done()
}

// A member that joined only to send is told that it receives nothing.
func TestSendersDoNotReceive(t *testing.T) {
	_, session := startMember(t, sdk.Send)
	var told error
	for _, err := range session.Receive(t.Context(), sdk.ReceiveOptions{Into: t.TempDir()}) {
		told = err
	}
	if sdk.CodeOf(told) != sdk.Conflict {
		t.Errorf("it is told %v", told)
	}
	if err := session.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}
