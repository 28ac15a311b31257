package api_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/gathered"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/noroom"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/policy"
	"github.com/groupcast/groupcast/services/gatherer/api"
	"github.com/groupcast/groupcast/services/gatherer/grant"
	"github.com/groupcast/groupcast/services/gatherer/revocation"
	"github.com/groupcast/groupcast/services/gatherer/roster"
)

// matrix says who may call what: it is written from the documents of the RPCs, not from the
// server's own table.
var matrix = map[string]string{
	"Attach": "agent member operator", "OpenUpload": "agent member operator", "FinishUpload": "agent member operator", "FindFiles": "agent member operator",
	"GetPolicy": "operator", "SetPolicy": "operator", "ListClients": "operator", "WatchClients": "operator",
}

// The table has every method of the service, with exactly who may call it, and nothing else. Only the health service may be
// called by anybody.
func TestWhoMayCallWhat(t *testing.T) {
	known := make(map[string]bool)
	for _, service := range []grpc.ServiceDesc{gatherv1.GatherService_ServiceDesc, healthv1.Health_ServiceDesc, reflectionv1.ServerReflection_ServiceDesc, reflectionv1alpha.ServerReflection_ServiceDesc} {
		for _, method := range methodsOf(service) {
			full := fmt.Sprintf("/%s/%s", service.ServiceName, method)
			known[full] = true
			want, listed := matrix[method]
			switch service.ServiceName {
			case healthv1.Health_ServiceDesc.ServiceName:
				want = names(identity.Roles)
			case gatherv1.GatherService_ServiceDesc.ServiceName:
				if !listed {
					t.Errorf("nobody has said who may call %s", method)
				}
			default:
				want = "operator"
			}
			if got := names(api.Rules[full]); got != want {
				t.Errorf("%s may be called by %q, want %q", full, got, want)
			}
		}
	}
	for full := range api.Rules {
		if !known[full] {
			t.Errorf("%s is no method", full)
		}
	}
}

func methodsOf(service grpc.ServiceDesc) (methods []string) {
	for _, method := range service.Methods {
		methods = append(methods, method.MethodName)
	}
	for _, stream := range service.Streams {
		methods = append(methods, stream.StreamName)
	}
	return methods
}

func names(roles []identity.Role) string {
	set := make(map[string]bool)
	for _, role := range roles {
		set[fmt.Sprint(role)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), " ")
}

// Every error that the roster and sinks return on purpose has a code of its own, and none is an
// internal one.
func TestErrorsHaveCodes(t *testing.T) {
	for _, err := range []error{
		roster.ErrSession, roster.ErrUpload, roster.ErrName, roster.ErrNoName, roster.ErrLabels, roster.ErrRefused, roster.ErrKept, roster.ErrCrowded, roster.ErrStored, roster.ErrUnfinished,
		roster.ErrStopping, roster.ErrPolicy, roster.ErrStale, gathered.ErrPath, revocation.ErrRevoked, revocation.ErrUnsure, grant.ErrUnsure, object.ErrName, object.ErrDamaged, noroom.Err, object.ErrBusy,
		roster.ErrDisk, roster.ErrUnwritable, roster.ErrUncounted,
	} {
		if code := status.Code(api.ToStatus(fmt.Errorf("open: %w", err))); code == codes.Internal || code == codes.Unknown {
			t.Errorf("%v is %v", err, code)
		}
	}
}

// A request without a policy replaces none; an empty policy is one.
func TestPolicyThatIsMissing(t *testing.T) {
	before := policy.Policy{TrustLabels: true}
	agreed, err := roster.OpenPolicy(slog.New(slog.DiscardHandler), filepath.Join(t.TempDir(), "policy.yaml"), before)
	if err != nil {
		t.Fatal(err)
	}
	server := &api.Server{Policy: agreed}
	_, err = server.SetPolicy(t.Context(), &gatherv1.SetPolicyRequest{})
	if now, _ := agreed.Get(); status.Code(api.ToStatus(err)) != codes.InvalidArgument || !now.TrustLabels {
		t.Errorf("%v, and the policy is %+v", err, now)
	}
	_, err = server.SetPolicy(t.Context(), &gatherv1.SetPolicyRequest{Policy: &gatherv1.Policy{}})
	if now, _ := agreed.Get(); err != nil || now.TrustLabels {
		t.Errorf("%v, and the policy is %+v", err, now)
	}
}

// A policy that is wrong replaces none, and what is wrong is named, also if it can be written and the next start could not read it.
func TestPolicyThatIsWrong(t *testing.T) {
	for says, wrong := range map[string]*gatherv1.Policy{
		"minimum 2B is more than target 1B":    {DefaultShare: &gatherv1.Share{TargetBytesPerSecond: 1, MinimumBytesPerSecond: 2}},
		`default.max: "18446744073709551615B"`: {DefaultShare: &gatherv1.Share{MaxBytesPerSecond: math.MaxUint64}},
		`link: "18446744073709551614B"`:        {LinkBytesPerSecond: math.MaxUint64 - 1},
	} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		agreed, err := roster.OpenPolicy(slog.New(slog.DiscardHandler), file, policy.Policy{TrustLabels: true})
		if err != nil {
			t.Fatal(err)
		}
		_, before := agreed.Get()
		_, err = (&api.Server{Policy: agreed}).SetPolicy(t.Context(), &gatherv1.SetPolicyRequest{Policy: wrong})
		if answer := api.ToStatus(err); status.Code(answer) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(answer), says) {
			t.Errorf("%v, want %s", answer, says)
		}
		if now, revision := agreed.Get(); !now.TrustLabels || revision != before {
			t.Errorf("the policy is %+v of revision %d, after %d", now, revision, before)
		}
		if _, err := roster.OpenPolicy(slog.New(slog.DiscardHandler), file, policy.Policy{}); err != nil {
			t.Errorf("the next start: %v", err)
		}
	}
}
