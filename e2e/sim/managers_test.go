package sim

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

const (
	storeHost = "store"
	storePort = ":2379"
)

// startStore runs the etcd of all managers on a host of its own; only its links fail.
func (w *world) startStore() {
	w.Helper()
	listener, err := w.host(storeHost).Listen("tcp", storeHost+storePort)
	w.must(err)
	w.stopStore = storetest.Serve(w, filepath.Join(w.dir, "store"), listener)
}

// drawManagers adds two managers, and faults of a manager, or between a manager and the store: if it led, it does so no
// more, and may not know that.
func (s *scenario) drawManagers(random *rand.Rand) {
	s.others = []string{"manager2", "manager3"}
	for range 1 + random.IntN(4) {
		name := managerHost // this manager leads first
		if random.IntN(2) == 0 {
			name = s.others[random.IntN(2)]
		}
		fault := simnet.Fault{From: time.Duration(random.Int64N(int64(10 * time.Second))), A: name}
		fault.Until = fault.From + time.Duration(random.Int64N(int64(20*time.Second)))
		switch random.IntN(5) {
		case 0:
			fault.Kind = simnet.Stop
		case 1:
			fault.Kind = simnet.Crash
		case 2:
			fault.Kind, fault.B = simnet.CutBoth, storeHost
		case 3:
			fault.Kind, fault.B = simnet.CutOne, storeHost
		case 4:
			fault.Kind, fault.A, fault.B = simnet.CutOne, storeHost, name
		}
		if !s.overlaps(fault) {
			s.faults = append(s.faults, fault)
		}
	}
}

// overlaps reports whether something happens to the same hosts already.
func (s *scenario) overlaps(fault simnet.Fault) bool {
	for _, f := range s.faults {
		same := f.A == fault.A && f.B == fault.B || f.A == fault.B && f.B == fault.A
		if same && f.From <= fault.Until && fault.From <= f.Until {
			return true
		}
	}
	return false
}

// Of several managers of one store the leader is stopped, killed, or cut off from the
// store: it may go on as if it led, and nothing that it says counts.
func TestSeedsOfManagers(t *testing.T) {
	runs := newTally()
	t.Run("seed", func(t *testing.T) {
		for seed := *first; seed < *first+*seeds/10; seed++ {
			if *one >= 0 && seed != uint64(*one) {
				continue
			}
			s := draw(seed)
			s.drawManagers(source(seed, drawsManagers))
			run(t, s, runs)
		}
	})
	t.Log(runs)
	if *one < 0 && runs.succeeded == 0 {
		t.Error("no other manager came to lead in any run")
	}
}
