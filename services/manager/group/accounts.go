package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/kubernetes"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Account is a Kubernetes ServiceAccount whose pods are a member.
type Account struct {
	Name string // namespace/name
	// Groups are the groups that the member may join, in order; "*" stands for all.
	Groups []string
}

// Accounts are the accounts of the managers' configuration, by the member's name.
type Accounts map[string]Account

// Admit allows an identity that Kubernetes vouches for to be certified. An identity that was revoked is refused: its pod would be back at once.
// An operator lets it in again by a join token that is used, if only to admit it. A member may join the groups that the configuration gives its
// account. role is the role that the identity has to have; empty allows any.
func (r *Registry) Admit(ctx context.Context, id identity.ID, role identity.Role) error {
	if role != "" && role != id.Role {
		return fmt.Errorf("%w: the pod's ServiceAccount is that of %ss, and this is no %s: want the ServiceAccount of %ss in its spec", ErrTokenRole, id.Role, role, role)
	}
	if id.Role == identity.Member {
		account, known := r.accounts[id.Name]
		if !known {
			return fmt.Errorf("%w: %s has no ServiceAccount here", ErrToken, id)
		}
		if err := r.grant(ctx, id, account); err != nil {
			return err
		}
	} else if err := checkForgiven(id, r.view.Identity(id)); err != nil {
		return err
	}
	r.log.Info("a pod was let in by its service account", "as", id.String())
	return nil
}

// LogPodRefused tells which pod was refused by its token, as far as the token can be believed.
func (r *Registry) LogPodRefused(claims kubernetes.Claims, reason error) {
	if r.podsFailed.Allow() {
		r.log.Warn("a pod's ServiceAccount token refused", "account", clipName(claims.Account), "pod", clipName(claims.Pod), "reason", reason)
	}
}

// clipName bounds what a token says: a name in Kubernetes has at most 253 bytes, and an account is two of them.
func clipName(said string) string { return fmt.Sprintf("%.320s", said) }

func checkForgiven(id identity.ID, known view.Identity) error {
	if known.Revoked != 0 && !known.Forgiven {
		return fmt.Errorf("%w: %s was revoked: its ServiceAccount lets it in again after 'groupcast identity admit %s'", ErrToken, id, admission(id, known.Groups))
	}
	return nil
}

// admission returns what an operator gives the command that admits somebody: for a member, the groups that it may join, as it might before.
func admission(id identity.ID, groups []string) string {
	if id.Role != identity.Member {
		return id.String()
	}
	if len(groups) == 0 || slices.Contains(groups, AllGroups) { // a shell has other plans for '*'
		groups = []string{"GROUP"}
	}
	return fmt.Sprintf("%s --group %s", id, strings.Join(groups, ","))
}

// grant notes that a member was let in by its account. Mostly only the first of an account's pods has something written.
func (r *Registry) grant(ctx context.Context, id identity.ID, account Account) error {
	known := r.view.Identity(id)
	if known.Account == account.Name && slices.Equal(known.Groups, account.Groups) {
		return checkForgiven(id, known)
	}
	return r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		known := r.view.Identity(id)
		if err := checkForgiven(id, known); err != nil {
			return ledger.Plan{}, err
		}
		known.Groups, known.Account = account.Groups, account.Name
		return planIdentity(id, known)
	})
}

// settleAccounts applies the configuration to members that were let in by their accounts before it was changed.
func (r *Registry) settleAccounts(ctx context.Context) {
	for id, known := range r.view.Accounts() {
		account := r.accounts[id.Name]
		if err := r.giveGroups(ctx, id, known, account); err != nil {
			r.log.Warn("a member could not be given the groups of its service account; trying again", "member", id.Name, "error", err)
			continue
		}
		r.expelElsewhere(ctx, id.Name, func() []string { return account.Groups })
	}
}

// expelElsewhere ends a member's sessions in all but the groups that it may join, and reports whether all of them are ended. These groups are
// asked for when the sessions are known: it may have joined one into which it was let in meanwhile.
func (r *Registry) expelElsewhere(ctx context.Context, member string, groups func() []string) bool {
	ended := r.view.SessionsOf(member, "")
	may := groups()
	ended = slices.DeleteFunc(ended, func(session view.Member) bool { return Includes(may, session.GetGroup()) })
	return r.endSessions(ctx, groupv1.MemberState_MEMBER_STATE_EXPELLED, ended) == len(ended)
}

// groupsOf returns a function that looks up which groups an identity may join.
func (r *Registry) groupsOf(id identity.ID) func() []string {
	return func() []string { return r.view.Identity(id).Groups }
}

// noteMoved has a member's sessions in other groups ended soon.
func (r *Registry) noteMoved(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved[id] = time.Now()
}

// settleMoved ends what sessions members have in groups that they may not join any more. What a token changed may be seen only after a while,
// where it was not known whether it was written. A next leader need not know of it: sessions go on there only where their members may be.
func (r *Registry) settleMoved(ctx context.Context) {
	r.mu.Lock()
	moved := maps.Clone(r.moved)
	r.mu.Unlock()
	for id, at := range moved {
		isDone := r.view.Identity(id).Changed == 0 || r.expelElsewhere(ctx, id.Name, r.groupsOf(id))
		r.mu.Lock()
		if isDone && time.Since(at) >= movedFor && r.moved[id].Equal(at) {
			delete(r.moved, id)
		}
		r.mu.Unlock()
	}
}

// giveGroups gives a member the groups of its account. One whose account is not in the configuration any more is put
// out, and let in again when it is.
func (r *Registry) giveGroups(ctx context.Context, id identity.ID, known view.Identity, account Account) error {
	if slices.Equal(known.Groups, account.Groups) {
		return nil
	}
	r.log.Info("the groups of a member are now those of its service account", "member", id.Name, "groups", account.Groups)
	return r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		known := r.view.Identity(id)
		known.Groups = account.Groups
		if account.Name == "" {
			known.RevokedHere, known.Forgiven = true, checkForgiven(id, known) == nil
		}
		return planIdentity(id, known)
	})
}

// Includes reports whether a group is among those that a member may join.
func Includes(groups []string, name string) bool {
	return slices.Contains(groups, name) || slices.Contains(groups, AllGroups)
}
