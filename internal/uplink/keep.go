package uplink

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

const (
	// patience is how long a manager may be silent on a stream: two heartbeats. The rest of the
	// time until a session expires must suffice to find another manager.
	patience = 4 * time.Second
	// reattach is about how long to wait before opening a broken stream again.
	reattach = 500 * time.Millisecond
	// reattachSoon takes its place for a stream that has held for settled, of a node that takes
	// part in deliveries: a node that stays away is replaced.
	reattachSoon = 100 * time.Millisecond
	settled      = 5 * time.Second
	// held is how long a stream must last to count as having been there, and not only asked for: gRPC tries for a while.
	held = 30 * time.Second
	// manyAttempts is how many attempts in vain are told of even while a manager is heard on other streams.
	manyAttempts = 8
)

// Ended says how a session ended, other than by leaving.
type Ended struct{ State groupv1.MemberState }

func (e *Ended) Error() string {
	switch e.State {
	case groupv1.MemberState_MEMBER_STATE_EXPIRED:
		return "session expired: the manager did not hear from this member for too long"
	case groupv1.MemberState_MEMBER_STATE_FENCED:
		return "session ended: another program joined as the same member"
	case groupv1.MemberState_MEMBER_STATE_EXPELLED:
		return "session ended by an operator: the group was deleted, or the identity revoked or let into other groups"
	}
	return "session ended: " + e.State.String()
}

// Attendance is how a node takes part in deliveries.
type Attendance struct {
	// Reports returns how the node's deliveries are going. While there are any, they are sent every second.
	Reports func() []*groupv1.DeliveryReport
	// Assign takes the changes in what the node has to do. It is called from one
	// goroutine, the one that keeps the stream alive: it must not block.
	Assign func(*groupv1.Assignments)
	// Wake makes the reports be sent at once.
	Wake <-chan struct{}
	// Measure is told with every answer which agents round trips are to be measured to; nil is none now. It must not block.
	Measure func(*groupv1.Measuring)
	// RoundTrips returns what was measured since the last call.
	RoundTrips func() []*groupv1.RoundTrip
}

// pause returns how long to wait before a stream that held for a while is opened again.
func (a *Attendance) pause() time.Duration {
	if a == nil {
		return reattach
	}
	return reattachSoon
}

func (a *Attendance) wake() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.Wake
}

func (a *Attendance) reports() []*groupv1.DeliveryReport {
	if a == nil || a.Reports == nil {
		return nil
	}
	return a.Reports()
}

func (a *Attendance) measure(measuring *groupv1.Measuring) {
	if a != nil && a.Measure != nil {
		a.Measure(measuring)
	}
}

func (a *Attendance) roundTrips() []*groupv1.RoundTrip {
	if a == nil || a.RoundTrips == nil {
		return nil
	}
	return a.RoundTrips()
}

// assigner hands on what one stream says about what is to be done; it joins the parts of a complete list.
type assigner struct {
	to    *Attendance
	parts []*groupv1.Assignment
}

func (a *assigner) take(assignments *groupv1.Assignments) {
	if a.to == nil || a.to.Assign == nil || assignments == nil {
		return
	}
	if assignments.GetContinues() {
		a.parts = append(a.parts, assignments.GetCurrent()...)
		return
	}
	assignments.Current = append(a.parts, assignments.GetCurrent()...)
	a.parts = nil
	a.to.Assign(assignments)
}

// busyInterval is how often deliveries are reported while there are any.
const busyInterval = time.Second

// Keep keeps a session alive until ctx is done or the session has ended: then it returns *Ended. It
// survives broken connections and changing leaders. Without attendance the member takes no part in
// deliveries.
func (u *Uplink) Keep(ctx context.Context, member *groupv1.Member, interval time.Duration, attendance *Attendance) error {
	err := u.keep(ctx, member, interval, attendance)
	if Reason(err) == "REVOKED" {
		return &Ended{groupv1.MemberState_MEMBER_STATE_EXPELLED}
	}
	return err
}

func (u *Uplink) keep(ctx context.Context, member *groupv1.Member, interval time.Duration, attendance *Attendance) error {
	return u.attendWith(ctx, "keep session", attendance.pause(), func(ctx context.Context) error {
		stream, err := groupv1.NewSessionServiceClient(u).KeepSession(ctx)
		if err != nil {
			return err
		}
		every, assigned, told := interval, assigner{to: attendance}, shares{of: attendance}
		return exchange(ctx, stream, talk[*groupv1.KeepSessionRequest, *groupv1.KeepSessionResponse]{
			wake:  attendance.wake(),
			every: func() time.Duration { return told.pause(every) },
			next: func() *groupv1.KeepSessionRequest {
				message := &groupv1.KeepSessionRequest{
					Group: member.GetGroup(), Name: member.GetName(), Incarnation: member.GetIncarnation(),
					Attends: attendance != nil, Reports: told.next(), RoundTrips: attendance.roundTrips(),
				}
				every = interval
				if len(message.GetReports()) > 0 {
					every = min(interval, busyInterval)
				}
				return message
			},
			take: func(answer *groupv1.KeepSessionResponse) error {
				if answer.GetState() != groupv1.MemberState_MEMBER_STATE_ACTIVE {
					return &Ended{answer.GetState()}
				}
				u.learnTime(answer.GetManagerTime())
				assigned.take(answer.GetAssignments())
				attendance.measure(answer.GetMeasuring())
				return nil
			},
		})
	})
}

// learnTime sets the clock by a manager's; older managers do not tell the time.
func (u *Uplink) learnTime(manager *timestamppb.Timestamp) {
	if manager.IsValid() {
		u.clock.Learn(manager.AsTime())
	}
}

// AgentFenced says that another process registered as the same agent.
type AgentFenced struct{}

func (e *AgentFenced) Error() string {
	return "registration ended: another process registered as the same agent, with the same credentials"
}

// Register registers an agent and reports for it until ctx is done; then the agent says goodbye. If
// a newer incarnation of it has registered, Register returns *AgentFenced. Without attendance the
// agent takes no part in deliveries.
func (u *Uplink) Register(ctx context.Context, registration *agentv1.Registration, report func() *agentv1.Report, attendance *Attendance) error {
	var incarnation uint64
	err := u.attendWith(ctx, "register agent", attendance.pause(), func(ctx context.Context) error {
		stream, err := agentv1.NewAgentServiceClient(u).Control(ctx)
		if err != nil {
			return err
		}
		registration.Incarnation = incarnation
		first, every, assigned, told := true, reportInterval, assigner{to: attendance}, shares{of: attendance}
		return exchange(ctx, stream, talk[*agentv1.ControlRequest, *agentv1.ControlResponse]{
			wake:  attendance.wake(),
			every: func() time.Duration { return told.pause(every) },
			next: func() *agentv1.ControlRequest {
				if first {
					first = false
					return &agentv1.ControlRequest{Message: &agentv1.ControlRequest_Registration{Registration: registration}}
				}
				message := report()
				message.Deliveries, message.RoundTrips = told.next(), attendance.roundTrips()
				return &agentv1.ControlRequest{Message: &agentv1.ControlRequest_Report{Report: message}}
			},
			take: func(answer *agentv1.ControlResponse) error {
				switch answer.GetState() {
				case agentv1.AgentState_AGENT_STATE_ONLINE:
					incarnation = answer.GetIncarnation()
					if interval := answer.GetReportInterval().AsDuration(); interval > 0 {
						every = interval
					}
					u.learnTime(answer.GetManagerTime())
					assigned.take(answer.GetAssignments())
					attendance.measure(answer.GetMeasuring())
					return nil
				case agentv1.AgentState_AGENT_STATE_OFFLINE:
					return errGivenUp // the managers have given it up: register again
				}
				return &AgentFenced{}
			},
		})
	})
	if ctx.Err() != nil && incarnation != 0 {
		registration.Incarnation = incarnation // without it this would register a new incarnation, and fence the one that has taken its place
		u.goodbye(registration)
	}
	return err
}

// reportInterval is how often agents report until the manager says otherwise.
const reportInterval = 2 * time.Second

// goodbye tells the manager that the agent stops. It is a courtesy: without it,
// the agent counts as offline after a while.
func (u *Uplink) goodbye(registration *agentv1.Registration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := agentv1.NewAgentServiceClient(u).Control(ctx)
	if err != nil {
		return
	}
	for _, message := range []*agentv1.ControlRequest{
		{Message: &agentv1.ControlRequest_Registration{Registration: registration}},
		{Message: &agentv1.ControlRequest_Report{Report: &agentv1.Report{Goodbye: true}}},
	} {
		if stream.Send(message) != nil {
			return
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
}

// attend does something that goes on for long, and does it again whenever it breaks, until ctx
// is done or it fails for good.
func (u *Uplink) attend(ctx context.Context, what string, do func(context.Context) error) error {
	return u.attendWith(ctx, what, reattach, do)
}

// attendWith is attend with the pause after a stream that has held for a while.
func (u *Uplink) attendWith(ctx context.Context, what string, soon time.Duration, do func(context.Context) error) error {
	if !u.attends.Swap(true) {
		u.reach.begin()
		defer time.AfterFunc(awayPatience, func() { u.sayAlone(ctx, what) }).Stop()
	}
	for failed, told := 0, false; ; {
		attempt, cancel := context.WithCancel(ctx)
		began := time.Now()
		err := do(attempt)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if !transient(err) || u.Closed() {
			return &refusal{what, u.config.CredentialsDir, err}
		}
		u.reach.lost()
		if time.Since(began) > held {
			failed, told = 0, false
		}
		// That a manager restarts, or another begins to lead, is no news. That none is ever heard has to be told, but
		// not with every attempt.
		level, silent := slog.LevelDebug, u.reach.isSilent()
		failed++
		isDue := failed&(failed-1) == 0 && (failed >= manyAttempts || silent)
		if failed > 1 && (isDue || silent && !told) {
			level, told = slog.LevelWarn, true
		}
		u.log.Log(ctx, level, "not connected to a manager; trying again", "what", what, "error", brokenBy(err))
		if cutOff(err) {
			u.transports.renew()
		}
		pause := reattach
		if time.Since(began) > settled {
			pause = soon
		}
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// sayAlone logs that no manager was heard since the process began to attend to one: gRPC still tries for a while before
// it says why the first attempt fails.
func (u *Uplink) sayAlone(ctx context.Context, what string) {
	if ctx.Err() != nil || u.Closed() || u.reach.hasHeard() {
		return
	}
	why := "no manager has answered at " + strings.Join(u.transports.endpoints, ", ")
	if err := u.HandshakeError(); err != nil {
		why += ": " + Words(err)
	}
	u.log.Warn("not connected to a manager; trying again", "what", what, "error", why)
}

// brokenBy says why a stream broke that nobody here closed. If the text says that the client connection is closing, it is the
// answering manager's own connection to the leader.
func brokenBy(err error) string {
	if text := Words(err); text != closedWords {
		return text
	}
	return "the manager that answers has lost the one that leads"
}

// refusal says why something that was to go on for long has failed for good.
type refusal struct {
	what, credentialsDir string
	err                  error
}

func (r *refusal) Error() string {
	text := r.what + ": " + Words(r.err)
	if Reason(r.err) == "REVOKED" {
		text += ", and remove the credentials in " + r.credentialsDir + ": a service that has some uses no token"
	}
	return text
}

func (r *refusal) Unwrap() error { return r.err }

// cutOff reports whether a manager was reached that is of no use, because it is silent, or cannot
// reach the others.
func cutOff(err error) bool {
	return errors.Is(err, errSilent) || status.Code(err) == codes.Unavailable && Reason(err) != ""
}

// isTooLarge reports whether gRPC refused a message for its size: the same question has as large an answer the next time.
func isTooLarge(err error) bool {
	return Reason(err) == "" && strings.Contains(status.Convert(err).Message(), "message larger than max")
}

// transient reports whether it can help to try again.
func transient(err error) bool {
	if errors.Is(err, io.EOF) { // a manager that stops ends its streams
		return true
	}
	switch status.Code(err) {
	case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Canceled, codes.Aborted:
		return true
	case codes.ResourceExhausted:
		return !isTooLarge(err)
	case codes.Unknown:
		_, isStatus := status.FromError(err)
		return isStatus || errors.Is(err, errSilent) || errors.Is(err, errGivenUp) || errors.Is(err, errMissed) || errors.Is(err, errTooMuch)
	}
	return false
}
