// Package api is the managers' gRPC API: it knows who calls and what they may,
// answers reads from this manager's view, has writes carried out by the manager
// that leads, and turns errors into statuses.
package api

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/groupcast/groupcast/internal/daemon"
	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/delivery"
	"github.com/groupcast/groupcast/services/manager/group"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/replication"
	"github.com/groupcast/groupcast/services/manager/serviceaccount"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Leading tells which manager leads, and gives its rules if that is this one.
type Leading interface {
	// Registry returns the rules to write by; nil unless this manager leads.
	Registry() *group.Registry
	// Desk returns the rules of deliveries; nil unless this manager leads.
	Desk() *delivery.Desk
	// Replications returns the rules of replications; nil unless this manager leads.
	Replications() *replication.Desk
	// Connection returns a connection to the manager that leads; nil while none other does.
	Connection() *grpc.ClientConn
	// Leader returns the manager that leads.
	Leader() store.Leader
}

// Server answers the API of one manager.
type Server struct {
	Name        string
	Address     string // where other managers reach it
	TrustDomain string
	View        *view.View
	Leading     Leading
	CA          *identity.CA
	Started     time.Time
	// Security checks the certificates of callers behind a gateway.
	Security identity.TLS
	// ServiceAccounts lets pods in by their ServiceAccount; nil lets none in.
	ServiceAccounts *serviceaccount.Reviewer
	// WriteRefusal returns why the store refuses writes, or nil.
	WriteRefusal func() error

	refused *prometheus.CounterVec
	paces   paces
}

// Register adds the API's services to a gRPC server.
func (s *Server) Register(to grpc.ServiceRegistrar) {
	groupv1.RegisterGroupServiceServer(to, &groupService{server: s})
	groupv1.RegisterSessionServiceServer(to, &sessionService{server: s})
	groupv1.RegisterDeliveryServiceServer(to, &deliveryService{server: s})
	groupv1.RegisterIdentityServiceServer(to, &identityService{server: s})
	groupv1.RegisterManagerServiceServer(to, &managerService{server: s})
	agentv1.RegisterAgentServiceServer(to, &agentService{server: s})
	gatherv1.RegisterGathererServiceServer(to, &gathererService{server: s})
	replicav1.RegisterReplicationServiceServer(to, &replicationService{server: s})
	replicav1.RegisterReplicatorServiceServer(to, &replicatorService{server: s})
}

// Guards registers the API's metrics, and returns what must see every call. It must be called before the server
// serves: they count refusals.
func (s *Server) Guards(metrics prometheus.Registerer) daemon.Guards {
	s.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "groupcast_manager_refused_calls_total", Help: "Calls refused for want of an identity, a token or a permission, by method; one that was passed on, by the manager that refused it.",
	}, []string{"method"})
	for method := range rules {
		s.refused.WithLabelValues(method) // a rate can be taken from the first refusal on
	}
	calls := newCallMetrics(s.isPassedOn)
	metrics.MustRegister(s.refused, calls)
	return daemon.Guards{
		Admit:  calls.admit(s.admit),
		Unary:  []grpc.UnaryServerInterceptor{calls.unary, s.unary},
		Stream: []grpc.StreamServerInterceptor{calls.stream, s.stream},
	}
}

// registry returns the rules to write by.
func (s *Server) registry() (*group.Registry, error) {
	if registry := s.Leading.Registry(); registry != nil {
		return registry, nil
	}
	return nil, errNoLeader
}

// desk returns the rules of deliveries.
func (s *Server) desk() (*delivery.Desk, error) {
	if desk := s.Leading.Desk(); desk != nil {
		return desk, nil
	}
	return nil, errNoLeader
}

// replications returns the rules of replications.
func (s *Server) replications() (*replication.Desk, error) {
	if desk := s.Leading.Replications(); desk != nil {
		return desk, nil
	}
	return nil, errNoLeader
}

// led has the registry carry out a request.
func led[Q, A any](ctx context.Context, s *Server, req Q, do func(*group.Registry, context.Context, identity.ID, Q) (A, error)) (A, error) {
	registry, err := s.registry()
	if err != nil {
		var none A
		return none, err
	}
	return do(registry, ctx, callerOf(ctx), req)
}

// Page sizes.
const (
	defaultPage = 100
	maxPage     = 1000
)

// pageTokenPrefix is the version of page tokens.
const pageTokenPrefix = "1."

// page reads a page request: the name after which the page begins, and its size.
func page(size int32, token string) (after string, limit int, err error) {
	limit = int(size)
	switch {
	case size < 0:
		return "", 0, &ledger.Invalid{Violations: []ledger.Violation{{Field: "page_size", Problem: "is negative"}}}
	case size == 0:
		limit = defaultPage
	case size > maxPage:
		limit = maxPage
	}
	if token == "" {
		return "", limit, nil
	}
	encoded, ok := strings.CutPrefix(token, pageTokenPrefix)
	name, decodeErr := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || decodeErr != nil {
		return "", 0, &ledger.Invalid{Violations: []ledger.Violation{{Field: "page_token", Problem: "was not made by this API"}}}
	}
	return string(name), limit, nil
}

// pageToken returns the token for what comes after the last item of a page.
func pageToken(last string) string {
	return pageTokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(last))
}

// nextPage returns the token of the page after this one.
func nextPage[R interface{ GetName() string }](records []R, more bool) string {
	if !more || len(records) == 0 {
		return ""
	}
	return pageToken(records[len(records)-1].GetName())
}

// endOfStream turns the error of a stream that the client ended regularly into a regular end here, too.
func endOfStream(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
