package manager_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A client that watches revocations is told those that were made, then each as it is made. It misses none of those that are made while its
// connection is broken.
func TestRevocationsAreWatched(t *testing.T) {
	m := managertest.Start(t)
	client := m.Client(t)
	rpc := groupv1.NewIdentityServiceClient(managertest.Dial(t, mustRead(t, m.Access)))
	revoke := func(name string) {
		t.Helper()
		if err := client.Revoke(t.Context(), "member", name); err != nil {
			t.Fatal(err)
		}
	}
	watch := func(resume uint64) func() *groupv1.WatchRevocationsResponse {
		stream, err := rpc.WatchRevocations(t.Context(), &groupv1.WatchRevocationsRequest{ResumeRevision: resume})
		if err != nil {
			t.Fatal(err)
		}
		return func() *groupv1.WatchRevocationsResponse {
			for {
				message, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if len(message.GetChanges()) > 0 || len(message.GetSnapshot()) > 0 {
					return message
				}
			}
		}
	}
	want := func(got []*groupv1.Revocation, name string) {
		t.Helper()
		if len(got) != 1 || got[0].GetName() != name || got[0].GetRole() != "member" || got[0].GetStamp() == 0 {
			t.Errorf("got %v, want one revocation of %s", got, name)
		}
	}
	revoke("alice")
	next := watch(0)
	want(next().GetSnapshot(), "alice")
	revoke("bob")
	last := next()
	want(last.GetChanges(), "bob")
	revoke("carol")
	want(watch(last.GetRevision())().GetChanges(), "carol")
	later, err := rpc.WatchRevocations(t.Context(), &groupv1.WatchRevocationsRequest{ResumeRevision: 1e9})
	if err == nil {
		_, err = later.Recv()
	}
	if status.Code(err) != codes.OutOfRange {
		t.Errorf("from a revision to come: %v", err)
	}
}

// A client that watches grants is told which groups members may join, and each change: a later token's groups replace the earlier ones, and a
// revocation changes none.
func TestGrantsAreWatched(t *testing.T) {
	m := managertest.Start(t)
	client, access := m.Client(t), mustRead(t, m.Access)
	letIn(t, access, "member", "alice", "icu")
	letIn(t, access, "agent", "a1")
	stream, err := groupv1.NewIdentityServiceClient(managertest.Dial(t, access)).WatchGrants(t.Context(), &groupv1.WatchGrantsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *groupv1.WatchGrantsResponse {
		for {
			message, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if len(message.GetChanges()) > 0 || len(message.GetSnapshot()) > 0 {
				return message
			}
		}
	}
	want := func(got []*groupv1.Grant, member string, groups ...string) {
		t.Helper()
		if len(got) != 1 || got[0].GetMember() != member || !slices.Equal(got[0].GetGroups(), groups) {
			t.Errorf("got %v, want one grant of %q to %s", got, groups, member)
		}
	}
	want(next().GetSnapshot(), "alice", "icu")
	if err := client.Revoke(t.Context(), "member", "alice"); err != nil {
		t.Fatal(err)
	}
	letIn(t, access, "member", "bob", "*")
	want(next().GetChanges(), "bob", "*")
	letIn(t, access, "member", "alice", "lab", "icu")
	want(next().GetChanges(), "alice", "lab", "icu")
}
