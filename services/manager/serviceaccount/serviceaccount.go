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

// Server is who knows whose a token is.
type Server interface {
	Review(ctx context.Context, token, audience string) (pod kubernetes.Pod, problem string, err error)
}

// Reviewer knows which ServiceAccounts' pods are what.
type Reviewer struct {
	server   Server
	audience string
	accounts map[string]identity.Role // by namespace/name
	limit    *rate.Limiter
	pods     *pods
}

// Reviews at once and per second: who has no identity yet must not make us flood the API server.
const (
	reviewBurst = 100
	reviewRate  = 50
)

// New returns a reviewer of tokens for an audience.
func New(server Server, audience string, accounts map[string]identity.Role) *Reviewer {
	return &Reviewer{server: server, audience: audience, accounts: accounts, limit: rate.NewLimiter(reviewRate, reviewBurst), pods: newPods()}
}

// Services returns the role of each ServiceAccount's pods that are to be here: members come and go. Nobody, who lets
// none in, has none.
func (r *Reviewer) Services() map[string]identity.Role {
	if r == nil {
		return nil
	}
	services := maps.Clone(r.accounts)
	maps.DeleteFunc(services, func(_ string, role identity.Role) bool { return role == identity.Member })
	return services
}

// MemberName returns the name of the member that the pods of a ServiceAccount, as namespace/name, are. It always ends
// with a hash, so that no other account, and nobody who was named by hand, has it.
func MemberName(account string) string {
	return kubernetes.Label(strings.Replace(account, "/", ".", 1))
}

// IsToken reports whether text looks like a ServiceAccount's token, a JWT, and not like a join token.
func IsToken(text string) bool {
	return strings.HasPrefix(text, "ey") && strings.Count(text, ".") == 2
}

// maxToken is the length of the longest token that the API server is asked about.
const maxToken = 8 << 10

// Review returns the identity that a pod's token stands for: the role of its ServiceAccount,
// under the name of its node, so that a pod can be nobody but the one of its own node. A
// gatherer's data is its pod's, wherever that runs: it has its pod's name. Members come and go, and what they may is
// their account's: all of its pods are one member.
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
	case pod.Name == "" || pod.Node == "": // a token can be bound to a node alone: whoever makes one names any
		return identity.ID{}, fmt.Errorf("%w: it is bound to no pod on a node (want a projected token; Kubernetes 1.30 or later)", ErrRefused)
	}
	r.pods.letIn(claims.PodUID, time.Now())
	return identity.ID{Role: role, Name: nameOf(role, pod)}, nil
}

// check refuses what the API server need not be asked about: what is no token of an account that has a role here does
// not keep those that are from being reviewed.
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
