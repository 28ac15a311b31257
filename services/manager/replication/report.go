package replication

import (
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
)

// A replicator's last report is remembered while a replication runs, and a replicator may report what it likes. So only what is used is
// remembered, and no more of that than an honest replicator has to say.

const (
	rootBytes = 32
	maxDetail = 1024
	// longestWord bounds words such as why a replica was given up.
	longestWord = 64
)

// heardSending returns the part of a sender's report that is used. Of its members only replicas are kept, each with the last that is said of
// it.
func heardSending(said *replicav1.SendReport, replicas map[string]bool) *replicav1.SendReport {
	heard := &replicav1.SendReport{
		Announcing: said.GetAnnouncing(), Ended: said.GetEnded(), SentBytes: said.GetSentBytes(), Root: heardRoot(said.GetRoot()),
		Name: ledger.Clip(said.GetName(), maxDetail), Length: said.GetLength(),
		Detail: ledger.Clip(said.GetDetail(), maxDetail), DeliveryProblem: ledger.Clip(said.GetDeliveryProblem(), maxDetail),
	}
	if said.GetReason() != "" {
		heard.Reason = oneOf(senderReasons, said.GetReason(), SourceFailed)
	}
	left := make(map[string]bool, len(replicas))
	for name := range replicas {
		left[name] = true
	}
	for _, member := range slices.Backward(said.GetMembers()) {
		if !left[member.GetName()] {
			continue
		}
		left[member.GetName()] = false
		heard.Members = append(heard.Members, &replicav1.SendMember{
			Name: member.GetName(), Lost: member.GetLost(), Detached: member.GetDetached(), Reason: ledger.Clip(member.GetReason(), longestWord),
		})
	}
	return heard
}

// heardReceiving returns the part of a replica's report that is used.
func heardReceiving(said *replicav1.ReceiveReport) *replicav1.ReceiveReport {
	heard := &replicav1.ReceiveReport{
		State: said.GetState(), Bytes: said.GetBytes(), ResumedBytes: said.GetResumedBytes(), Root: heardRoot(said.GetRoot()),
		Unheard: said.GetUnheard(), KeyNumber: said.GetKeyNumber(),
	}
	switch said.GetState() {
	case replicav1.ReplicaState_REPLICA_STATE_FAILED:
		heard.Reason, heard.Detail = oneOf(replicaReasons, said.GetReason(), Disk), ledger.Clip(said.GetDetail(), maxDetail)
	case replicav1.ReplicaState_REPLICA_STATE_WAITING, replicav1.ReplicaState_REPLICA_STATE_RECEIVING:
		heard.Detail = ledger.Clip(said.GetDetail(), maxDetail)
	case replicav1.ReplicaState_REPLICA_STATE_COMPLETE:
		heard.Elapsed = elapsed(said)
	}
	return heard
}

// elapsed returns how long a replica needed, by its own report: it is a duration, so that the replica's clock may be wrong. It is nil if the
// replica does not say, as one of an earlier version, or says what makes no sense.
func elapsed(said *replicav1.ReceiveReport) *durationpb.Duration {
	if e := said.GetElapsed(); e.IsValid() && e.AsDuration() >= 0 {
		return e
	}
	return nil
}

func heardRoot(root []byte) []byte {
	if len(root) != rootBytes {
		return nil
	}
	return root
}

// oneOf returns a reason if it is one of the reasons, and another one otherwise.
func oneOf(reasons []string, reason, otherwise string) string {
	if !slices.Contains(reasons, reason) {
		return otherwise
	}
	return reason
}
