package replicas_test

import (
	"strings"
	"testing"
)

// A replica whose identity is revoked while it receives is FAILED(revoked), and has nothing. The others, and the sender, are
// told, go on under another key, and are complete.
func TestRevokedReplicaIsPutOut(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 32<<20)
	p, id := r.begin(source)
	r.awaitReceiving(id)
	r.run(0, "identity", "revoke", "replicator/r4")
	said := r.wait(3, p)
	if !matches(said, `r4 +rack2 +multicast +FAILED\(revoked\) `) || !strings.Contains(said, "3 of 4") {
		t.Errorf("it said:\n%s", said)
	}
	for _, one := range r.replicas[:3] {
		r.wantCopy(one, source)
	}
	r.wantNothing(3, source)
	if log := r.store.process.Output(); strings.Count(log, `msg="packets are sealed with another key"`) != 2 || strings.Contains(log, "all_know_it=false") {
		t.Errorf("on its two LANs the sender did not turn to another key when all had it:\n%s", log)
	}
}
