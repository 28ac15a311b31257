package replication

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
)

// A replicator may say what it likes: what is used of that is remembered, and no more.
func TestReportsAreRememberedInBoundedSize(t *testing.T) {
	const most = 8 << 10
	text := strings.Repeat("x", 1<<20)
	said := &replicav1.SendReport{Name: text, Detail: text, Reason: text, DeliveryProblem: text, Root: []byte(text)}
	for i := range 1000 {
		said.Delivered = append(said.Delivered, text[:1000])
		said.Members = append(said.Members, &replicav1.SendMember{Name: fmt.Sprintf("stranger%d", i)}, &replicav1.SendMember{Name: "a"})
	}
	said.Members = append(said.Members, &replicav1.SendMember{Name: "b", Lost: 0.5}, &replicav1.SendMember{Name: "a", Detached: true, Reason: text})
	heard := heardSending(said, map[string]bool{"a": true, "b": true})
	if size := proto.Size(heard); size > most {
		t.Errorf("of a sender %d bytes are remembered", size)
	}
	if members := heard.GetMembers(); len(members) != 2 || !members[0].GetDetached() || members[1].GetLost() != 0.5 || heard.GetReason() != SourceFailed {
		t.Errorf("of a sender it is remembered: %v", heard)
	}
	got := heardReceiving(&replicav1.ReceiveReport{
		State: replicav1.ReplicaState_REPLICA_STATE_FAILED, Reason: text, Detail: text, Root: bytes.Repeat(root, 1000), Bytes: 5,
	})
	if size := proto.Size(got); size > most || got.GetReason() != Disk || got.GetBytes() != 5 {
		t.Errorf("of a replica %d bytes are remembered: FAILED(%s) with %d", size, got.GetReason(), got.GetBytes())
	}
	if got := heardReceiving(&replicav1.ReceiveReport{State: replicav1.ReplicaState_REPLICA_STATE_COMPLETE, Reason: text, Detail: text, Root: root}); proto.Size(got) > most || !bytes.Equal(got.GetRoot(), root) {
		t.Errorf("of one that is complete it is remembered: %v", got)
	}
	waits := heardReceiving(&replicav1.ReceiveReport{State: replicav1.ReplicaState_REPLICA_STATE_WAITING, Reason: text, Detail: text})
	if proto.Size(waits) > most || waits.GetReason() != "" || !strings.HasPrefix(waits.GetDetail(), "xxx") {
		t.Errorf("of one that hears nothing, and says why, it is remembered: FAILED(%s), %d bytes", waits.GetReason(), proto.Size(waits))
	}
}
