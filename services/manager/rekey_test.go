package manager_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// hasKey is a task with a key of this number.
func hasKey(number uint32) func(*replicav1.Task) bool {
	return func(task *replicav1.Task) bool { return task != nil && task.GetKeyNumber() == number }
}

// underWay begins a replication to all workers that is received at once.
func (s *site) underWay(t *testing.T, sender *replicator, workers ...*replicator) (id string, duty *replicav1.Task) {
	t.Helper()
	id = s.begin(t, "role=worker").ID
	duty = sender.has(t, id, "the sender", isTask)
	sender.sends(&replicav1.SendReport{Replication: id, Announcing: true, Name: "disk.img", Length: megabyte})
	for _, one := range workers {
		one.has(t, id, "a replica", isTask)
		one.receives(&replicav1.ReceiveReport{Replication: id, State: isReceiving})
	}
	return id, duty
}

// A replica that is revoked while a replication runs has no part any more and is told nothing. The others are told another key, one a second at
// most, and the sender is told when all of them have said that they have it.
func TestRevokedReplicaIsPutOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	sender, one, two, three := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1"), s.replicator(t, "r2", "rack1"), s.replicator(t, "r3", "rack1")
	id, duty := s.underWay(t, sender, one, two, three)
	revoke := func(name string) {
		if err := s.client.Revoke(t.Context(), "replicator", name); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now() // before the first key is made
	revoke("r3")
	told := sender.has(t, id, "told of another key", hasKey(1))
	if send := told.GetSend(); !slices.Equal(send.GetPutOut(), []string{"r3"}) || send.GetKeyIsKnown() || len(told.GetKey()) != 32 || bytes.Equal(told.GetKey(), duty.GetKey()) {
		t.Errorf("the sender is told of %v, known %v", send.GetPutOut(), send.GetKeyIsKnown())
	}
	failed := s.becomes(t, id, "failed at one", func(r sdk.Replication) bool { return replicaOf(r, "r3").State == sdk.ReplicaFailed })
	if got := replicaOf(failed, "r3"); got.Reason != "revoked" {
		t.Errorf("it failed as %+v", got)
	}
	for _, r := range []*replicator{one, two} {
		if task := r.has(t, id, "told of another key", hasKey(1)); !bytes.Equal(task.GetKey(), told.GetKey()) {
			t.Errorf("%s is told another key than the sender", r.name)
		}
		if sender.task(id).GetSend().GetKeyIsKnown() {
			t.Errorf("all know it, before %s does", r.name)
		}
		r.receives(&replicav1.ReceiveReport{Replication: id, State: isReceiving, KeyNumber: 1})
	}
	sender.has(t, id, "told that all know it", func(task *replicav1.Task) bool { return task.GetSend().GetKeyIsKnown() })
	revoke("r2")
	last := sender.has(t, id, "told of a third key", hasKey(2))
	if since := time.Since(begun); since < time.Second || !slices.Equal(last.GetSend().GetPutOut(), []string{"r3", "r2"}) || last.GetSend().GetKeyIsKnown() {
		t.Errorf("%v later the sender is told of %v, known %v", since, last.GetSend().GetPutOut(), last.GetSend().GetKeyIsKnown())
	}
	if task := three.task(id); task != nil && !bytes.Equal(task.GetKey(), duty.GetKey()) {
		t.Error("who was revoked is told another key")
	}
	one.receives(&replicav1.ReceiveReport{Replication: id, State: isCompleteReplica, Bytes: megabyte, Root: root(1), KeyNumber: 2})
	sender.sends(&replicav1.SendReport{Replication: id, Announcing: true, Name: "disk.img", Length: megabyte, SentBytes: megabyte, Root: root(1), Ended: true})
	ended := s.becomes(t, id, "ended", func(r sdk.Replication) bool { return r.State != sdk.ReplicationRunning })
	if ended.State != sdk.ReplicationPartial || ended.Complete != 1 || replicaOf(ended, "r2").Reason != "revoked" {
		t.Errorf("it ended as %+v", ended)
	}
}

// A replica of an earlier version, which cannot take another key, would be lost with one: the key stays until a later version has come in its
// place. A replica that is revoked is put out all the same.
func TestKeyStaysForAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	sender, one, three := s.replicator(t, "s", "rack1"), s.replicator(t, "r1", "rack1"), s.replicator(t, "r3", "rack1")
	config := letIn(t, s.config, "replicator", "r2")
	s.earlier = true
	two := s.register(t, "r2", config, "rack1")
	id, duty := s.underWay(t, sender, one, two, three)
	if err := s.client.Revoke(t.Context(), "replicator", "r3"); err != nil {
		t.Fatal(err)
	}
	told := sender.has(t, id, "told who is out", func(task *replicav1.Task) bool { return len(task.GetSend().GetPutOut()) > 0 })
	if told.GetKeyNumber() != 0 || !bytes.Equal(told.GetKey(), duty.GetKey()) {
		t.Errorf("it is told of key %d", told.GetKeyNumber())
	}
	s.becomes(t, id, "failed at one", func(r sdk.Replication) bool { return replicaOf(r, "r3").Reason == "revoked" })
	s.earlier = false
	s.register(t, "r2", config, "rack1")
	for _, r := range []*replicator{sender, one} {
		r.has(t, id, "told of another key", hasKey(1))
	}
}
