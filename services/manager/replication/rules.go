package replication

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/moment"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

const (
	// hearingPatience is how long a replica may hear nothing of a sender that announces:
	// multicast does not get there.
	hearingPatience = 5 * time.Second
	// awayPatience is how long a replica that is not heard of is waited for.
	awayPatience = 15 * time.Second
	// senderPatience is how long the sender may be away from the managers. It goes on without
	// them meanwhile.
	senderPatience = 10 * time.Second
	// backPatience is how long replicas that are away have to come back once the sender is lost. speakPatience is how long a replica that is
	// back has to say what it has: a manager that has only just begun to lead knows nothing of them.
	backPatience  = 3 * time.Second
	speakPatience = time.Second
	// refusalPatience is how long a replica that was not served when the sender ended has to say that it has refused.
	refusalPatience = 2 * time.Second
	// endPatience is how long replicas have to say how it went after the sender has ended.
	endPatience = 5 * time.Second
)

// facts are what the outcome of a replication is decided by.
type facts struct {
	now      time.Time
	deadline time.Time // zero is none
	canceled bool
	agents   bool // session agents can carry it to replicas that multicast does not reach
	sender   senderFacts
	replicas []replicaFacts
}

// senderFacts are what is known of the sender; a time is zero where the fact does not hold.
type senderFacts struct {
	away       time.Time // since when its stream is closed
	gone       bool      // it left, or is another process by now: it does not come back
	announcing time.Time
	ended      time.Time
	reason     string
	detail     string
	root       []byte // empty until all was read
	problem    string // why session agents carry nothing
}

// replicaFacts are what is known of a replica.
type replicaFacts struct {
	name, place string // its name, and its LAN and group
	state       replicav1.ReplicaState
	report      *replicav1.ReceiveReport // nil while it has said nothing
	online      time.Time                // since when its stream is open
	away        time.Time                // since when it is closed
	left        bool
	putOut      bool   // its identity was revoked
	givenUp     string // why the sender has given it up
	isUnserved  bool   // the sender has ended and has not served it: they did not hear each other
	overAgents  bool   // session agents carry it
	delivered   time.Time
}

// outcome is how it went at one replica.
type outcome struct {
	state          replicav1.ReplicaState
	reason, detail string
}

// verdict says what is to be written.
type verdict struct {
	outcomes       map[string]outcome
	overAgents     []string // replicas to which session agents are to carry it from now on
	ended          bool
	reason, detail string
}

// decide says how a replication stands. It ends when it is known how it went for every
// replica, when nobody sends any more, or when its time is over. It has a reason only if it
// would have gone on otherwise.
func decide(f facts) verdict {
	v := verdict{outcomes: make(map[string]outcome)}
	v.reason, v.detail = f.over()
	waiting, cut := false, false // whether a replica is waited for, and whether one could not be
	for _, r := range f.replicas {
		if r.isFinal() {
			continue
		}
		if v.reason == "" && f.needsAgents(r) {
			v.overAgents, waiting = append(v.overAgents, r.name), true
			continue
		}
		o, known := f.judge(r)
		settled := known
		switch {
		case known, v.reason == SenderLost && f.isComing(r):
		case v.reason != "" && r.away.IsZero():
			o, settled = failed(v.reason, v.detail), true
		case v.reason != "" || f.isUnknown(r):
			o, settled = outcome{state: replicav1.ReplicaState_REPLICA_STATE_UNKNOWN}, true
		}
		cut = cut || !known && v.reason != ""
		if settled {
			v.outcomes[r.name] = o
		}
		waiting = waiting || !settled
	}
	v.ended = !waiting
	if !v.ended || !cut {
		v.reason, v.detail = "", ""
	}
	for name, o := range v.outcomes {
		if !v.ended && o.state == replicav1.ReplicaState_REPLICA_STATE_UNKNOWN {
			delete(v.outcomes, name) // it may be heard of again while others are waited for
		}
	}
	return v
}

// isFinal reports whether the outcome at the replica is written already.
func (r replicaFacts) isFinal() bool {
	return r.state == replicav1.ReplicaState_REPLICA_STATE_COMPLETE || r.state == replicav1.ReplicaState_REPLICA_STATE_FAILED
}

// over says why the replication cannot go on, if so.
func (f facts) over() (reason, detail string) {
	s := f.sender
	switch {
	case f.canceled:
		return Canceled, "the replication was canceled"
	case s.reason == SourceFailed:
		return SourceFailed, s.detail
	case s.gone:
		return SenderLost, "the sender's replicator stopped or began anew: replicate again, replicas go on from what they have"
	case !s.away.IsZero() && f.now.Sub(s.away) >= senderPatience && (s.ended.IsZero() || f.isDelivering()):
		return SenderLost, "the managers do not hear of the sender's replicator: see that it runs, and replicate again; replicas go on from what they have"
	case !f.deadline.IsZero() && !f.now.Before(f.deadline):
		return Deadline, "it took longer than the deadline that was given"
	}
	return "", ""
}

// isDelivering reports whether session agents are carrying it to anybody.
func (f facts) isDelivering() bool {
	return slices.ContainsFunc(f.replicas, func(r replicaFacts) bool { return r.overAgents && !r.isFinal() })
}

// isUnheard reports whether multicast does not get to a replica that is online, or what the replica says does not get to the sender: the sender
// has heard nobody at all, or has ended without this replica, or the replica waits again.
func (f facts) isUnheard(r replicaFacts) bool {
	s := f.sender
	switch r.report.GetState() {
	case replicav1.ReplicaState_REPLICA_STATE_UNSPECIFIED, replicav1.ReplicaState_REPLICA_STATE_WAITING:
		return s.reason == NoMulticast || !s.announcing.IsZero() && f.now.Sub(moment.Latest(s.announcing, r.online)) >= hearingPatience
	case replicav1.ReplicaState_REPLICA_STATE_RECEIVING:
		return s.reason == NoMulticast || s.reason == "" && r.isUnserved && f.now.Sub(moment.Latest(s.ended, r.online)) >= refusalPatience
	}
	return false
}

// isMissed reports whether multicast no longer gets to a replica that is online: the replica hears nothing, or the sender has given it up. A
// replica that is just back may be heard on its LAN in a moment.
func (f facts) isMissed(r replicaFacts) bool {
	receives := r.report.GetState() == replicav1.ReplicaState_REPLICA_STATE_RECEIVING
	return receives && (r.report.GetUnheard() || r.givenUp != "") && f.now.Sub(r.online) >= hearingPatience
}

// needsAgents reports whether session agents are to carry it to a replica from now on.
func (f facts) needsAgents(r replicaFacts) bool {
	return f.agents && !r.overAgents && !r.left && !r.putOut && r.away.IsZero() && (f.isUnheard(r) || f.isMissed(r))
}

// isUnknown reports whether a replica is no longer waited for.
func (f facts) isUnknown(r replicaFacts) bool {
	return !r.away.IsZero() && f.now.Sub(r.away) >= awayPatience
}

// isComing reports whether a replica may say in a moment how much it has.
func (f facts) isComing(r replicaFacts) bool {
	if r.left || r.report != nil {
		return false
	}
	return !r.away.IsZero() && f.now.Sub(r.away) < backPatience || r.away.IsZero() && f.now.Sub(r.online) < speakPatience
}

// judge says how it went at a replica, if that is known for good.
func (f facts) judge(r replicaFacts) (o outcome, settled bool) {
	switch state := r.report.GetState(); {
	case state == replicav1.ReplicaState_REPLICA_STATE_COMPLETE && len(f.sender.root) > 0:
		if !bytes.Equal(r.report.GetRoot(), f.sender.root) {
			return failed(Damaged, "what it has is not what the sender read: replicate again"), true
		}
		return outcome{state: state}, true
	case state == replicav1.ReplicaState_REPLICA_STATE_FAILED:
		return failed(r.report.GetReason(), r.report.GetDetail()), true
	case r.putOut:
		return failed(Revoked, "the identity of its replicator was revoked: enroll it with a new join token, and replicate again"), true
	case r.left:
		return failed(Left, "its replicator was stopped: start it, and replicate again"), true
	case !r.away.IsZero():
		return outcome{}, false
	}
	return f.judgeByTime(r)
}

// judgeByTime says what has taken too long at a replica that is online.
func (f facts) judgeByTime(r replicaFacts) (o outcome, settled bool) {
	s := f.sender
	switch {
	case r.overAgents:
		return f.judgeDelivery(r)
	case f.isUnheard(r):
		return failed(NoMulticast, fmt.Sprintf("nothing was heard of the sender on %s within %v, or that did not hear this replica: see that both are on this LAN, that its switches carry multicast (IGMP snooping needs a querier) and no firewall drops UDP; or run session agents, which carry it where multicast does not%s", r.place, hearingPatience, f.hints(r))), true
	}
	if s.ended.IsZero() || f.now.Sub(moment.Latest(s.ended, r.online)) < endPatience { // a replica that is just back has yet to say what it has
		return outcome{}, false
	}
	if r.givenUp != "" {
		return failed(r.givenUp, "the sender has given it up: see the replicator's log there, and replicate again"), true
	}
	return failed(SenderLost, "the sender has ended, and did not confirm that this replica has all: replicate again"), true
}

// hints returns what sender and replica say of why the replica hears nothing, to be added to a message.
func (f facts) hints(r replicaFacts) (why string) {
	if detail := r.report.GetDetail(); detail != "" {
		why = "; its replicator says: " + detail
	}
	if s := f.sender; s.reason == NoMulticast && s.detail != "" {
		why += "; the sender says: " + s.detail
	}
	return why
}

// judgeDelivery says how it went at a replica to which session agents carry it.
func (f facts) judgeDelivery(r replicaFacts) (o outcome, settled bool) {
	switch s := f.sender; {
	case s.problem != "":
		return failed(NoMulticast, fmt.Sprintf("nothing was heard of the sender on %s, and session agents cannot carry it: %s%s", r.place, s.problem, f.hints(r))), true
	case r.delivered.IsZero() || f.now.Sub(moment.Latest(r.delivered, r.online)) < endPatience:
		return outcome{}, false
	}
	return failed(SenderLost, "session agents carried it, and it has not all: see the replicator's log there, and replicate again"), true
}

func failed(reason, detail string) outcome {
	return outcome{replicav1.ReplicaState_REPLICA_STATE_FAILED, reason, detail}
}

// stateOf returns how a replication ended, by how many of its replicas are complete.
func stateOf(replicas, complete int) replicav1.ReplicationState {
	switch complete {
	case replicas:
		return replicav1.ReplicationState_REPLICATION_STATE_COMPLETE
	case 0:
		return replicav1.ReplicationState_REPLICATION_STATE_FAILED
	}
	return replicav1.ReplicationState_REPLICATION_STATE_PARTIAL
}
