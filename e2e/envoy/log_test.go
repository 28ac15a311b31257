package envoy_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// logLine is a line of Envoy's access log: of a call, or of a connection that passed through.
type logLine struct {
	Listener     string
	Start        time.Time
	Milliseconds int `json:"duration_ms"`
	Peer         string
	Received     *int
	Sent         *int
	Flags        *string

	Caller, Method, Path string
	Status               int
	GRPCStatus           string `json:"grpc_status"`
	Details, Manager     string

	Upstream string
}

// logged waits for a line of the access log. Envoy writes every ten seconds.
func (p *proxy) logged(t *testing.T, is func(logLine) bool) (found logLine) {
	t.Helper()
	eventually(t, "the line is in the log", func() bool {
		for text := range strings.Lines(p.said.String()) {
			var line logLine
			if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "\n") {
				continue
			}
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if is(line) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// "JSON access log": who called what, which manager did it, and how that ended; and whose connections were passed
// through, and to which manager.
func (s *site) testLog(t *testing.T) {
	jason, gregory := identity.ID{Role: identity.Operator, Name: "jason"}, identity.ID{Role: identity.Operator, Name: "gregory"}
	before := time.Now().Add(-time.Second)
	c := s.caller(t, s.proxy, certificate(t, s.ca, jason))
	if code, said := c.call(t, http.MethodGet, "/v1/groups/nowhere", "", nil); code != http.StatusNotFound {
		t.Errorf("%d %s", code, said)
	}
	if _, err := s.groupService(t, s.proxy, gregory).GetGroup(t.Context(), &groupv1.GetGroupRequest{Name: "nowhere"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	through, err := tls.Dial("tcp", s.proxy.at("7480"), &tls.Config{InsecureSkipVerify: true}) // it does not matter who the manager is
	if err != nil {
		t.Fatal(err)
	}
	through.Close()
	by := func(id identity.ID) func(logLine) bool {
		return func(line logLine) bool { return line.Caller == id.URI(sdk.DefaultTrustDomain).String() }
	}
	s.wantsLogged(t, before, s.proxy.logged(t, by(jason)), logLine{Listener: "http", Method: http.MethodGet, Path: "/v1/groups/nowhere", Status: http.StatusNotFound})
	s.wantsLogged(t, before, s.proxy.logged(t, by(gregory)), logLine{
		Listener: "http", Method: http.MethodPost, Path: "/groupcast.group.v1.GroupService/GetGroup", Status: http.StatusOK, GRPCStatus: "5", // NOT_FOUND
	})
	s.wantsLogged(t, before, s.proxy.logged(t, func(line logLine) bool { return line.Peer == through.LocalAddr().String() }), logLine{Listener: "grpc"})
}

// wantsLogged checks that a line says what is wanted of a call or a connection, and for each who, when, how much and
// with which manager.
func (s *site) wantsLogged(t *testing.T, before time.Time, line, want logLine) {
	t.Helper()
	if line.Listener != want.Listener || line.Method != want.Method || line.Path != want.Path || line.Status != want.Status || line.GRPCStatus != want.GRPCStatus {
		t.Errorf("it is logged as %+v, want %+v", line, want)
	}
	if line.Start.Before(before) || line.Start.After(time.Now()) || line.Peer == "" || line.Received == nil || line.Sent == nil || line.Flags == nil {
		t.Errorf("%+v: who, when and how much are not all there", line)
	}
	if !slices.ContainsFunc(s.Managers, func(m *managertest.Process) bool { return m.Address == line.Manager+line.Upstream }) {
		t.Errorf("%+v: it is not said which manager it was", line)
	}
}
