package replication

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after returns a time some seconds after the replication began.
func after(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

// String shows a verdict as "a:COMPLETE b:FAILED(slow); agents for c; ended deadline".
func (v verdict) String() string {
	var parts, outcomes []string
	for _, name := range slices.Sorted(maps.Keys(v.outcomes)) {
		o := v.outcomes[name]
		text := name + ":" + strings.TrimPrefix(o.state.String(), "REPLICA_STATE_")
		if o.reason != "" {
			text += "(" + o.reason + ")"
		}
		outcomes = append(outcomes, text)
	}
	if len(outcomes) > 0 {
		parts = append(parts, strings.Join(outcomes, " "))
	}
	if len(v.overAgents) > 0 {
		parts = append(parts, "agents for "+strings.Join(v.overAgents, ","))
	}
	if v.ended {
		parts = append(parts, strings.TrimSpace("ended "+v.reason))
	}
	return strings.Join(parts, "; ")
}

var (
	root  = bytes.Repeat([]byte{1}, rootBytes)
	other = bytes.Repeat([]byte{2}, rootBytes)
)

// online is a replica that is connected since the beginning, and has said so.
func online(name string, said *replicav1.ReceiveReport) replicaFacts {
	return replicaFacts{name: name, place: "LAN rack1 (239.195.0.1:7431)", state: replicav1.ReplicaState_REPLICA_STATE_WAITING, online: begin, report: said}
}

func receiving() *replicav1.ReceiveReport {
	return &replicav1.ReceiveReport{State: replicav1.ReplicaState_REPLICA_STATE_RECEIVING}
}

func waitingFor() *replicav1.ReceiveReport {
	return &replicav1.ReceiveReport{State: replicav1.ReplicaState_REPLICA_STATE_WAITING}
}

func hasAll(root []byte) *replicav1.ReceiveReport {
	return &replicav1.ReceiveReport{State: replicav1.ReplicaState_REPLICA_STATE_COMPLETE, Root: root}
}

func away(since float64) replicaFacts {
	r := online("u", receiving())
	r.online, r.away = time.Time{}, after(since)
	return r
}

func change(r replicaFacts, by func(*replicaFacts)) replicaFacts {
	by(&r)
	return r
}

// Each replica ends with all bytes, verified, or with a reason, and what is not known is never
// called a success.
func TestOutcome(t *testing.T) {
	sending := senderFacts{announcing: after(0.1)}
	sealed, done := senderFacts{announcing: after(0.1), root: root}, senderFacts{announcing: after(0.1), root: root, ended: after(4)}
	a, b := online("a", receiving()), online("b", hasAll(root))
	final := change(b, func(r *replicaFacts) { r.state = replicav1.ReplicaState_REPLICA_STATE_COMPLETE })
	failedThere := online("f", &replicav1.ReceiveReport{State: replicav1.ReplicaState_REPLICA_STATE_FAILED, Reason: NoRoom})
	left := online("l", receiving())
	left.left, left.away = true, after(1)
	for _, tt := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"under way", facts{now: after(1), sender: sending, replicas: []replicaFacts{a}}, ""},
		{"all complete", facts{now: after(1), sender: sealed, replicas: []replicaFacts{b}}, "b:COMPLETE; ended"},
		{"complete, and the root not known yet", facts{now: after(1), sender: sending, replicas: []replicaFacts{b}}, ""},
		{"complete with other bytes", facts{now: after(1), sender: sealed, replicas: []replicaFacts{online("c", hasAll(other))}}, "c:FAILED(damaged); ended"},
		{"one complete, one under way", facts{now: after(1), sender: sealed, replicas: []replicaFacts{a, b}}, "b:COMPLETE"},
		{"written before", facts{now: after(1), sender: sealed, replicas: []replicaFacts{final}}, "ended"},
		{"it says why it failed", facts{now: after(1), sender: sealed, replicas: []replicaFacts{b, failedThere}}, "b:COMPLETE f:FAILED(no_room); ended"},
		{"its replicator was stopped", facts{now: after(2), sender: sending, replicas: []replicaFacts{a, left}}, "l:FAILED(left)"},

		{"it is away for a while", facts{now: after(14), sender: sealed, replicas: []replicaFacts{final, away(0)}}, ""},
		{"it is away for long", facts{now: after(15), sender: sealed, replicas: []replicaFacts{final, away(0)}}, "u:UNKNOWN; ended"},
		{"for long, while another is waited for", facts{now: after(60), sender: sending, replicas: []replicaFacts{a, away(0)}}, ""},
		{"away, but it said that it has all", facts{now: after(3), sender: sealed, replicas: []replicaFacts{change(away(1), func(r *replicaFacts) { r.report = hasAll(root) })}}, "u:COMPLETE; ended"},

		{"its identity was revoked", facts{now: after(3), sender: sending, replicas: []replicaFacts{a, change(online("r", receiving()), func(r *replicaFacts) { r.putOut = true })}}, "r:FAILED(revoked)"},
		{"revoked, it is away, and has left", facts{now: after(3), sender: sending, replicas: []replicaFacts{a, change(away(1), func(r *replicaFacts) { r.putOut, r.left = true, true })}}, "u:FAILED(revoked)"},
		{"revoked, but it said that it has all", facts{now: after(3), sender: sealed, replicas: []replicaFacts{change(b, func(r *replicaFacts) { r.putOut = true })}}, "b:COMPLETE; ended"},

		{"it hears nothing for a while", facts{now: after(5), sender: sending, replicas: []replicaFacts{online("a", waitingFor())}}, ""},
		{"it hears nothing within 5 s", facts{now: after(5.1), sender: sending, replicas: []replicaFacts{online("a", waitingFor()), a}}, "a:FAILED(no_multicast)"},
		{"it came late", facts{now: after(8), sender: sending, replicas: []replicaFacts{change(online("a", nil), func(r *replicaFacts) { r.online = after(4) })}}, ""},
		{"the sender heard nobody", facts{now: after(5), sender: senderFacts{announcing: after(0.1), ended: after(5), reason: NoMulticast}, replicas: []replicaFacts{online("a", waitingFor())}}, "a:FAILED(no_multicast); ended"},
		{"the sender heard nobody, and this one heard it", facts{now: after(5), sender: senderFacts{announcing: after(0.1), ended: after(5), reason: NoMulticast}, replicas: []replicaFacts{a}}, "a:FAILED(no_multicast); ended"},
		{"the same, and there are agents", facts{now: after(5.2), agents: true, sender: senderFacts{announcing: after(0.1), ended: after(5), reason: NoMulticast}, replicas: []replicaFacts{a}}, "agents for a"},
		{"the sender has ended without it, for it never heard it", facts{now: after(6), sender: done, replicas: []replicaFacts{final, change(a, func(r *replicaFacts) { r.isUnserved = true })}}, "a:FAILED(no_multicast); ended"},
		{"the same, a moment ago: it may have refused", facts{now: after(5.9), sender: done, replicas: []replicaFacts{final, change(a, func(r *replicaFacts) { r.isUnserved = true })}}, ""},
		{"the same, but the source had failed", facts{now: after(4), sender: senderFacts{ended: after(4), reason: SourceFailed}, replicas: []replicaFacts{change(a, func(r *replicaFacts) { r.isUnserved = true })}}, "a:FAILED(source_failed); ended source_failed"},
		{"nothing was announced yet", facts{now: after(50), replicas: []replicaFacts{online("a", waitingFor())}}, ""},

		{"the sender has ended, a moment ago", facts{now: after(8), sender: done, replicas: []replicaFacts{a}}, ""},
		{"it has ended without a word of this one", facts{now: after(9), sender: done, replicas: []replicaFacts{a, final}}, "a:FAILED(sender_lost); ended"},
		{"it is back since a moment, after the end", facts{now: after(13), sender: done, replicas: []replicaFacts{final, change(online("a", nil), func(r *replicaFacts) { r.online = after(12.9) })}}, ""},
		{"it is back, and has nothing to say", facts{now: after(18), sender: done, replicas: []replicaFacts{final, change(a, func(r *replicaFacts) { r.online = after(12.9) })}}, "a:FAILED(sender_lost); ended"},
		{"it has given one up", facts{now: after(9), sender: done, replicas: []replicaFacts{change(a, func(r *replicaFacts) { r.givenUp = Silent })}}, "a:FAILED(silent); ended"},

		{"the source cannot be read", facts{now: after(1), sender: senderFacts{reason: SourceFailed, ended: after(1)}, replicas: []replicaFacts{a, online("z", nil)}}, "a:FAILED(source_failed) z:FAILED(source_failed); ended source_failed"},
		{"the sender is away for a while", facts{now: after(9), sender: senderFacts{announcing: after(0.1), away: after(0)}, replicas: []replicaFacts{a}}, ""},
		{"the sender is away for long", facts{now: after(10), sender: senderFacts{announcing: after(0.1), away: after(0)}, replicas: []replicaFacts{a, away(1)}}, "a:FAILED(sender_lost) u:UNKNOWN; ended sender_lost"},
		{"the sender is away, its work done", facts{now: after(30), sender: senderFacts{announcing: after(0.1), away: after(15), ended: after(26), root: root}, replicas: []replicaFacts{a}}, ""},
		{"the sender began anew", facts{now: after(1), sender: senderFacts{gone: true}, replicas: []replicaFacts{a}}, "a:FAILED(sender_lost); ended sender_lost"},
		{"it began anew, and one may come back", facts{now: after(3.9), sender: senderFacts{gone: true}, replicas: []replicaFacts{a, change(away(1), func(r *replicaFacts) { r.report = nil })}}, "a:FAILED(sender_lost)"},
		{"it began anew, and one does not come back", facts{now: after(4), sender: senderFacts{gone: true}, replicas: []replicaFacts{change(away(1), func(r *replicaFacts) { r.report = nil })}}, "u:UNKNOWN; ended sender_lost"},
		{"it began anew, and one is just back", facts{now: after(1.9), sender: senderFacts{gone: true}, replicas: []replicaFacts{change(online("a", nil), func(r *replicaFacts) { r.online = after(1) })}}, ""},
		{"it began anew, and one has said what it has", facts{now: after(1.9), sender: senderFacts{gone: true}, replicas: []replicaFacts{change(a, func(r *replicaFacts) { r.online = after(1) })}}, "a:FAILED(sender_lost); ended sender_lost"},
		{"it is gone, and all have it", facts{now: after(1), sender: senderFacts{gone: true, root: root}, replicas: []replicaFacts{b}}, "b:COMPLETE; ended"},

		{"all have it at the deadline", facts{now: after(10), deadline: after(10), sender: sealed, replicas: []replicaFacts{b}}, "b:COMPLETE; ended"},
		{"before the deadline", facts{now: after(9.9), deadline: after(10), sender: sending, replicas: []replicaFacts{a}}, ""},
		{"canceled, and one has it all", facts{now: after(3), canceled: true, sender: sealed, replicas: []replicaFacts{a, b, failedThere, away(1)}}, "a:FAILED(canceled) b:COMPLETE f:FAILED(no_room) u:UNKNOWN; ended canceled"},
		{"canceled, and all have it", facts{now: after(3), canceled: true, sender: sealed, replicas: []replicaFacts{b}}, "b:COMPLETE; ended"},
		{"at the deadline", facts{now: after(10), deadline: after(10), sender: sealed, replicas: []replicaFacts{a, b, away(3)}}, "a:FAILED(deadline) b:COMPLETE u:UNKNOWN; ended deadline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.facts).String(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A LAN that multicast does not reach is found within 5 s and fed by session agents, where there are any,
// in the same replication: it is COMPLETE and FAILED by the same rules, and nobody waits for ever.
func TestOutcomeOverAgents(t *testing.T) {
	unheard := online("u", waitingFor())
	carried := change(unheard, func(r *replicaFacts) { r.overAgents = true })
	complete := change(carried, func(r *replicaFacts) { r.report = hasAll(root) })
	delivered := change(carried, func(r *replicaFacts) { r.delivered = after(20) })
	sending := senderFacts{announcing: after(0), root: root}
	missed := change(online("u", receiving()), func(r *replicaFacts) { r.givenUp = Silent })
	deaf := change(online("u", receiving()), func(r *replicaFacts) { r.report.Unheard = true })
	done := senderFacts{announcing: after(0), ended: after(30), root: root}
	nobody := senderFacts{announcing: after(0), ended: after(5), reason: NoMulticast}
	problem := sending
	problem.problem = "no agent is online"
	lost := nobody
	lost.away = after(20)
	broken := senderFacts{announcing: after(0), ended: after(70), reason: NoMulticast, detail: "network is unreachable"}
	for _, tt := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"nothing is heard for a while", facts{agents: true, now: after(4.9), sender: sending, replicas: []replicaFacts{unheard}}, ""},
		{"nothing is heard within 5 s", facts{agents: true, now: after(5), sender: sending, replicas: []replicaFacts{unheard, online("a", receiving())}}, "agents for u"},
		{"the sender heard nobody", facts{agents: true, now: after(5), sender: nobody, replicas: []replicaFacts{unheard}}, "agents for u"},
		{"it hears nothing any more", facts{agents: true, now: after(15), sender: sending, replicas: []replicaFacts{deaf, online("a", receiving())}}, "agents for u"},
		{"it does not, and there are no agents", facts{now: after(15), sender: sending, replicas: []replicaFacts{deaf}}, ""},
		{"the sender has given it up", facts{agents: true, now: after(15), sender: sending, replicas: []replicaFacts{missed, online("a", receiving())}}, "agents for u"},
		{"it has, and has ended", facts{agents: true, now: after(40), sender: done, replicas: []replicaFacts{missed}}, "agents for u"},
		{"it has, and it is just back", facts{agents: true, now: after(15), sender: sending, replicas: []replicaFacts{change(missed, func(r *replicaFacts) { r.online = after(10.1) })}}, ""},
		{"it has, of one that says that it has all", facts{agents: true, now: after(15), sender: sending, replicas: []replicaFacts{change(missed, func(r *replicaFacts) { r.report = hasAll(root) })}}, "u:COMPLETE; ended"},
		{"the sender's network takes nothing any more", facts{agents: true, now: after(70), sender: broken, replicas: []replicaFacts{online("u", receiving())}}, "agents for u"},
		{"the same, while it is carried", facts{agents: true, now: after(70), sender: broken, replicas: []replicaFacts{change(online("u", receiving()), func(r *replicaFacts) { r.overAgents = true })}}, ""},
		{"the same, and there are no agents", facts{now: after(70), sender: broken, replicas: []replicaFacts{online("u", receiving())}}, "u:FAILED(no_multicast); ended"},
		{"who was revoked needs none", facts{agents: true, now: after(5), sender: sending, replicas: []replicaFacts{change(unheard, func(r *replicaFacts) { r.putOut = true })}}, "u:FAILED(revoked); ended"},
		{"who has left needs none", facts{agents: true, now: after(5), sender: sending, replicas: []replicaFacts{change(unheard, func(r *replicaFacts) { r.left = true })}}, "u:FAILED(left); ended"},
		{"after the deadline nothing begins", facts{agents: true, now: after(5), deadline: after(5), sender: sending, replicas: []replicaFacts{unheard}}, "u:FAILED(no_multicast); ended"},
		{"it is carried for long", facts{agents: true, now: after(900), sender: nobody, replicas: []replicaFacts{carried}}, ""},
		{"it is there", facts{agents: true, now: after(9), sender: sending, replicas: []replicaFacts{complete}}, "u:COMPLETE; ended"},
		{"it has arrived, and was said to a moment ago", facts{agents: true, now: after(24), sender: sending, replicas: []replicaFacts{delivered}}, ""},
		{"it was delivered without a word of this one", facts{agents: true, now: after(25), sender: sending, replicas: []replicaFacts{delivered}}, "u:FAILED(sender_lost); ended"},
		{"it cannot be carried", facts{agents: true, now: after(9), sender: problem, replicas: []replicaFacts{carried}}, "u:FAILED(no_multicast); ended"},
		{"the sender is away while it is carried", facts{agents: true, now: after(30), sender: lost, replicas: []replicaFacts{carried}}, "u:FAILED(sender_lost); ended sender_lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := decide(tt.facts).String(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// Whoever reads a failure is told where it is and what to do.
func TestFailuresSayWhatToDo(t *testing.T) {
	v := decide(facts{now: after(6), sender: senderFacts{announcing: after(0.1)}, replicas: []replicaFacts{online("a", waitingFor())}})
	for _, want := range []string{"LAN rack1 (239.195.0.1:7431)", "IGMP snooping", "run session agents"} {
		if detail := v.outcomes["a"].detail; !strings.Contains(detail, want) {
			t.Errorf("%q does not say %q", detail, want)
		}
	}
}

// A failure tells what both the sender and the replica know of why nothing is heard.
func TestFailuresSayWhatIsKnown(t *testing.T) {
	broken := senderFacts{announcing: after(0), ended: after(5), reason: NoMulticast, detail: "network is unreachable"}
	cannot := broken
	cannot.problem = "no agent is online"
	deaf := change(online("a", waitingFor()), func(r *replicaFacts) { r.report.Detail = "no such network interface" })
	carried := change(deaf, func(r *replicaFacts) { r.overAgents = true })
	for _, f := range []facts{
		{now: after(6), sender: broken, replicas: []replicaFacts{deaf}}, {now: after(6), sender: cannot, replicas: []replicaFacts{carried}},
	} {
		detail := decide(f).outcomes["a"].detail
		for _, want := range []string{"the sender says: network is unreachable", "its replicator says: no such network interface"} {
			if !strings.Contains(detail, want) {
				t.Errorf("%q does not say %q", detail, want)
			}
		}
	}
}

func TestStates(t *testing.T) {
	for complete, want := range []replicav1.ReplicationState{
		replicav1.ReplicationState_REPLICATION_STATE_FAILED, replicav1.ReplicationState_REPLICATION_STATE_PARTIAL, replicav1.ReplicationState_REPLICATION_STATE_COMPLETE,
	} {
		if got := stateOf(2, complete); got != want {
			t.Errorf("%d of 2: %v, want %v", complete, got, want)
		}
	}
}
