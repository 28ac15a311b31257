package object_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/internal/testprocess"
)

const (
	crashSeed = 52
	// crashes is how many random moments are tried: of each of the processes that run at a time, its part.
	crashes   = 500
	crashing  = 4
	crashEach = crashes / crashing
)

// crash has a test run for several processes at a time.
func crash(t *testing.T, each func(t *testing.T, seed uint64)) {
	for part := range uint64(crashing) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			each(t, crashSeed+part*crashEach)
		})
	}
}

// C52: the receiving process is killed at any moment. The final names hold whole
// objects only, and the next process goes on.
func TestC52Kill(t *testing.T) { crash(t, killAgainAndAgain) }

func killAgainAndAgain(t *testing.T, seed uint64) {
	from, to := testdisk.Memory(t, "size=256m"), testdisk.Memory(t, "size=256m")
	random := rand.New(rand.NewPCG(seed, 1))
	r := newReceiver()
	for i := range crashEach {
		r.start(t, from, to, seed+uint64(i), 1+max(r.complete[receiverFile], r.complete[receiverTree]))
		r.awaitWord(t)
		pause(time.Duration(random.Int64N(int64(120 * time.Millisecond))))
		r.kill()
		r.check(t, to, r.complete)
		checkClaims(t, from, to, r)
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
	}
	r.wantProgress(t)
	t.Logf("%d kills; complete: %v; resumed %d times", crashEach, r.complete, r.resumed)
}

// wantProgress makes sure that what was tested did happen.
func (r *receiver) wantProgress(t *testing.T) {
	t.Helper()
	if r.complete[receiverFile] < 4 || r.complete[receiverTree] < 4 || r.resumed < 10 {
		t.Errorf("complete: %v, resumed %d times: too little has happened", r.complete, r.resumed)
	}
}

func pause(d time.Duration) { <-time.After(d) }

// checkClaims makes sure that all that journals claim is there, by landing.
func checkClaims(t *testing.T, from, to string, r *receiver) (claimed int) {
	t.Helper()
	for name, roots := range r.begun {
		for _, generation := range roots {
			if generation < max(r.complete[receiverFile], r.complete[receiverTree])-generationsKept {
				continue // long complete
			}
			source, err := object.Open(t.Context(), filepath.Join(from, fmt.Sprint(generation), name))
			if err != nil {
				t.Fatal(err)
			}
			info := source.Info()
			_ = source.Close()
			if missing(object.PartialOf(to, info)) {
				continue
			}
			claim, head := object.LastClaim(to, info)
			if claim < head {
				claim = 0
			}
			landing, err := object.Land(t.Context(), to, info)
			if err != nil {
				t.Fatal(err)
			}
			// After the rename of a tree the old one lies where the claims were about.
			if appeared := r.begun[name][finalRoot(t, to, name)] == generation; landing.Offset() != claim && !appeared {
				t.Errorf("%s %d: %d bytes are claimed and only %d are there", name, generation, claim, landing.Offset())
			}
			if claim > 0 {
				claimed++
			}
			if err := landing.Keep(); err != nil {
				t.Error(err)
			}
		}
	}
	return claimed
}

// C50, C51: the power is cut at any moment: the disk is taken as it was, without
// what was only in memory. What was complete is there, final names hold whole
// objects only, and no journal claims a byte that is not there.
func TestC50C51PowerCut(t *testing.T) { crash(t, cutAgainAndAgain) }

func cutAgainAndAgain(t *testing.T, seed uint64) {
	from, disk := testdisk.Memory(t, "size=256m"), testdisk.New(t, "64M")
	random := rand.New(rand.NewPCG(seed, 2))
	r := newReceiver()
	r.start(t, from, disk.Dir, seed, 0)
	defer r.kill()
	claimed := 0
	for i := range crashEach {
		pause(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
		r.mu.Lock()
		complete := maps.Clone(r.complete) // what was complete before the cut
		r.mu.Unlock()
		testprocess.Freeze(t, r.Process)
		after, unmount := disk.Cut(t)
		r.check(t, after, complete)
		r.mu.Lock()
		claimed += checkClaims(t, from, after, r)
		r.mu.Unlock()
		unmount()
		testprocess.Thaw(t, r.Process)
		if t.Failed() {
			t.Fatalf("at cut %d", i)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d cuts; complete: %v; partials with claims: %d", crashEach, r.complete, claimed)
	if r.complete[receiverFile] < 4 || r.complete[receiverTree] < 3 || claimed < 10 {
		t.Error("too little has happened")
	}
}
