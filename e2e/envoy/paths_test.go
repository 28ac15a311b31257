package envoy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/sdk"
)

// document is the published description of the API as HTTP.
const document = "../../docs/openapi.yaml"

// operations returns the document's operations: the verbs of each path, and the method of each.
func operations(t testing.TB) (paths map[string]map[string]struct{ OperationID string }) {
	t.Helper()
	var published struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := yaml.Unmarshal(read(t, document), &published); err != nil {
		t.Fatal(err)
	}
	return published.Paths
}

// pathless are methods without a path: they belong to an upload, whose client speaks gRPC on the stream that it has.
var pathless = []string{"GatherService_OpenUpload", "GatherService_FindFiles", "GatherService_FinishUpload"}

// "the whole public API": all methods are published except those with streams in both directions, uploads, and
// identities, which are not created through a gateway.
func TestEveryMethodIsPublished(t *testing.T) {
	published := make(map[string]bool)
	for _, verbs := range operations(t) {
		for _, operation := range verbs {
			published[operation.OperationID] = true
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		groupv1.File_groupcast_group_v1_group_proto, groupv1.File_groupcast_group_v1_session_proto, groupv1.File_groupcast_group_v1_delivery_proto,
		groupv1.File_groupcast_group_v1_manager_proto, agentv1.File_groupcast_agent_v1_agent_proto, replicav1.File_groupcast_replica_v1_replication_proto,
		gatherv1.File_groupcast_gather_v1_gather_proto, gatherv1.File_groupcast_gather_v1_gatherer_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				named := proto.HasExtension(method.Options(), annotations.E_Http)
				name := string(method.Parent().Name() + "_" + method.Name())
				if want := !method.IsStreamingClient() && !slices.Contains(pathless, name); named != want || published[name] != want {
					t.Errorf("%s: has a path: %v, is published: %v, want %v", name, named, published[name], want)
				}
			}
		}
	}
}

// "OpenAPI document published": also at the API itself.
func (s *site) testDocument(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	answer, err := c.open(t, http.MethodGet, "/openapi.yaml", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/yaml" || string(text) != string(read(t, document)) {
		t.Errorf("%s of %s, %d bytes, %v; want %s", answer.Status, answer.Header.Get("Content-Type"), len(text), err, document)
	}
}

var variable = regexp.MustCompile(`\{[^}]*\}`)

// Envoy accepts what the document describes: a manager answers, if only with an error.
func (s *site) testPublished(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	c.published(t, func(path string) bool { return !isGatherers(path) })
}

// isGatherers reports whether a path is answered by the gatherer.
func isGatherers(path string) bool { return strings.HasPrefix(path, "/v1/gathering/") }

// published checks all published paths that are asked for: the server that is to answer does.
func (c caller) published(t *testing.T, asked func(path string) bool) {
	t.Helper()
	for path, verbs := range operations(t) {
		if !asked(path) {
			continue
		}
		for verb, operation := range verbs {
			body := ""
			if verb == "post" || verb == "patch" || verb == "put" {
				body = "{}"
			}
			answer, err := c.open(t, strings.ToUpper(verb), variable.ReplaceAllString(path, "0000"), body, http.Header{"Grpc-Timeout": {"30S"}})
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != http.StatusOK && !ofManager(answer.Body) {
				t.Errorf("%s, %s %s: %s, and not by whose it is", operation.OperationID, verb, path, answer.Status)
			}
			answer.Body.Close()
		}
	}
}

// ofManager reports whether an error is one of the managers' own: with a code, and words for people.
func ofManager(body io.Reader) bool {
	var said struct {
		Code    int
		Message string
	}
	return json.NewDecoder(body).Decode(&said) == nil && said.Code > 0 && said.Message != ""
}

// "so that curl is pleasant"
func (s *site) testPaths(t *testing.T) {
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	c.wants(t, http.MethodPost, "/v1/groups", `{"name": "paths", "policy": {"ackLevel": "ACK_LEVEL_DURABLE"}}`, `"name":"paths"`)
	c.wants(t, http.MethodGet, "/v1/groups", "", `"paths"`)
	c.wants(t, http.MethodGet, "/v1/groups/paths", "", `"ACK_LEVEL_DURABLE"`)
	c.wants(t, http.MethodPatch, "/v1/groups/paths", `{"policy": {"latencyBound": "3s"}, "updateMask": "latencyBound"}`, `"3s"`, `"ACK_LEVEL_DURABLE"`)
	c.wants(t, http.MethodPost, "/v1/groups/paths/members", `{"name": "peter", "node": "n", "addresses": ["127.0.0.1:1"]}`, `"peter"`)
	c.wants(t, http.MethodGet, "/v1/groups/paths/members?page_size=7", "", `"peter"`)
	c.wants(t, http.MethodDelete, "/v1/groups/paths/members/peter", "")
	c.wants(t, http.MethodGet, "/v1/deliveries?group=paths", "")
	c.wants(t, http.MethodGet, "/v1/status", "", `"leader":"manager-`)
	c.wants(t, http.MethodGet, "/v1/agents", "")
	c.wants(t, http.MethodGet, "/v1/replications", "")
	c.wants(t, http.MethodGet, "/v1/replicators", "")
	w := c.watch(t, http.MethodGet, "/v1/groups:watch?name=paths", nil)
	w.until(t, `"snapshot":[{"name":"paths"`)
	c.wants(t, http.MethodDelete, "/v1/groups/paths?force=true", "")
	w.until(t, "CHANGE_TYPE_REMOVED")
	for path, want := range map[string]int{
		"/v1/groups/paths": http.StatusNotFound, "/v1/nothing": http.StatusNotFound,
		"/v1/groups?pagesize=7": http.StatusBadRequest, "/v1/groups?page_size=many": http.StatusBadRequest,
	} {
		if code, said := c.call(t, http.MethodGet, path, "", nil); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, said, want)
		}
	}
}

// What the managers answer may be as long in JSON as in gRPC: a page of members with the longest descriptions of
// themselves that are allowed.
func (s *site) testLong(t *testing.T) {
	s.fill(t, "long")
	const longest = 3 << 20 // three quarters of what a page has are values
	c := s.caller(t, s.proxy, certificate(t, s.ca, operator))
	for _, path := range []string{"/v1/groups/long/members?page_size=1000", "/groupcast.group.v1.SessionService/ListMembers"} {
		method, body := http.MethodGet, ""
		if !strings.HasPrefix(path, "/v1") {
			method, body = http.MethodPost, `{"group": "long", "page_size": 1000}`
		}
		if code, said := c.call(t, method, path, body, nil); code != http.StatusOK || len(said) < longest {
			t.Errorf("%s: %d %.200s… of %d bytes, want %d at least", path, code, said, len(said), longest)
		}
	}
}

// fill makes a group whose page of members is as long as possible.
func (s *site) fill(t *testing.T, group string) {
	t.Helper()
	client := s.Client(t)
	if _, err := client.CreateGroup(t.Context(), group, sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	labels := make(map[string]string)
	for i := range 64 {
		labels[fmt.Sprintf("%0253d", i)] = strings.Repeat("\x01", 253) // six bytes each in JSON
	}
	for i := range 40 {
		if _, err := client.Join(t.Context(), sdk.Join{Group: group, Name: fmt.Sprintf("m-%d", i), Labels: labels}); err != nil {
			t.Fatal(err)
		}
	}
}
