package group

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// tokenRecord is what is kept of a join token, under a lease of its lifetime.
type tokenRecord struct {
	Hash   []byte      `json:"hash"`
	ID     identity.ID `json:"id"`
	Groups []string    `json:"groups,omitempty"`
	// End is until when the token is good. The lease alone does not tell: its time begins anew when managers start again, or a backup is
	// restored. Tokens of earlier versions have none.
	End time.Time `json:"end,omitzero"`
	// UsedBy is the hash of the certificate request that used the token up: the
	// same one may come again, when its answer was lost.
	UsedBy []byte `json:"usedBy,omitempty"`
}

// tokenTolerance is how far apart the clocks of two managers may be: one makes a token, and another may lead when it is used.
const tokenTolerance = 30 * time.Second

func (t tokenRecord) isOver(now time.Time) bool {
	return !t.End.IsZero() && now.After(t.End.Add(tokenTolerance))
}

func tokenKey(id string) string { return "token/" + id }

// enrollable are the roles that a join token can be for. Managers are not among them: they hold the CA.
var enrollable = []identity.Role{identity.Member, identity.Agent, identity.Gatherer, identity.Replicator, identity.Operator}

func enrollableNames() string {
	var names []string
	for _, role := range enrollable {
		names = append(names, string(role))
	}
	return strings.Join(names, ", ")
}

// services are the enrollable roles that enroll by themselves, and not with the command.
var services = []identity.Role{identity.Agent, identity.Gatherer, identity.Replicator}

// AllGroups stands for every group in what a member may join.
const AllGroups = "*"

// CreateToken makes a join token. It is shown once and not kept, so that a
// repeated request makes another one; the first expires unused.
func (r *Registry) CreateToken(ctx context.Context, caller identity.ID, asked *groupv1.CreateTokenRequest, ca identity.Fingerprint, now time.Time) (*groupv1.CreateTokenResponse, error) {
	record := tokenRecord{ID: identity.Named(asked), Groups: asked.GetGroups()}
	lifetime, err := checkToken(asked, record)
	if err != nil {
		return nil, err
	}
	token := identity.NewToken(ca)
	record.Hash, record.End = token.Hash(), now.Add(lifetime)
	encoded, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode token: %w", err)
	}
	lease, err := r.store.Grant(ctx, lifetime)
	if err != nil {
		return nil, err
	}
	err = r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		return ledger.Plan{
			Conditions: []store.Cond{store.Absent(tokenKey(token.ID))},
			Changes:    []store.Op{store.PutLeased(tokenKey(token.ID), encoded, lease)},
		}, nil
	})
	if err != nil {
		return nil, err
	}
	r.log.Info("join token created", "for", record.ID.String(), "by", caller.String(), "token_id", token.ID)
	return &groupv1.CreateTokenResponse{Token: token.String(), Lifetime: durationpb.New(lifetime)}, nil
}

func checkToken(asked *groupv1.CreateTokenRequest, record tokenRecord) (time.Duration, error) {
	var problems ledger.Checks
	problems.That(slices.Contains(enrollable, record.ID.Role), "role", "%q is not one of %s", asked.GetRole(), enrollableNames())
	problems.No("name", identity.CheckName(asked.GetName()))
	problems.That(record.ID.Role == identity.Member || len(record.Groups) == 0, "groups", "are for members")
	problems.That(record.ID.Role != identity.Member || len(record.Groups) > 0, "groups", "name those that the member may join, or %q for all", AllGroups)
	for _, name := range record.Groups {
		if name != AllGroups {
			problems.No("groups", identity.CheckName(name))
		}
	}
	lifetime := identity.MaxTokenLifetime
	if asked.GetLifetime() != nil {
		lifetime = asked.GetLifetime().AsDuration()
		problems.That(lifetime >= time.Second && lifetime <= identity.MaxTokenLifetime,
			"lifetime", "is %v: want 1s to %v", lifetime, identity.MaxTokenLifetime)
	}
	return lifetime, problems.Err()
}

// Redeem uses up a join token and returns the identity that it was for. From now on the identity may join what the token says, and a
// member's sessions in other groups end. A token of another role than the one asked for is left as it is.
func (r *Registry) Redeem(ctx context.Context, req *groupv1.EnrollRequest, now time.Time) (identity.ID, error) {
	by := sha256.Sum256(req.GetCertificateRequest())
	id, err := r.redeem(ctx, req.GetToken(), identity.Role(req.GetRole()), by[:], now)
	if errors.Is(err, ErrToken) || errors.Is(err, identity.ErrToken) {
		r.mu.Lock()
		allowed := r.enrollFailed.Allow()
		r.mu.Unlock()
		if !allowed {
			return identity.ID{}, &ledger.RateLimited{What: "join tokens are refused", Retry: time.Second}
		}
		token, _ := identity.ParseToken(req.GetToken()) // the id of what is no token is empty
		r.log.Warn("join token refused", "token_id", token.ID, "reason", err)
	}
	if id.Role == identity.Member && (err != nil || !r.expelElsewhere(ctx, id.Name, r.groupsOf(id))) {
		r.noteMoved(id) // the token is used, or may be, and nobody may ask again
	}
	return id, err
}

// redeem is Redeem for the token alone. With an error, it returns an identity if that may be let in all the same.
func (r *Registry) redeem(ctx context.Context, text string, role identity.Role, by []byte, now time.Time) (identity.ID, error) {
	token, err := identity.ParseToken(text)
	if err != nil {
		return identity.ID{}, err
	}
	var redeemed identity.ID
	err = r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		item, found, err := r.store.Get(ctx, tokenKey(token.ID))
		if err != nil {
			return ledger.Plan{}, err
		}
		var record tokenRecord
		if found {
			if err := json.Unmarshal(item.Value, &record); err != nil {
				return ledger.Plan{}, fmt.Errorf("decode token: %w", err)
			}
		}
		redeemed = identity.ID{} // until this plan makes it one
		switch isUsed := record.UsedBy != nil; {
		case !token.Matches(record.Hash) || record.isOver(now): // also when there is none
			return ledger.Plan{}, fmt.Errorf("%w: it is wrong, was used already, or has expired", ErrToken) // a used one is known until it expires
		case isUsed && !bytes.Equal(record.UsedBy, by):
			return ledger.Plan{}, fmt.Errorf("%w: it was used already", ErrToken)
		case isOvertaken(item.Changed, isUsed, r.view.Identity(record.ID)):
			return ledger.Plan{}, fmt.Errorf("%w: %s was revoked, or let in by another, since: make a new one", ErrToken, record.ID)
		case role != "" && role != record.ID.Role:
			return ledger.Plan{}, fmt.Errorf("%w: this join token is of %s, and can still be used for that%s", ErrTokenRole, record.ID, wayOut(record.ID.Role, role))
		}
		redeemed = record.ID
		return r.planRedeem(item, record, by)
	})
	return redeemed, err
}

// wayOut says what to do with a token of one role that was shown to enroll as another.
func wayOut(of, asked identity.Role) string {
	isCommand := asked == identity.Member || asked == identity.Operator
	if isCommand && slices.Contains(services, of) {
		return fmt.Sprintf(", by groupcast-%s --managers HOST:PORT --join-token-file FILE, which has the token in it", of)
	}
	return fmt.Sprintf(": want one of 'groupcast token create NAME --role %s'", asked)
}

// isOvertaken reports whether a token was made before its identity was revoked or, if it was used, whether anything was decided of the identity
// since: the same request, which may come again, gives nothing back that was taken away.
func isOvertaken(written store.Revision, isUsed bool, known view.Identity) bool {
	if isUsed {
		return known.Changed > written // the token was marked along with the identity
	}
	return known.Revoked > identity.Stamp(written)
}

// planRedeem marks a token as used and grants what it says. If it was used before, nothing is written, as long as nothing has changed.
func (r *Registry) planRedeem(item store.Item, record tokenRecord, by []byte) (ledger.Plan, error) {
	known := r.view.Identity(record.ID)
	if record.UsedBy != nil {
		return ledger.Plan{Conditions: []store.Cond{store.Unchanged(item.Key, item.Changed), store.Unchanged(view.IdentityKey(record.ID), known.Changed)}}, nil
	}
	record.UsedBy = by
	used, err := json.Marshal(record)
	if err != nil {
		return ledger.Plan{}, fmt.Errorf("encode token: %w", err)
	}
	known.Groups, known.Account, known.Forgiven = record.Groups, "", known.Revoked != 0
	planned, err := planIdentity(record.ID, known)
	if err != nil {
		return ledger.Plan{}, err
	}
	return ledger.Plan{
		Conditions: append(planned.Conditions, store.Unchanged(item.Key, item.Changed)),
		Changes:    append(planned.Changes, store.PutKeepingLease(item.Key, used)),
	}, nil
}

// planIdentity writes what is known of an identity, unless it changed since it was read.
func planIdentity(id identity.ID, record view.Identity) (ledger.Plan, error) {
	encoded, err := json.Marshal(record)
	if err != nil {
		return ledger.Plan{}, fmt.Errorf("encode identity: %w", err)
	}
	return ledger.Put(view.IdentityKey(id), encoded, record.Changed), nil
}

// Revoke refuses all certificates that an identity was issued so far, and ends
// its sessions.
func (r *Registry) Revoke(ctx context.Context, id identity.ID) error {
	if !slices.Contains(enrollable, id.Role) { // a manager has the CA: nothing could keep it out, or let it back in
		return &ledger.Invalid{Violations: []ledger.Violation{{Field: "role", Problem: fmt.Sprintf("%q is not one of %s", id.Role, enrollableNames())}}}
	}
	if err := id.Validate(); err != nil {
		return &ledger.Invalid{Violations: []ledger.Violation{{Field: "name", Problem: err.Error()}}}
	}
	err := r.ledger.Write(ctx, ledger.Request{}, nil, func() (ledger.Plan, error) {
		known := r.view.Identity(id)
		known.RevokedHere, known.Forgiven = true, false
		return planIdentity(id, known)
	})
	if err != nil {
		return err
	}
	if id.Role == identity.Member {
		r.endSessions(ctx, groupv1.MemberState_MEMBER_STATE_EXPELLED, r.view.SessionsOf(id.Name, ""))
	}
	return nil
}

// Stamp returns the stamp for a certificate. It has to be taken before checking that the certificate may be issued: then a revocation that
// comes meanwhile revokes the certificate.
func (r *Registry) Stamp() identity.Stamp { return identity.Stamp(r.ledger.Next()) }
