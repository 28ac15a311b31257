package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// Limits of what a member says of itself.
const (
	maxAddresses  = 16
	maxRoles      = 8
	maxLabels     = 64
	maxTextLength = 253
	// maxSessions is how many sessions one member may have in a group.
	maxSessions = 64
)

// One member may join this often: enough for a process that is restarted again
// and again, too little to disturb a group.
const (
	flapRate  = rate.Limit(1)
	flapBurst = 10
)

// What the joins of one member write is remembered for an hour, under however many names and in however many groups. It may be so many bytes
// a second: with short labels, some 16 joins. The burst has room for as many sessions as a member may have in a group, twice, with the longest.
const (
	joinCost  = 1 << 10 // of a join that says nothing
	joinRate  = rate.Limit(16 << 10)
	joinBurst = 4 << 20
)

// Join begins a session of a member.
func (r *Registry) Join(ctx context.Context, caller identity.ID, asked *groupv1.JoinRequest) (*groupv1.JoinResponse, error) {
	if err := checkJoin(asked); err != nil {
		return nil, err
	}
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	place := seat{asked.GetGroup(), asked.GetName()}
	flaps := r.checkFlap(place, joinCost+proto.Size(asked))
	turn := &turn{seat: place}
	defer r.release(turn)
	response := new(groupv1.JoinResponse)
	err = r.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		if flaps != nil {
			return ledger.Plan{}, flaps // unless this very join was carried out already
		}
		return r.planJoin(caller, asked, turn, response)
	})
	if response.GetMember() != nil {
		r.begun(sessionOf(response.GetMember()))
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// begun has a session found silent if nobody keeps it. That holds where the join failed, too: a join that its caller gave up may be written all
// the same.
func (r *Registry) begun(session Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sessions.Presume(session, now)
	r.heard[seat{session.Group, session.Member}] = now
	r.changed[session.Group] = true
}

func checkJoin(asked *groupv1.JoinRequest) error {
	var problems ledger.Checks
	problems.No("group", identity.CheckName(asked.GetGroup()))
	problems.No("name", identity.CheckSession(asked.GetName()))
	problems.That(len(asked.GetRoles()) <= maxRoles, "roles", "has %d items: at most %d", len(asked.GetRoles()), maxRoles)
	checkPlace(&problems, asked.GetNode(), asked.GetAddresses(), asked.GetLabels())
	if err := problems.Err(); err != nil {
		return err // before looking at each of them, for they may be very many
	}
	for _, role := range asked.GetRoles() {
		checkEnum(&problems, "roles", role)
	}
	return problems.Err()
}

// checkPlace checks what a member or agent says of where it is.
func checkPlace(problems *ledger.Checks, node string, addresses []string, labels map[string]string) {
	problems.That(len(node) <= maxTextLength, "node", "is longer than %d characters", maxTextLength)
	problems.That(len(addresses) <= maxAddresses, "addresses", "has %d items: at most %d", len(addresses), maxAddresses)
	problems.That(len(labels) <= maxLabels, "labels", "has %d items: at most %d", len(labels), maxLabels)
	if problems.Err() != nil {
		return
	}
	for _, address := range addresses {
		problems.That(validAddress(address), "addresses", "%.80q is not host:port", address)
	}
	for key, value := range labels {
		problems.That(key != "" && len(key) <= maxTextLength && len(value) <= maxTextLength,
			"labels", "%.80q: keys have 1 to %d characters, values up to as many", key, maxTextLength)
	}
}

// checkFlap refuses a session that is joined again and again, and a member whose joins write too much.
func (r *Registry) checkFlap(place seat, cost int) error {
	if _, _, found := r.view.Group(place.group); !found {
		return nil // planJoin reports that
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, member := time.Now(), identity.SessionOf(place.member)
	if r.joins[member] == nil {
		r.joins[member] = rate.NewLimiter(joinRate, joinBurst)
	}
	if r.isFlapping(place, now) {
		return &ledger.RateLimited{What: fmt.Sprintf("member %q joins group %q", place.member, place.group), Retry: time.Second}
	}
	if !r.joins[member].AllowN(now, cost) {
		return &ledger.RateLimited{What: fmt.Sprintf("member %q joins with much to say, or under ever new names,", member), Retry: time.Duration(float64(cost)/float64(joinRate)+1) * time.Second}
	}
	return nil
}

// isFlapping counts that somebody comes, and reports whether that is too often. The registry is locked.
func (r *Registry) isFlapping(place seat, now time.Time) bool {
	if r.flaps[place] == nil {
		r.flaps[place] = rate.NewLimiter(flapRate, flapBurst)
	}
	return !r.flaps[place].AllowN(now, 1)
}

// forgetFlaps drops the limiters that would refuse nothing.
func (r *Registry) forgetFlaps(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.flaps, func(_ seat, limiter *rate.Limiter) bool { return limiter.Tokens() >= flapBurst })
	maps.DeleteFunc(r.joins, func(_ string, limiter *rate.Limiter) bool { return limiter.Tokens() >= joinBurst })
}

// turn is the place of a join among those that are on their way at the same time, so that they cannot exceed a group's limit together. It has one
// once there is nothing against it but that limit.
type turn struct {
	seat
	isTaken bool
}

// joining is how many joins of one seat have a turn, and the number of the first.
type joining struct {
	joins  int
	number uint64
}

// take gives a join its turn, if it has none yet, and returns the seats whose turn is not later, its own among them.
func (r *Registry) take(turn *turn) (seats []seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.joining[turn.seat]
	if own == nil {
		r.turns++
		own = &joining{number: r.turns}
		r.joining[turn.seat] = own
	}
	if !turn.isTaken {
		turn.isTaken = true
		own.joins++
	}
	for place, other := range r.joining {
		if place.group == turn.group && other.number <= own.number {
			seats = append(seats, place)
		}
	}
	return seats
}

// release ends the turn of a join that is over: if it has joined, the view shows it.
func (r *Registry) release(turn *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !turn.isTaken {
		return
	}
	if own := r.joining[turn.seat]; own.joins > 1 {
		own.joins--
	} else {
		delete(r.joining, turn.seat)
	}
}

func (r *Registry) planJoin(caller identity.ID, asked *groupv1.JoinRequest, turn *turn, response *groupv1.JoinResponse) (ledger.Plan, error) {
	group, message, err := r.find(asked.GetGroup(), "")
	if err != nil {
		return ledger.Plan{}, err
	}
	conditions := []store.Cond{store.Unchanged(view.GroupKey(asked.GetGroup()), group.Changed)}
	if caller.Role == identity.Member { // it may have been let into other groups since it asked
		known := r.view.Identity(caller)
		if !Includes(known.Groups, asked.GetGroup()) {
			return ledger.Plan{}, fmt.Errorf("join group %q: %s is %w", asked.GetGroup(), caller.InWords(), ErrNotLetIn)
		}
		conditions = append(conditions, store.Unchanged(view.IdentityKey(caller), known.Changed))
	}
	roles, err := chooseRoles(asked.GetRoles(), message.GetPolicy().GetAllowedRoles())
	if err != nil {
		return ledger.Plan{}, fmt.Errorf("join group %q: %w", asked.GetGroup(), err)
	}
	current, rejoins := r.view.Member(asked.GetGroup(), asked.GetName())
	member := identity.SessionOf(asked.GetName())
	if member != asked.GetName() && !rejoins && len(r.view.SessionsOf(member, asked.GetGroup())) >= maxSessions {
		return ledger.Plan{}, fmt.Errorf("join group %q as %q: %w (%d)", asked.GetGroup(), asked.GetName(), ErrManySessions, maxSessions)
	}
	if limit := message.GetPolicy().GetLimits().GetMaxMembers(); limit > 0 && !rejoins {
		if err := r.checkRoom(turn, int(limit)); err != nil {
			return ledger.Plan{}, err
		}
	}
	response.Member = &groupv1.Member{
		Group: asked.GetGroup(), Name: asked.GetName(), Incarnation: r.ledger.Next(),
		Node: asked.GetNode(), Addresses: asked.GetAddresses(), Labels: asked.GetLabels(), Roles: roles,
		State: groupv1.MemberState_MEMBER_STATE_ACTIVE, JoinTime: timestamppb.Now(),
	}
	response.HeartbeatInterval, response.Expiry = durationpb.New(HeartbeatInterval), durationpb.New(Expiry)
	plan, err := ledger.PutMessage(view.MemberKey(asked.GetGroup(), asked.GetName()), response.Member, current.Changed)
	plan.Conditions = append(plan.Conditions, conditions...)
	return plan, err
}

// checkRoom refuses a join if the members and the joins whose turn is not later are more than the limit.
func (r *Registry) checkRoom(turn *turn, limit int) error {
	members := 0
	for _, place := range r.take(turn) {
		if _, shown := r.view.Member(place.group, place.member); !shown {
			members++
		}
	}
	members += r.view.MemberCount(turn.group) // in this order, so that whoever is shown just now is not left out
	if members > limit {
		return fmt.Errorf("join group %q: %w (%d)", turn.group, ErrGroupFull, limit)
	}
	return nil
}

// chooseRoles returns the roles asked for, or all that are allowed if none are.
func chooseRoles(asked, allowed []groupv1.Role) ([]groupv1.Role, error) {
	if len(allowed) == 0 {
		allowed = []groupv1.Role{groupv1.Role_ROLE_SEND, groupv1.Role_ROLE_RECEIVE}
	}
	if len(asked) == 0 {
		return allowed, nil
	}
	roles := slices.Compact(slices.Sorted(slices.Values(asked)))
	for _, role := range roles {
		if !slices.Contains(allowed, role) {
			word := strings.ToLower(strings.TrimPrefix(role.String(), "ROLE_"))
			return nil, fmt.Errorf("%w %s: an operator can change that (groupcast group update --roles)", ErrRoleNotAllowed, word)
		}
	}
	return roles, nil
}

// Heartbeat notes that a session lives, and returns its state and its group's epoch.
func (r *Registry) Heartbeat(session Session) (groupv1.MemberState, uint64) {
	state, epoch := r.view.SessionState(session.Group, session.Member, session.Incarnation)
	if state == groupv1.MemberState_MEMBER_STATE_ACTIVE {
		r.mu.Lock()
		defer r.mu.Unlock()
		now := time.Now()
		r.sessions.Heard(session, now)
		r.heard[seat{session.Group, session.Member}] = now
	}
	return state, epoch
}

// SessionParted notes that a session's stream has ended. Of a process that dies the machine says so: only who falls silent while it seems to be
// there tells that this manager may be cut off.
func (r *Registry) SessionParted(session Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deaf { // then it is this manager that has let go
		r.sessions.Doubt(session)
	}
}

// Leave ends a session. A session that has ended already is left as it is.
func (r *Registry) Leave(ctx context.Context, caller identity.ID, asked *groupv1.LeaveRequest) (*groupv1.LeaveResponse, error) {
	as, err := ledger.Identify(caller, asked.GetRequestId(), asked)
	if err != nil {
		return nil, err
	}
	lease, err := r.ledger.Lease(ctx)
	if err != nil {
		return nil, err
	}
	response := new(groupv1.LeaveResponse)
	var left Session
	err = r.ledger.Write(ctx, as, response, func() (ledger.Plan, error) {
		if _, _, err := r.find(asked.GetGroup(), ""); err != nil {
			return ledger.Plan{}, err
		}
		member, joined := r.view.Member(asked.GetGroup(), asked.GetName())
		if !joined || asked.GetIncarnation() != 0 && member.GetIncarnation() != asked.GetIncarnation() {
			return ledger.Plan{}, fmt.Errorf("session of member %q in group %q %w", asked.GetName(), asked.GetGroup(), ledger.ErrNotFound)
		}
		left = sessionOf(member.Member)
		return end(groupv1.MemberState_MEMBER_STATE_LEFT, lease, member), nil
	})
	if err == nil {
		r.forget(left)
	}
	return response, err
}

func (r *Registry) forget(session Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions.Forget(session)
	r.changed[session.Group] = true
}

// end plans to end sessions. How they ended is written before the members are
// deleted: within a transaction, that is the order in which it is seen.
func end(state groupv1.MemberState, lease store.Lease, members ...view.Member) (p ledger.Plan) {
	for _, member := range members {
		key := view.MemberKey(member.GetGroup(), member.GetName())
		p.Conditions = append(p.Conditions, store.Unchanged(key, member.Changed))
		p.Changes = append(p.Changes,
			store.PutLeased(view.EndedKey(member.GetGroup(), member.GetName()), view.EncodeEnded(member.GetIncarnation(), state), lease),
			store.Delete(key))
	}
	return p
}

// sessionsPerTransaction is how many sessions end in one transaction at most.
const sessionsPerTransaction = store.MaxOps / 2

// expireSessions ends the sessions of members that have been silent.
func (r *Registry) expireSessions(ctx context.Context) {
	r.mu.Lock()
	now := time.Now()
	silent := r.sessions.Silent(now)
	r.mu.Unlock()
	if len(silent) == 0 {
		return
	}
	var members []view.Member
	for _, session := range silent {
		member, joined := r.view.Member(session.Group, session.Member)
		if joined && member.GetIncarnation() == session.Incarnation { // otherwise it has joined again
			members = append(members, member)
		}
	}
	ended := r.endSessions(ctx, groupv1.MemberState_MEMBER_STATE_EXPIRED, members)
	if ended > 0 {
		r.log.Info("members were silent and expired", "members", ended)
	}
}

// endSessions ends sessions, many in one transaction, and returns how many. Those
// that changed meanwhile, or that could not be written, are looked at again later.
func (r *Registry) endSessions(ctx context.Context, state groupv1.MemberState, members []view.Member) (ended int) {
	for batch := range slices.Chunk(members, sessionsPerTransaction) {
		err := r.endTogether(ctx, state, batch)
		if errors.Is(err, store.ErrConflict) && len(batch) > 1 {
			for _, member := range batch { // one by one, so that one that changed does not hold up the others
				ended += r.endSessions(ctx, state, []view.Member{member})
			}
			continue
		}
		switch {
		case err == nil:
			ended += len(batch)
		case !errors.Is(err, store.ErrConflict):
			r.log.Warn("sessions could not be ended; trying again", "sessions", len(batch), "error", err)
			r.hearAgain(batch)
		}
	}
	return ended
}

// endTogether ends sessions in one transaction.
func (r *Registry) endTogether(ctx context.Context, state groupv1.MemberState, batch []view.Member) error {
	lease, err := r.ledger.Lease(ctx)
	if err != nil {
		return err
	}
	planned := end(state, lease, batch...)
	at, err := r.store.Commit(ctx, r.term, planned.Conditions, planned.Changes)
	if err != nil {
		return err
	}
	for _, member := range batch {
		r.forget(sessionOf(member.Member))
	}
	return r.view.Await(ctx, at)
}

// hearAgain puts members back among the living, to be found silent again.
func (r *Registry) hearAgain(members []view.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, member := range members {
		r.sessions.Presume(sessionOf(member.Member), time.Now())
	}
}
