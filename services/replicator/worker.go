package replicator

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// worker does the tasks that the managers give.
type worker struct {
	log     *slog.Logger
	config  *Config
	places  *places
	metrics *metrics
	client  *sdk.Client // for what session agents carry
	name    string
	wake    chan struct{}

	mu      sync.Mutex
	known   bool
	stopped bool
	jobs    map[string]*job
	leaving []*job // withdrawn, and not seen to have ended
	working sync.WaitGroup
}

// job is a task that is being done, or was: how it went is reported until it is withdrawn.
type job struct {
	ctx       context.Context // done when the task is withdrawn
	cancel    context.CancelFunc
	told      time.Time     // when it was first told of
	done      chan struct{} // closed when it has ended
	sending   *replicav1.SendReport
	receiving *replicav1.ReceiveReport
	counted   receive.Stats        // of what came, as it is in the metrics
	replicas  map[string]uint32    // of each LAN that is sent to
	stay      map[string]time.Time // until when replicas may come that were added there
	unproven  []string             // replicas that cannot prove their names
	turn      send.Turn
	deaf      string // why its LAN could not be heard last, of the goroutine that receives
	delivery  *delivery
	delivers  bool // it is received from session agents
}

func newWorker(log *slog.Logger, config *Config, places *places, metrics *metrics, client *sdk.Client, name string) *worker {
	return &worker{log: log, config: config, places: places, metrics: metrics, client: client, name: name, wake: make(chan struct{}, 1), jobs: make(map[string]*job)}
}

func (w *worker) isKnown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// assign begins tasks that are new, and ends those that are withdrawn.
func (w *worker) assign(tasks *replicav1.Tasks) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = true
	w.withdraw(tasks.GetCurrent())
	for _, task := range tasks.GetCurrent() {
		w.told(w.jobs[task.GetReplication()], task)
		switch j := w.jobs[task.GetReplication()]; {
		case w.stopped:
		case j == nil:
			w.begin(task, time.Now())
		case j.sending != nil:
			j.expect(task.GetSend())
			w.carry(j, task)
		case j.receiving != nil && !j.delivers && task.GetReceive().GetDeliveryGroup() != "":
			j.cancel() // nothing was heard
			w.leaving = append(w.leaving, j)
			w.begin(task, j.told)
		}
	}
}

// told notes the newest key, and which replicas have no part any more. A replica reports at once that it has the key. The caller has the
// lock.
func (w *worker) told(j *job, task *replicav1.Task) {
	if j == nil {
		return
	}
	j.turn = send.Turn{Key: task.GetKey(), IsKnown: task.GetSend().GetKeyIsKnown(), Out: task.GetSend().GetPutOut()}
	if said := j.receiving; said != nil && said.GetKeyNumber() != task.GetKeyNumber() {
		said.KeyNumber = task.GetKeyNumber()
		w.poke()
	}
}

// withdraw ends the jobs of which there is no task any more. The caller has the lock.
func (w *worker) withdraw(current []*replicav1.Task) {
	w.leaving = slices.DeleteFunc(w.leaving, (*job).hasEnded)
	for id, j := range w.jobs {
		if !slices.ContainsFunc(current, func(task *replicav1.Task) bool { return task.GetReplication() == id }) {
			j.cancel()
			delete(w.jobs, id)
			w.leaving = append(w.leaving, j)
		}
	}
}

func (j *job) hasEnded() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// leavePatience is how long a task that begins waits for withdrawn ones, which may hold what it needs.
const leavePatience = 3 * time.Second

// await waits until other jobs have ended, for a while.
func (j *job) await(others []*job) {
	timer := time.NewTimer(leavePatience)
	defer timer.Stop()
	for _, other := range others {
		select {
		case <-other.done:
		case <-timer.C:
			return
		case <-j.ctx.Done():
			return
		}
	}
}

// begin does a task beside all else, of which it was told then. The caller has the lock.
func (w *worker) begin(task *replicav1.Task, told time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{cancel: cancel, ctx: ctx, told: told, done: make(chan struct{}), replicas: make(map[string]uint32), stay: make(map[string]time.Time)}
	id := task.GetReplication()
	duty, do := "", func() {}
	switch part := task.GetDuty().(type) {
	case *replicav1.Task_Send:
		j.sending = &replicav1.SendReport{Replication: id}
		j.expect(part.Send)
		duty, do = "send", func() { w.send(ctx, j, task.GetKey(), part.Send) }
	case *replicav1.Task_Receive:
		j.receiving = &replicav1.ReceiveReport{Replication: id, State: replicav1.ReplicaState_REPLICA_STATE_WAITING}
		duty, do = "receive", func() { w.receive(ctx, j, task.GetKey(), part.Receive) }
		if j.delivers = part.Receive.GetDeliveryGroup() != ""; j.delivers {
			do = func() { w.receiveDelivery(ctx, j, part.Receive) }
		}
	}
	w.jobs[id] = j
	w.told(j, task)
	w.carry(j, task)
	leaving := slices.Clone(w.leaving)
	w.working.Go(func() {
		defer close(j.done)
		j.await(leaving)
		if duty != "" { // a newer manager may ask for what is not known here
			defer w.metrics.begin(duty)()
		}
		do()
	})
	w.poke()
}

// stop ends all tasks, and waits until they have ended.
func (w *worker) stop() {
	w.mu.Lock()
	w.stopped = true
	for _, j := range w.jobs {
		j.cancel()
	}
	w.mu.Unlock()
	w.working.Wait()
	if count, of := w.places.disks.all(); count > 0 {
		w.log.Warn("stopping while disks do not answer, which may keep this process from ending", "calls", count, "disks", of)
	}
}

// report says how all tasks stand.
func (w *worker) report() *replicav1.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	report := new(replicav1.Report)
	for _, j := range w.jobs {
		if j.sending != nil {
			report.Sending = append(report.Sending, proto.CloneOf(j.sending))
		}
		if j.receiving != nil {
			report.Receiving = append(report.Receiving, proto.CloneOf(j.receiving))
		}
	}
	return report
}

// note changes what is reported of a task; at once has it reported now.
func (w *worker) note(atOnce bool, change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	if atOnce {
		w.poke()
	}
}

// poke has a report sent now.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // it will be
	}
}
