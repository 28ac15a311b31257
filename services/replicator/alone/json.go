package alone

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/durationpb"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/apijson"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// How it ended is written as JSON in the words of the managers: a program that reads replications reads these, too.

// asJSON writes which receivers have it, of at least so many; why and detail say why it ended before it was over.
func (a *app) asJSON(result send.Result, receivers int, why, detail string) error {
	r := &replicav1.Replication{
		State: endOf(result.Members, receivers), Reason: why, Detail: detail, Name: result.Info.Name, Length: result.Info.Length, Root: rootOf(result.Root), SentBytes: result.Sent,
		ReplicaCount: uint32(max(len(result.Members), receivers)),
	}
	for _, m := range result.Members {
		replica := &replicav1.Replica{
			Name: m.Name, Node: m.Address.Addr().String(), Lan: m.LAN, State: stateOf(m.Outcome), Reason: m.Reason, Detail: m.Detail,
			Bytes: m.Landed, ResumedBytes: m.Resumed, Lost: m.Lost, Detached: m.Detached,
		}
		switch m.Outcome {
		case algo.Complete:
			r.CompleteCount++
		case algo.Failed:
			r.FailedCount++
		}
		r.Replicas = append(r.Replicas, replica)
	}
	return a.print(r)
}

// receivedAsJSON writes what came here, or why it did not.
func (a *app) receivedAsJSON(r *receiving, receipt receive.Receipt, why, detail string) error {
	replica := &replicav1.Replica{
		Name: r.name, Lan: r.site, State: replicav1.ReplicaState_REPLICA_STATE_COMPLETE, Bytes: receipt.Info.Length,
		ResumedBytes: receipt.Resumed, Elapsed: durationpb.New(receipt.Took),
	}
	said := &replicav1.Replication{
		State: replicav1.ReplicationState_REPLICATION_STATE_COMPLETE, Name: receipt.Info.Name, Length: receipt.Info.Length, Root: rootOf(receipt.Root),
		ReplicaCount: 1, CompleteCount: 1, Replicas: []*replicav1.Replica{replica},
	}
	if why != "" {
		said.State, said.CompleteCount, said.FailedCount = replicav1.ReplicationState_REPLICATION_STATE_FAILED, 0, 1
		replica.State, replica.Reason, replica.Detail = replicav1.ReplicaState_REPLICA_STATE_FAILED, why, detail
		replica.Bytes, replica.Elapsed = receipt.Landed, nil
	}
	return a.print(said)
}

func (a *app) print(r *replicav1.Replication) error {
	text, err := apijson.Marshal(r)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(json.RawMessage(text))
}

func rootOf(root object.Root) []byte {
	if root == (object.Root{}) {
		return nil
	}
	return root[:]
}

func stateOf(outcome algo.Outcome) replicav1.ReplicaState {
	switch outcome {
	case algo.Complete:
		return replicav1.ReplicaState_REPLICA_STATE_COMPLETE
	case algo.Failed:
		return replicav1.ReplicaState_REPLICA_STATE_FAILED
	}
	return replicav1.ReplicaState_REPLICA_STATE_UNKNOWN
}
