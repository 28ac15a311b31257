package replication

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	managerv1 "github.com/groupcast/groupcast/internal/gen/groupcast/manager/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/services/manager/ledger"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/view"
)

// hears is how a manager hears others.
type hears struct{ cutOff time.Time }

func (h *hears) LastCutOff() time.Time { return h.cutOff }
func (*hears) HearReplicator(string)   {}
func (*hears) ReplicatorParted(string) {}

// newDesk returns the desk of a manager that leads, without any replication.
func newDesk() *Desk {
	log := slog.New(slog.DiscardHandler)
	shown := view.New(nil, log)
	return Lead(ledger.Open(new(store.Term), nil, shown), nil, shown, nil, new(hears), Places{}, nil, log)
}

// What one replicator says is looked at immediately. What a thousand say soon after one another is looked at together: each look writes all
// that is new, and has everybody told what there is to do.
func TestWhatComesTogetherIsLookedAtTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		looks := func() bool { // whether there was a look: it forgets what is known of a replication that does not run
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			looked := len(d.progress) == 0
			d.of("none")
			return looked
		}
		looks()
		time.Sleep(stepInterval - pokePause - time.Millisecond) // no look is due by itself soon
		looks()
		for _, wait := range []time.Duration{0, time.Millisecond, time.Millisecond, pokePause - 2*time.Millisecond} {
			time.Sleep(wait)
			isFirst, isLast := wait == 0, wait > time.Millisecond
			if d.poke(); looks() != (isFirst || isLast) {
				t.Errorf("after %v more it is looked: %v", wait, !isFirst)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkFacts has as many replications as can run, each with as many replicas as it can have, of each of which the sender speaks.
func BenchmarkFacts(b *testing.B) {
	d := newDesk()
	said, record := new(replicav1.SendReport), new(replicav1.Replication)
	for i := range maxReplicas {
		name := fmt.Sprintf("replica-%04d", i)
		said.Members = append(said.Members, &replicav1.SendMember{Name: name})
		record.Replicas = append(record.Replicas, &replicav1.Replica{Name: name})
	}
	for i := range maxRunning {
		d.of(fmt.Sprint(i)).hear(said)
	}
	for b.Loop() {
		for i := range maxRunning {
			record.Id = fmt.Sprint(i)
			d.facts(view.Replication{ReplicationRecord: &managerv1.ReplicationRecord{Replication: record}}, time.Now())
		}
	}
}
