package envoy_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testprocess"
	"github.com/groupcast/groupcast/sdk"
)

// All cases share two managers; those that break something come last.
func TestEnvoy(t *testing.T) {
	s := newSite(t)
	t.Run("whole", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"the SDK and the command": s.testNative, "gRPC of others": s.testOtherGRPC, "gRPC-Web": s.testWeb, "full names": s.testFullNames, "paths": s.testPaths, "what is published": s.testPublished, "the document": s.testDocument, "a watch lives": s.testWatch,
			"a deadline ends a watch": s.testDeadline, "the log": s.testLog, "the rate": s.testRate, "who is refused": s.testRefused, "the header": s.testForged, "what is invented": s.testInvented,
			"the admin interface": s.testAdmin, "the gatherer": s.testGatherer, "a certificate renewed": s.testRenewed, "drain": s.testDrain, "stop": s.testStop,
			"too much at once": s.testBreaker, "too many connections": s.testCrowd, "long answers": s.testLong, "answers that nobody reads": s.testUnread, "one that only fails": s.testOutlier,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("a deadline over frozen managers", s.testFrozen)
	t.Run("a manager hangs", s.testHangs)
	t.Run("a manager killed", s.testKilled)
}

// "native gRPC": both ends check each other, through a proxy that cannot see in.
func (s *site) testNative(t *testing.T) {
	client, err := sdk.Dial(s.access(s.proxy))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.CreateGroup(t.Context(), "native", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	session, err := client.Join(t.Context(), sdk.Join{Group: "native", Name: "nora", Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	text, err := json.Marshal(s.access(s.proxy))
	if err != nil {
		t.Fatal(err)
	}
	access := filepath.Join(t.TempDir(), "config.yaml")
	write(t, access, text)
	said := groupcast(t, access, "group", "list")
	if !strings.Contains(said, "native") {
		t.Errorf("the command lists %s", said)
	}
}

// groupcast runs the command, which has to succeed.
func groupcast(t testing.TB, access string, arguments ...string) string {
	t.Helper()
	command := exec.Command(testprocess.Binary(t, "github.com/groupcast/groupcast/services/cli/cmd/groupcast"), arguments...)
	command.Env = append(os.Environ(), "GROUPCAST_CONFIG="+access, "HOME="+t.TempDir())
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("groupcast %s: %v: %s", strings.Join(arguments, " "), err, said)
	}
	return string(said)
}

func (s *site) groupService(t testing.TB, p *proxy, id identity.ID) groupv1.GroupServiceClient {
	t.Helper()
	tls := credentials.NewTLS(s.shows(t, certificate(t, s.ca, id)))
	connection, err := grpc.NewClient(p.at("7481"), grpc.WithTransportCredentials(tls))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return groupv1.NewGroupServiceClient(connection)
}

// gRPC from a client without our SDK goes to the same place as JSON, and errors arrive unchanged.
func (s *site) testOtherGRPC(t *testing.T) {
	service := s.groupService(t, s.proxy, operator)
	if _, err := service.ListGroups(t.Context(), &groupv1.ListGroupsRequest{}); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/grpc.health.v1.Health/Watch", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"} {
		c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
		answer, err := c.open(t, http.MethodPost, path, "\x00\x00\x00\x00\x00", http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}})
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if code := answer.Header.Get("Grpc-Status"); code == strconv.Itoa(int(codes.Unimplemented)) {
			t.Errorf("%s: %s", path, answer.Header.Get("Grpc-Message"))
		}
	}
	_, err := service.GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "nowhere"})
	if status.Code(err) != codes.NotFound || len(status.Convert(err).Details()) == 0 {
		t.Errorf("%v with %v, want NOT_FOUND with details", err, status.Convert(err).Details())
	}
}

// gRPC-Web, as a browser speaks it: the status of the call is a part of the answer's body.
func (s *site) testWeb(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	code, said := c.call(t, http.MethodPost, "/groupcast.group.v1.GroupService/ListGroups", "\x00\x00\x00\x00\x00", http.Header{"Content-Type": {"application/grpc-web+proto"}})
	if code != http.StatusOK || !strings.Contains(said, "grpc-status:0") {
		t.Errorf("%d %q", code, said)
	}
	counted := regexp.MustCompile(`\{[^}]*grpc_method="ListGroups"[^}]*grpc_service="groupcast\.group\.v1\.GroupService"|\{[^}]*grpc_service="groupcast\.group\.v1\.GroupService"[^}]*grpc_method="ListGroups"`)
	eventually(t, "it is counted by service and method", func() bool {
		return counted.MatchString(s.proxy.ask(http.MethodGet, "/stats/prometheus"))
	})
}

// "HTTP/JSON transcoding of the whole public API": methods can be called by their full names, whether they have a path
// of their own or not.
func (s *site) testFullNames(t *testing.T) {
	const service = "/groupcast.group.v1."
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	c.wants(t, http.MethodPost, service+"GroupService/CreateGroup", `{"name": "json"}`, `"name":"json"`, `"etag"`)
	c.wants(t, http.MethodPost, service+"GroupService/ListGroups", `{}`, `"json"`)
	c.wants(t, http.MethodPost, service+"SessionService/ListMembers", `{"group": "json"}`, "{}")
	c.wants(t, http.MethodPost, service+"DeliveryService/ListDeliveries", `{"group": "json"}`, "{}")
	c.wants(t, http.MethodPost, service+"ManagerService/GetStatus", `{}`, `"leader":"manager-`)
	c.wants(t, http.MethodPost, "/groupcast.agent.v1.AgentService/ListAgents", `{}`, "{}")
	for _, method := range [][3]string{{http.MethodPost, "/groupcast.gather.v1.GathererService/ListGatherers", "{}"}, {http.MethodGet, "/v1/gatherers", ""}} {
		c.wants(t, method[0], method[1], method[2], "{") // there are none, or those of a test that runs beside this one
	}
	c.wants(t, http.MethodPost, "/groupcast.replica.v1.ReplicationService/ListReplications", `{}`, "{}")
	c.wants(t, http.MethodPost, "/groupcast.replica.v1.ReplicatorService/ListReplicators", `{}`, "{}")
	c.wants(t, http.MethodPost, service+"SessionService/KeepSession", `[{"group": "json", "name": "nobody"}]`, `"managerTime"`)
	for path, want := range map[string]int{
		service + "GroupService/GetGroup":                http.StatusNotFound,
		service + "IdentityService/CreateToken":          http.StatusNotFound,           // identities are not made this way
		"/groupcast.gather.v1.GatherService/ListClients": http.StatusServiceUnavailable, // there is no gatherer
		"/": http.StatusNotFound,
	} {
		if code, said := c.call(t, http.MethodPost, path, `{"name": "nowhere"}`, nil); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, said, want)
		}
	}
	if code, said := c.call(t, http.MethodPost, groups, `{"nmae": "x"}`, nil); code != http.StatusBadRequest {
		t.Errorf("a field that there is not: %d %s", code, said)
	}
}

// long is longer than the time after which Envoy cuts calls by default: 15 s.
const long = 20 * time.Second

// "no 15-second cut of streams": a watch begins, and goes on.
func (s *site) testWatch(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	w := c.watch(t, http.MethodGet, watchGroups, nil)
	for time.Since(w.begun) < long {
		if _, on := w.next(t); !on {
			t.Fatalf("the watch ended after %v", time.Since(w.begun))
		}
	}
	c.wants(t, http.MethodPost, groups, `{"name": "late"}`)
	w.until(t, `"late"`)
}

// "deadlines": the caller's grpc-timeout ends what would otherwise go on for ever, and not before its time.
func (s *site) testDeadline(t *testing.T) {
	own := identity.ID{Role: identity.Operator, Name: "in-a-hurry"}
	c := s.caller(t, s.proxy, certificate(t, s.ca, own))
	w := c.watch(t, http.MethodPost, "/groupcast.group.v1.GroupService/WatchGroups", http.Header{"Grpc-Timeout": {"5S"}})
	for {
		if _, on := w.next(t); !on {
			break
		}
	}
	if took := time.Since(w.begun); took > long {
		t.Errorf("a watch with a deadline of 5 s took %v", took)
	}
	line := s.proxy.logged(t, func(line logLine) bool { return line.Caller == own.URI(sdk.DefaultTrustDomain).String() })
	lasted := time.Duration(line.Milliseconds) * time.Millisecond
	// The manager also knows the deadline, and may be the first to act on it.
	isDeadline := line.Details == "max_duration_timeout" || strings.HasPrefix(line.Details, "upstream_reset_after_response_started")
	if lasted < 4*time.Second || lasted > long || line.Status != http.StatusOK || !isDeadline { // a timer may be slightly early
		t.Errorf("a watch with a deadline of 5 s ended after %v with %d, %s", lasted, line.Status, line.Details)
	}
}
