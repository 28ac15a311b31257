package api

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/placement"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

func TestErrorsBecomeCodesAndReasons(t *testing.T) {
	for _, tt := range []struct {
		err    error
		code   codes.Code
		reason string
	}{
		{ledger.ErrNotFound, codes.NotFound, "NOT_FOUND"},
		{ledger.ErrExists, codes.AlreadyExists, "EXISTS"},
		{group.ErrStale, codes.Aborted, "ETAG_MISMATCH"},
		{group.ErrInUse, codes.FailedPrecondition, "GROUP_IN_USE"},
		{group.ErrRoleNotAllowed, codes.FailedPrecondition, "ROLE_NOT_ALLOWED"},
		{group.ErrGroupFull, codes.ResourceExhausted, "GROUP_FULL"},
		{group.ErrManySessions, codes.ResourceExhausted, "TOO_MANY_SESSIONS"},
		{ledger.ErrReused, codes.InvalidArgument, "REQUEST_ID_REUSED"},
		{ledger.ErrContention, codes.Aborted, "CONTENTION"},
		{ledger.ErrNotLeading, codes.Unavailable, "NOT_LEADING"},
		{ledger.ErrReplaced, codes.FailedPrecondition, "REPLACED"},
		{group.ErrNotLetIn, codes.PermissionDenied, "DENIED"},
		{group.ErrToken, codes.Unauthenticated, "TOKEN_REFUSED"},
		{group.ErrTokenRole, codes.FailedPrecondition, "TOKEN_ROLE"},
		{group.ErrDelivering, codes.FailedPrecondition, "GROUP_IN_USE"},
		{delivery.ErrNoReceivers, codes.FailedPrecondition, "NO_RECEIVERS"},
		{delivery.ErrNoTree, codes.FailedPrecondition, "NO_TREE"},
		{delivery.ErrTooMany, codes.ResourceExhausted, "TOO_MANY_DELIVERIES"},
		{delivery.ErrManyMembers, codes.FailedPrecondition, "TOO_MANY_MEMBERS"},
		{delivery.ErrTooLarge, codes.FailedPrecondition, "OBJECT_TOO_LARGE"},
		{delivery.ErrSession, codes.FailedPrecondition, "SESSION_ENDED"},
		{delivery.ErrNoSender, codes.FailedPrecondition, "ROLE_NOT_ALLOWED"},
		{delivery.ErrSealed, codes.FailedPrecondition, "SEALED_OTHERWISE"},
		{delivery.ErrNotSealed, codes.FailedPrecondition, "NOT_SEALED"},
		{delivery.ErrMismatch, codes.InvalidArgument, "NOT_WHAT_WAS_SEALED"},
		{delivery.ErrEnded, codes.FailedPrecondition, "DELIVERY_ENDED"},
		{delivery.ErrNoPart, codes.FailedPrecondition, "NO_PART"},
		{delivery.ErrAmbiguous, codes.InvalidArgument, "AMBIGUOUS"},
		{placement.ErrNoAgent, codes.FailedPrecondition, "NO_AGENT"},
		{identity.ErrToken, codes.Unauthenticated, "TOKEN_REFUSED"},
		{identity.ErrForeign, codes.Unauthenticated, "FOREIGN_IDENTITY"},
		{store.ErrTooLarge, codes.FailedPrecondition, "STORE_TOO_SMALL"},
		{store.ErrFull, codes.ResourceExhausted, "STORE_FULL"},
		{store.ErrFenced, codes.Unavailable, "NOT_LEADING"},
		{store.ErrUnavailable, codes.Unavailable, "STORE_UNAVAILABLE"},
		{view.ErrRelist, codes.OutOfRange, "RELIST"},
		{view.ErrGone, codes.NotFound, "GROUP_DELETED"},
		{errNoIdentity, codes.Unauthenticated, "NO_IDENTITY"},
		{errRevoked, codes.Unauthenticated, "REVOKED"},
		{errDenied, codes.PermissionDenied, "DENIED"},
		{errNoLeader, codes.Unavailable, "NO_LEADER"},
		{daemon.ErrSilent, codes.DeadlineExceeded, "SILENT"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE"},
		{context.Canceled, codes.Canceled, "CANCELED"},
		{&ledger.Invalid{}, codes.InvalidArgument, "INVALID"},
		{&ledger.RateLimited{What: "joins"}, codes.ResourceExhausted, "RATE_LIMITED"},
		{errors.New("a bug"), codes.Internal, "INTERNAL"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			returned := status.Convert(toStatus(fmt.Errorf("group %q: %w", "models", tt.err)))
			if returned.Code() != tt.code {
				t.Errorf("code %v, want %v", returned.Code(), tt.code)
			}
			info, _ := detail[*errdetails.ErrorInfo](returned)
			if info.GetReason() != tt.reason || info.GetDomain() != daemon.ErrorDomain {
				t.Errorf("reason %s of %s, want %s of %s", info.GetReason(), info.GetDomain(), tt.reason, daemon.ErrorDomain)
			}
			if !strings.Contains(returned.Message(), `group "models"`) {
				t.Errorf("message %q does not say what it is about", returned.Message())
			}
			retry, retriable := detail[*errdetails.RetryInfo](returned)
			if want := tt.code == codes.Unavailable || tt.reason == "RATE_LIMITED"; retriable != want {
				t.Errorf("says when to try again: %v, want %v", retriable, want)
			}
			if tt.code == codes.Unavailable && retry.GetRetryDelay().AsDuration() != daemon.RetrySoon {
				t.Errorf("try again in %v, want %v", retry.GetRetryDelay().AsDuration(), daemon.RetrySoon)
			}
		})
	}
}

func TestInvalidNamesEveryField(t *testing.T) {
	invalid := &ledger.Invalid{Violations: []ledger.Violation{{Field: "name", Problem: "is empty"}, {Field: "labels", Problem: "too many"}}}
	request, _ := detail[*errdetails.BadRequest](status.Convert(toStatus(invalid)))
	var got []string
	for _, violation := range request.GetFieldViolations() {
		got = append(got, violation.GetField()+": "+violation.GetDescription())
	}
	if want := []string{"name: is empty", "labels: too many"}; !slices.Equal(got, want) {
		t.Errorf("violations %q, want %q", got, want)
	}
}

func TestRateLimitedSaysWhenToTryAgain(t *testing.T) {
	retry, _ := detail[*errdetails.RetryInfo](status.Convert(toStatus(&ledger.RateLimited{What: "joins", Retry: 3 * time.Second})))
	if retry.GetRetryDelay().AsDuration() != 3*time.Second {
		t.Errorf("try again in %v, want 3s", retry.GetRetryDelay().AsDuration())
	}
}

func TestStatusesAndSuccessPassUnchanged(t *testing.T) {
	if err := toStatus(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	fromLeader := status.Error(codes.NotFound, "no such group")
	if err := toStatus(fromLeader); err != fromLeader { //nolint:errorlint // identity is the point
		t.Errorf("the leader's answer became %v", err)
	}
}

// neverAnswered are the errors that end inside the manager: a conflict is planned
// again, a store that is in use or damaged keeps the manager from starting, and
// compacted history becomes view.ErrRelist. Capabilities are checked by agents and members.
var neverAnswered = []string{
	"store.ErrConflict", "store.ErrInUse", "store.ErrDamaged", "store.ErrCompacted",
	"identity.ErrCapability",
}

func TestEverySentinelHasACode(t *testing.T) {
	mapped := make(map[string]bool)
	for _, m := range codesOf {
		mapped[m.Err.Error()] = true
	}
	for _, dir := range []string{"../group", "../ledger", "../delivery", "../placement", "../store", "../view", "../../../internal/identity", "."} {
		for name, text := range sentinels(t, dir) {
			if !mapped[text] && !slices.Contains(neverAnswered, name) {
				t.Errorf("%s (%q) has no code: a caller would see an internal error", name, text)
			}
			if mapped[text] && slices.Contains(neverAnswered, name) {
				t.Errorf("%s has a code, although it is never answered", name)
			}
		}
	}
}

// sentinels returns the texts of a package's errors.New variables by their qualified names.
func sentinels(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if spec, is := node.(*ast.ValueSpec); is && len(spec.Names) == 1 && len(spec.Values) == 1 {
				if text, is := newErrorText(spec.Values[0]); is {
					found[parsed.Name.Name+"."+spec.Names[0].Name] = text
				}
			}
			_, isFunction := node.(*ast.FuncDecl)
			return !isFunction
		})
	}
	if len(found) == 0 {
		t.Fatalf("no errors in %s: is it still there?", dir)
	}
	return found
}

// newErrorText returns the text of an expression errors.New("text").
func newErrorText(expression ast.Expr) (text string, is bool) {
	call, isCall := expression.(*ast.CallExpr)
	if !isCall || len(call.Args) != 1 {
		return "", false
	}
	function, isSelector := call.Fun.(*ast.SelectorExpr)
	literal, isLiteral := call.Args[0].(*ast.BasicLit)
	if !isSelector || !isLiteral || function.Sel.Name != "New" || fmt.Sprint(function.X) != "errors" {
		return "", false
	}
	return strings.Trim(literal.Value, "\"`"), true
}

// detail returns the first detail of a type.
func detail[D any](of *status.Status) (found D, ok bool) {
	for _, each := range of.Details() {
		if found, ok = each.(D); ok {
			return found, true
		}
	}
	return found, false
}
