package manager_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A pod of another ServiceAccount, a join token that was used, a member in a group that it may not see, and a caller that may not make the
// call: each is a refused call, and the log says whose token it was.
func TestRefusedCallsAreCounted(t *testing.T) {
	useAPIServer(t)
	m := withAccounts(t, t.TempDir(), "training/publisher=models")
	used := createToken(t, m.Client(t), time.Minute)
	if _, err := enroll(t, m.Address, used, request(t)); err != nil {
		t.Fatal(err)
	}
	for n, token := range []string{used, podToken(t, "elsewhere/agent", "agent-x7k")} {
		_, err := enroll(t, m.Address, token, request(t))
		wantTokenRefused(t, err)
		wantRefusals(t, m, groupv1.IdentityService_Enroll_FullMethodName, float64(n+1))
	}
	if said := m.Said(); !strings.Contains(said, "account=elsewhere/agent pod=agent-x7k") || !strings.Contains(said, "token_id="+strings.Split(used, ".")[1]) {
		t.Errorf("the log does not say whose tokens were refused:\n%s", said)
	}

	member := groupv1.NewGroupServiceClient(managertest.Dial(t, m.Enroll(t, sdk.Token{Role: "member", Name: "bob", Groups: []string{"models"}})))
	if _, err := member.GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "secrets"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a group that the member may not see: %v", err)
	}
	wantRefusals(t, m, groupv1.GroupService_GetGroup_FullMethodName, 1)
	if _, err := member.ListGroups(t.Context(), &groupv1.ListGroupsRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a call that is not for members: %v", err)
	}
	wantRefusals(t, m, groupv1.GroupService_ListGroups_FullMethodName, 1)
	if took := labelled(t, m, "groupcast_manager_call_duration_seconds", groupv1.GroupService_ListGroups_FullMethodName).GetHistogram().GetSampleCount(); took != 1 {
		t.Errorf("that call was measured %d times, want once", took)
	}
	if _, err := member.GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "models"}); status.Code(err) != codes.NotFound {
		t.Errorf("a group that is not there: %v", err)
	}
	wantRefusals(t, m, groupv1.GroupService_GetGroup_FullMethodName, 1)
}

// What one manager passes on, and the leader refuses, is one refused call.
func TestRefusedCallIsCountedByTheManagerThatRefusesIt(t *testing.T) {
	s := startSeveral(t)
	follower := s.follow(t, "follower")
	_, err := enroll(t, follower.Address, createToken(t, s.asked.Client(t), time.Minute)+"x", request(t))
	wantTokenRefused(t, err)
	wantRefusals(t, s.asked, groupv1.IdentityService_Enroll_FullMethodName, 1)
	wantRefusals(t, follower, groupv1.IdentityService_Enroll_FullMethodName, 0)
}

// What one manager passes on to the leader is one call, or one stream: that of the manager that the caller is connected with.
func TestCallThatIsPassedOnIsCountedOnce(t *testing.T) {
	s := startSeveral(t)
	follower := s.follow(t, "follower")
	client := follower.Client(t)
	if _, err := client.CreateGroup(t.Context(), "models", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "models", Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	kept := func(m *managertest.Manager) float64 {
		return labelled(t, m, "groupcast_manager_streams", groupv1.SessionService_KeepSession_FullMethodName).GetGauge().GetValue()
	}
	eventually(t, 10*time.Second, "the session is kept", func() bool { return kept(follower) == 1 })
	for m, want := range map[*managertest.Manager]uint64{follower: 1, s.asked: 0} {
		called := labelled(t, m, "groupcast_manager_call_duration_seconds", groupv1.GroupService_CreateGroup_FullMethodName).GetHistogram().GetSampleCount()
		if called != want || kept(m) != float64(want) {
			t.Errorf("%s: groups were created %d times, and %v sessions are kept, want %d", m.Config.Name, called, kept(m), want)
		}
	}
}

// follow starts one more manager in the test's process, beside the one that leads.
func (s *several) follow(t *testing.T, name string) *managertest.Manager {
	t.Helper()
	config := managertest.Config(filepath.Join(s.dir, name))
	config.Name, config.Store.Endpoints, config.Identity.CADir = name, []string{s.etcd.Endpoint}, filepath.Join(s.dir, "ca")
	return managertest.Run(t, config)
}

func wantRefusals(t *testing.T, m *managertest.Manager, method string, want float64) {
	t.Helper()
	if got := labelled(t, m, "groupcast_manager_refused_calls_total", method).GetCounter().GetValue(); got != want {
		t.Errorf("%s was refused %v times, want %v", method, got, want)
	}
}

// labelled returns a metric of a manager that has a value of a label.
func labelled(t *testing.T, m *managertest.Manager, name, value string) *dto.Metric {
	t.Helper()
	for _, metric := range metrics(t, m, name) {
		for _, label := range metric.GetLabel() {
			if label.GetValue() == value {
				return metric
			}
		}
	}
	return nil
}
