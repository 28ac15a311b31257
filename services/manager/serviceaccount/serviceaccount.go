// Package serviceaccount lets pods in by their Kubernetes ServiceAccount: beside
// join tokens, a second way to a first certificate, for which nobody has to make or carry a secret.
package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// Errors that the API's edge tells apart.
var (
	// ErrRefused says that a token gives no identity.
	ErrRefused = errors.New("ServiceAccount token refused")
	// ErrUnavailable says that the API server could not be asked.
	ErrUnavailable = errors.New("ServiceAccount tokens cannot be checked at the moment")
)

// Server knows to which pod a token belongs.
type Server interface {
	Review(ctx context.Context, token, audience string) (pod kubernetes.Pod, problem string, err error)
}

// Reviewer knows what the pods of each ServiceAccount are.
type Reviewer struct {
	server   Server
	audience string
	accounts map[string]identity.Role // by namespace/name
	limit    *rate.Limiter
	pods     *pods
}

// How many reviews there may be at once, and per second: callers without an identity must not make us flood the API server.
const (
	reviewBurst = 100
	reviewRate  = 50
)

// New returns a reviewer of tokens for an audience.
func New(server Server, audience string, accounts map[string]identity.Role) *Reviewer {
	return &Reviewer{server: server, audience: audience, accounts: accounts, limit: rate.NewLimiter(reviewRate, reviewBurst), pods: newPods()}
}

// Services returns, by ServiceAccount, the role of the pods that should be here. Members are not among them, since they come and go. A nil
// Reviewer, which lets nobody in, has none.
func (r *Reviewer) Services() map[string]identity.Role {
	if r == nil {
		return nil
	}
	services := maps.Clone(r.accounts)
	maps.DeleteFunc(services, func(_ string, role identity.Role) bool { return role == identity.Member })
	return services
}

// MemberName returns the name of the member that the pods of a ServiceAccount (namespace/name) are. It always ends with a hash, so that no
// other account, and no member that was named by hand, has it.
func MemberName(account string) string {
	return kubernetes.Label(strings.Replace(account, "/", ".", 1))
}

// IsToken reports whether text looks like a ServiceAccount's token, a JWT, and not like a join token.
func IsToken(text string) bool {
	return strings.HasPrefix(text, "ey") && strings.Count(text, ".") == 2
}

// maxToken is the length of the longest token that the API server is asked about.
const maxToken = 8 << 10

// Review returns the identity that a pod's token stands for: the role of its ServiceAccount, under the name of its node, so that a pod can only
// be the one of its own node. A gatherer's data belongs to its pod, wherever that runs, so a gatherer has its pod's name. Members come and go,
// and what they may do depends on their account, so all pods of an account are one member.
func (r *Reviewer) Review(ctx context.Context, token string) (identity.ID, error) {
	if len(token) > maxToken {
		return identity.ID{}, fmt.Errorf("%w: it has %d bytes", ErrRefused, len(token))
	}
	claims := kubernetes.ClaimsOf(token)
	if err := r.check(claims); err != nil {
		return identity.ID{}, err
	}
	if !r.pods.allow(claims.PodUID) && !r.limit.Allow() {
		return identity.ID{}, &ledger.RateLimited{What: "ServiceAccount tokens are checked", Retry: time.Second}
	}
	pod, problem, err := r.server.Review(ctx, token, r.audience)
	switch {
	case err != nil:
		return identity.ID{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case problem != "":
		return identity.ID{}, fmt.Errorf("%w: %s", ErrRefused, problem)
	}
	role, known := r.accounts[pod.Account]
	switch {
	case !known:
		return identity.ID{}, fmt.Errorf("%w: ServiceAccount %s has no role here", ErrRefused, pod.Account)
	case pod.Name == "" || pod.Node == "": // a token can be bound to a node only, and whoever makes it can name any node
		return identity.ID{}, fmt.Errorf("%w: it is bound to no pod on a node (want a projected token; Kubernetes 1.30 or later)", ErrRefused)
	}
	r.pods.letIn(claims.PodUID, time.Now())
	return identity.ID{Role: role, Name: nameOf(role, pod)}, nil
}

// check refuses what the API server need not be asked about. So tokens that belong to no account with a role here do not keep others from being
// reviewed.
func (r *Reviewer) check(claims kubernetes.Claims) error {
	switch _, known := r.accounts[claims.Account]; {
	case claims.Account == "":
		return fmt.Errorf("%w: it is of no ServiceAccount", ErrRefused)
	case !known:
		return fmt.Errorf("%w: ServiceAccount %.320s has no role here", ErrRefused, claims.Account)
	case !slices.Contains(claims.Audiences, r.audience):
		return fmt.Errorf("%w: it is not for the audience %q", ErrRefused, r.audience)
	}
	return nil
}

func nameOf(role identity.Role, pod kubernetes.Pod) string {
	switch role {
	case identity.Gatherer:
		return kubernetes.Label(pod.Name)
	case identity.Member:
		return MemberName(pod.Account)
	}
	return kubernetes.Label(pod.Node)
}
