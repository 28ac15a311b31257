package manager_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Who watches revocations is told those that were made, then each as it is made, and misses none of those that are
// made while its connection is broken.
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
