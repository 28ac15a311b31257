package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/sdk"
)

var (
	seeds = flag.Uint64("seeds", 500, "how many seeds to run")
	first = flag.Uint64("first", 0, "the first of them")
	one   = flag.Int64("seed", -1, "run this seed alone, and show its log")
	again = flag.Int("again", 1, "how often to run that one")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // worlds are small, and there are many
	goleak.VerifyTestMain(m)
}

// Sections 5 and 10 of the design: whatever fails and heals, each member that had joined at the
// start has exactly what was sent, or a known reason why not.
func TestSeeds(t *testing.T) {
	runs := newTally()
	t.Run("seed", func(t *testing.T) {
		if *one >= 0 {
			for range *again {
				run(t, draw(uint64(*one)), runs)
			}
			return
		}
		for seed := *first; seed < *first+*seeds; seed++ {
			run(t, draw(seed), runs)
		}
	})
	t.Log(runs)
	if *one >= 0 || *seeds < 100 {
		return
	}
	if runs.moves == 0 || runs.idle == 0 {
		t.Error("no slow agent moved lower in any run, or none that moves nothing was found")
	}
	for _, what := range []occasion{deaths, split, swallowing, idling, streaming, floored, relayed, timed, changing} {
		if runs.drawn[what] == 0 {
			t.Errorf("in no run %s", what)
		}
	}
}

// C18: agents are cut off one by one, and come back in another order.
func TestSeedsOfC18(t *testing.T) {
	runs := newTally()
	t.Run("seed", func(t *testing.T) {
		for seed := *first; seed < *first+*seeds/5; seed++ {
			if *one >= 0 && seed != uint64(*one) {
				continue
			}
			s := draw(seed)
			s.drawSwizzle(source(seed, drawsSwizzle))
			run(t, s, runs)
		}
	})
	t.Log(runs)
}

// Without faults, everybody has everything.
func TestAllIsWell(t *testing.T) {
	runs := newTally()
	t.Run("seed", func(t *testing.T) {
		for seed := range uint64(20) {
			s := draw(seed)
			s.faults, s.deadline = nil, 0
			s.policy.SlowMember.LagBytes, s.policy.SlowMember.FloorBytesPerSecond = 0, 0
			if s.isNarrow() {
				s.policy.SlowMember = sdk.SlowMember{}
			}
			run(t, s, runs)
		}
	})
	if runs.bytes == 0 {
		t.Error("no link has been compared at its two ends")
	}
	if len(runs.outcomes) != 1 || runs.outcomes["complete"] == 0 {
		t.Errorf("outcomes: %v, want all complete", runs)
	}
}

// stillTime is how much real time a run may take.
const stillTime = 3 * time.Minute

func run(t *testing.T, s scenario, runs *tally) {
	t.Run(fmt.Sprint(s.seed), func(t *testing.T) {
		t.Parallel()
		dir := scratch(t)
		// While a goroutine waits for a mutex, virtual time does not go on. If the goroutine that
		// holds it waits for time, both wait for ever.
		defer time.AfterFunc(stillTime, func() {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("seed %d: time stands still", s.seed))
		}).Stop()
		synctest.Test(t, func(t *testing.T) { live(t, s, dir, runs) })
	})
}

// scratch returns a directory in memory, if possible: syncing to a disk takes longer than everything else.
func scratch(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "groupcast-sim-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// tally counts what became of deliveries at members.
type tally struct {
	mu        sync.Mutex
	outcomes  map[string]int
	moves     int // of agents that held others up
	succeeded int // how often a manager led after another
	idle      int // agents that were taken out because they were idle
	drawn     map[occasion]int
	bytes     uint64 // over links, as both of their ends say
}

func newTally() *tally { return &tally{outcomes: make(map[string]int), drawn: make(map[occasion]int)} }

func (c *tally) count(delivery sdk.Delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range delivery.TreeChanges {
		switch change.Cause {
		case "agent_lags":
			c.moves++
		case "agent_idle":
			c.idle++
		}
	}
	for _, receipt := range delivery.Receipts {
		c.outcomes[strings.TrimSpace(string(receipt.State)+" "+receipt.Reason)]++
	}
}

func (c *tally) note(drawn []occasion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range drawn {
		c.drawn[what]++
	}
}

func (c *tally) carried(bytes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += bytes
}

func (c *tally) countTerms(said string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.succeeded += max(0, strings.Count(said, "this manager leads")-1)
}

func (c *tally) String() string {
	return fmt.Sprint(c.outcomes, ", agents moved lower: ", c.moves, ", idle: ", c.idle, ", successions: ", c.succeeded, ", bytes over links: ", c.bytes, ", ", c.drawn)
}

// endTime is how long after the last fault everything must have ended: nothing moves for a minute
// before a member is given up, and twice that if there are others.
const endTime = 5 * time.Minute

// live runs a scenario to its end.
func live(t *testing.T, s scenario, dir string, runs *tally) {
	w := newWorld(t, s, dir)
	defer w.say()
	defer func() { runs.carried(w.checkLinks()) }()
	defer w.operator.Close()
	defer w.stopAll()
	for _, p := range s.deliveries {
		if p.changes {
			w.plantEarlier(p)
		}
	}
	w.populate()
	w.log.Info("all are there")
	w.network.ShapeAll(s.shape)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var background, sending sync.WaitGroup
	background.Go(func() { w.watchNames(ctx) })
	background.Go(func() { s.faults.Run(ctx, w.network, w.killed, w.restarted) })
	w.healed = time.Now().Add(s.healed())
	limit := s.healed() + endTime
	sent := make([]*sdk.Outgoing, len(s.deliveries))
	for i, p := range s.deliveries {
		path := w.write(p)
		sending.Go(func() { sent[i] = w.send(p, path) })
	}
	sending.Wait()
	for i, out := range sent {
		if out != nil {
			background.Go(func() { w.watchVersion(ctx, out.ID()) })
			background.Go(func() { w.watchProgress(ctx, out.ID()) })
			ended := w.awaitEnd(out.ID(), limit)
			w.checkOutcome(s.deliveries[i], ended)
			runs.count(ended)
		}
	}
	w.log.Info("all has ended")
	runs.countTerms(w.journal.String())
	runs.note(s.drawn)
	time.Sleep(2 * time.Second) // the last answers are still under way
	w.settle(limit)
	w.checkBalance()
	cancel()
	background.Wait()
}

// healed returns how long after the beginning of a run its last fault is over.
func (s *scenario) healed() (end time.Duration) {
	for _, f := range s.faults {
		end = max(end, f.Until)
	}
	return end
}

// send begins a delivery, or returns nil if the faults prevent it.
func (w *world) send(p parcel, path string) *sdk.Outgoing {
	time.Sleep(p.after)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := w.begins(ctx, p, path)
	if err != nil {
		if !isSessionOver(err) || len(w.faults) == 0 {
			w.Errorf("send %s: %v", p.name, err)
		}
		w.log.Info("nothing is sent", "error", err)
		return nil
	}
	return out
}

func (w *world) begins(ctx context.Context, p parcel, path string) (*sdk.Outgoing, error) {
	return w.sendWith(ctx, p, path, sdk.SendOptions{Name: p.name, Deadline: w.deadline})
}

// sendWith sends a file, or its content as a stream.
func (w *world) sendWith(ctx context.Context, p parcel, path string, options sdk.SendOptions) (*sdk.Outgoing, error) {
	if p.changes {
		changes, err := sdk.OpenChanges(ctx, path, nil)
		w.must(err)
		return w.sending.SendSource(ctx, changes, options)
	}
	if !p.stream {
		return w.sending.Send(ctx, path, options)
	}
	content, err := os.ReadFile(path)
	w.must(err)
	return w.sending.SendStream(ctx, bytes.NewReader(content), options)
}

// awaitEnd waits until the manager says that a delivery has ended.
func (w *world) awaitEnd(id string, limit time.Duration) (delivery sdk.Delivery) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second / 4) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		now, err := w.operator.Delivery(ctx, id)
		cancel()
		if err != nil {
			continue // the manager is away
		}
		if delivery = now; delivery.State != sdk.DeliveryRunning {
			break
		}
	}
	return delivery
}

// settle waits until the last fault has ended and all agents are back.
func (w *world) settle(limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		status, err := w.operator.Status(ctx)
		cancel()
		if err == nil && status.AgentsOnline == w.relaying() {
			return
		}
	}
	w.Errorf("not all agents came back")
}

// say tells how to run a failed seed again, and what happened.
func (w *world) say() {
	if *one >= 0 || w.Failed() {
		fmt.Fprintf(os.Stderr, "seed %d:\n%s%s", w.seed, &w.scenario, w.journal)
	}
	if w.Failed() {
		w.Logf("the network at the end:\n%s\n%s\nagain: go test ./e2e/sim -run Seeds -seed %d", &w.journal.network, &w.scenario, w.seed)
	}
}
