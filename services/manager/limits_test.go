package manager_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A join that was acknowledged is not undone by a deletion that was not forced.
func TestDeleteDoesNotRaceJoins(t *testing.T) {
	m := managertest.Start(t)
	connection := managertest.Dial(t, mustRead(t, m.Access))
	groups, sessions := groupv1.NewGroupServiceClient(connection), groupv1.NewSessionServiceClient(connection)
	both := 0
	for i := range 100 {
		name := fmt.Sprintf("g-%d", i)
		if _, err := groups.CreateGroup(t.Context(), &groupv1.CreateGroupRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
		var racing sync.WaitGroup
		var joinErr, deleteErr error
		racing.Go(func() { _, joinErr = sessions.Join(t.Context(), &groupv1.JoinRequest{Group: name, Name: "m"}) })
		racing.Go(func() { _, deleteErr = groups.DeleteGroup(t.Context(), &groupv1.DeleteGroupRequest{Name: name}) })
		racing.Wait()
		if joinErr == nil && deleteErr == nil {
			both++
		}
	}
	if both > 0 {
		t.Errorf("of 100 joins, %d were acknowledged and then deleted", both)
	}
}

// As many members as the limit says can join at once, and not one more.
func TestMemberLimitUnderConcurrentJoins(t *testing.T) {
	const limit = 50
	m := managertest.Start(t)
	client := m.Client(t)
	sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	for round := range 5 {
		group := fmt.Sprintf("g-%d", round)
		if _, err := client.CreateGroup(t.Context(), group, sdk.Policy{Limits: sdk.Limits{MaxMembers: limit}}); err != nil {
			t.Fatal(err)
		}
		join := func(members int) (refused int) {
			var joining sync.WaitGroup
			var mu sync.Mutex
			for i := range members {
				joining.Go(func() {
					_, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: group, Name: fmt.Sprintf("m-%d", i)})
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						refused++
					}
				})
			}
			joining.Wait()
			return refused
		}
		if refused := join(limit); refused > 0 {
			t.Errorf("%d of %d joins were refused by a limit of %d", refused, limit, limit)
		}
		if refused := join(limit + 10); refused != 10 {
			t.Errorf("%d joins were refused, want the 10 that are new", refused)
		}
	}
}

// A member has several sessions in a group, under its name and parts of it, but not any number. All end
// when it is revoked.
func TestSessionsOfOneMember(t *testing.T) {
	const most = 64
	m := managertest.Start(t)
	operator := m.Client(t)
	for _, group := range []string{"g", "h"} {
		if _, err := operator.CreateGroup(t.Context(), group, sdk.Policy{MembersRelay: true}); err != nil {
			t.Fatal(err)
		}
	}
	conn := managertest.Dial(t, letIn(t, mustRead(t, m.Access), "member", "alice", "*"))
	sessions := groupv1.NewSessionServiceClient(conn)
	join := func(group, name, reason string) {
		t.Helper()
		if _, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: group, Name: name}); managertest.Reason(err) != reason {
			t.Errorf("join %s as %s: %v, want reason %q", group, name, err, reason)
		}
	}
	join("g", "bob.alice", "DENIED")
	join("g", "alice.a.b", "INVALID")
	join("g", "alice", "")
	for i := range most - 1 {
		join("g", fmt.Sprint("alice.push-", i), "")
	}
	join("g", "alice.more", "TOO_MANY_SESSIONS")
	join("g", "alice.push-0", "")
	join("h", "alice.more", "")
	relay := &groupv1.IssueRelayRequest{Group: "g", Member: "alice.push-0"}
	if _, err := groupv1.NewIdentityServiceClient(conn).IssueRelay(t.Context(), relay); managertest.Reason(err) != "INVALID" {
		t.Errorf("one of several sessions relays: %v", err)
	}
	if err := operator.Revoke(t.Context(), "member", "alice"); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"g", "h"} {
		if left, err := operator.Members(t.Context(), group); err != nil || len(left) > 0 {
			t.Errorf("%s: %v of a member that was revoked are left, %v", group, left, err)
		}
	}
}

// An etag of a group is not good for a later one of the same name.
func TestEtagsAreNotReused(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	old, err := client.CreateGroup(t.Context(), "g", sdk.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteGroup(t.Context(), "g", false); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateGroup(t.Context(), "g", sdk.Policy{AckLevel: sdk.Relayed}, old.Etag, "ack_level"); sdk.CodeOf(err) != sdk.Conflict {
		t.Errorf("an update with the etag of an earlier group: %v, want a conflict", err)
	}
}

// A request of absurd length is refused shortly, and at little cost.
func TestAbsurdJoins(t *testing.T) {
	p := managertest.NewProcess(t, t.TempDir())
	p.Start(t)
	p.WaitServing(t)
	if _, err := p.Client(t).CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, mustRead(t, p.Access)))
	many := make([]string, 500_000)
	for name, join := range map[string]*groupv1.JoinRequest{
		"roles":     {Group: "g", Name: "m", Roles: make([]groupv1.Role, 3<<20)},
		"addresses": {Group: "g", Name: "m", Addresses: many},
		"group":     {Group: strings.Repeat("x", 3<<20), Name: "m"},
	} {
		for range 5 {
			if _, err := sessions.Join(t.Context(), join); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %.200v, want it refused", name, err)
			}
		}
	}
	if peak := peakMemory(t, p.PID()); peak > 250<<20 {
		t.Errorf("the manager took %d MiB", peak>>20)
	}
}

// What members say of themselves can be so much that few fit into one message:
// lists, snapshots and changes then come in more of them.
func TestMembersOfMaximalSize(t *testing.T) {
	const members = 200 // of some 37 KB
	m := managertest.Start(t)
	client := m.Client(t)
	if _, err := client.CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	labels := make(map[string]string)
	for i := range 64 {
		labels[fmt.Sprintf("%0250d", i)] = strings.Repeat("x", 253)
	}
	known := follow(t, client, "g")
	sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	names := make([]string, members)
	for i := range names {
		names[i] = fmt.Sprintf("m-%03d", i)
		if _, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: names[i], Labels: labels}); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := client.Members(t.Context(), "g")
	if err != nil || len(listed) != members {
		t.Errorf("%d members are listed (%v), want %d", len(listed), err, members)
	}
	eventually(t, 30*time.Second, "a watcher saw all changes", func() bool { return known.are(names...) })
	fresh := follow(t, client, "g")
	eventually(t, 30*time.Second, "a watcher saw the whole snapshot", func() bool { return fresh.are(names...) })
}

// A watcher that comes from the future, as after a backup was restored, is told to list again.
func TestWatchFromTheFuture(t *testing.T) {
	m := managertest.Start(t)
	if _, err := m.Client(t).CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	connection := managertest.Dial(t, mustRead(t, m.Access))
	members, err := groupv1.NewSessionServiceClient(connection).WatchMembers(t.Context(), &groupv1.WatchMembersRequest{Group: "g", ResumeRevision: 1e9})
	if err == nil {
		_, err = members.Recv()
	}
	if managertest.Reason(err) != "RELIST" {
		t.Errorf("members: %v, want RELIST", err)
	}
	groups, err := groupv1.NewGroupServiceClient(connection).WatchGroups(t.Context(), &groupv1.WatchGroupsRequest{ResumeRevision: 1e9})
	if err == nil {
		_, err = groups.Recv()
	}
	if managertest.Reason(err) != "RELIST" {
		t.Errorf("groups: %v, want RELIST", err)
	}
}

// More sessions than one connection has streams are kept through a follower.
func TestManySessionsThroughAFollower(t *testing.T) {
	const members = 1500
	cluster := managertest.StartCluster(t, 2)
	follower := cluster.Follower(cluster.Leader(t))
	if _, err := follower.Client(t).CreateGroup(t.Context(), "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	config := mustRead(t, follower.Access)
	var keeping sync.WaitGroup
	var failed sync.Once
	for range 3 {
		sessions := groupv1.NewSessionServiceClient(managertest.Dial(t, config))
		base := fmt.Sprintf("%p", sessions)[2:]
		keeping.Go(func() {
			for i := range members / 3 {
				name := fmt.Sprintf("m-%s-%d", base, i)
				joined, err := sessions.Join(t.Context(), &groupv1.JoinRequest{Group: "g", Name: name})
				if err == nil {
					stream, openErr := sessions.KeepSession(t.Context())
					if err = openErr; err == nil {
						err = stream.Send(&groupv1.KeepSessionRequest{Group: "g", Name: name, Incarnation: joined.GetMember().GetIncarnation()})
					}
					if err == nil {
						_, err = stream.Recv()
					}
				}
				if err != nil {
					failed.Do(func() { t.Errorf("session %d of a connection: %v", i, err) })
					return
				}
			}
		})
	}
	keeping.Wait()
	if _, err := follower.Client(t).CreateGroup(t.Context(), "after", sdk.Policy{}); err != nil {
		t.Errorf("a write through the follower after that: %v", err)
	}
}

// Managers cannot be revoked: nothing could keep them out, or let them back in.
func TestManagersCannotBeRevoked(t *testing.T) {
	m := managertest.Start(t)
	if err := m.Client(t).Revoke(t.Context(), "manager", "manager-0"); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("revoked a manager: %v, want it refused", err)
	}
}
