package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// replicator is a replicator as the manager sees it: it knows its tasks, and reports what the test has it report.
type replicator struct {
	name  string
	stop  context.CancelFunc
	ended chan error
	wake  chan struct{}
	moves chan func(*replicav1.Registration) // what is otherwise when it registers again

	mu      sync.Mutex
	tasks   map[string]*replicav1.Task // nil before the first list
	report  *replicav1.Report
	changed chan struct{}
}

// site is replicators, and the operator that has them replicate.
type site struct {
	config  sdk.Config
	earlier bool     // replicators that start are of an earlier version
	devices []string // of replicators that start
	client  *sdk.Client
	running sync.WaitGroup
}

func newSite(t *testing.T, config sdk.Config) *site {
	t.Helper()
	s := &site{config: config, client: dial(t, config)}
	t.Cleanup(s.running.Wait)
	return s
}

// replicator starts a replicator on some LANs, and waits until the manager knows it.
func (s *site) replicator(t *testing.T, name string, lans ...string) *replicator {
	t.Helper()
	return s.register(t, name, letIn(t, s.config, "replicator", name), lans...)
}

func (s *site) register(t *testing.T, name string, config sdk.Config, lans ...string) *replicator {
	t.Helper()
	link := managertest.Dial(t, config)
	ctx, cancel := context.WithCancel(context.Background())
	r := &replicator{
		name: name, stop: cancel, ended: make(chan error, 1), wake: make(chan struct{}, 1),
		moves: make(chan func(*replicav1.Registration)), report: new(replicav1.Report), changed: make(chan struct{}),
	}
	t.Cleanup(cancel)
	registration := &replicav1.Registration{
		Node: "node-of-" + name, Lans: lans, Labels: map[string]string{"role": "worker"}, Sources: []string{"/srv"}, Targets: append([]string{"/srv"}, s.devices...), Devices: s.devices,
		ProvesName: !s.earlier, TakesKeys: !s.earlier, ProvesSending: !s.earlier,
	}
	s.running.Go(func() { r.ended <- r.attend(ctx, link, registration) })
	eventually(t, 30*time.Second, name+" is attached", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.tasks != nil
	})
	return r
}

// attend registers, and again whenever the replicator moves.
func (r *replicator) attend(ctx context.Context, link *uplink.Uplink, registration *replicav1.Registration) error {
	for {
		inner, end := context.WithCancelCause(ctx)
		var moving sync.WaitGroup
		var move func(*replicav1.Registration)
		moving.Go(func() {
			select {
			case move = <-r.moves:
				end(uplink.ErrAnew)
			case <-inner.Done():
			}
		})
		err := link.RegisterReplicator(inner, registration, uplink.Duty{Report: r.says, Assign: r.assign, Wake: r.wake})
		end(nil)
		moving.Wait()
		if err != nil || move == nil {
			return err
		}
		move(registration)
	}
}

func (r *replicator) says() *replicav1.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return proto.CloneOf(r.report)
}

func (r *replicator) assign(tasks *replicav1.Tasks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = make(map[string]*replicav1.Task)
	for _, task := range tasks.GetCurrent() {
		r.tasks[task.GetReplication()] = task
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// sends has the replicator report as a sender from now on, and receives has it report as a replica.
func (r *replicator) sends(said *replicav1.SendReport) {
	r.say(&replicav1.Report{Sending: []*replicav1.SendReport{said}})
}

func (r *replicator) receives(said *replicav1.ReceiveReport) {
	r.say(&replicav1.Report{Receiving: []*replicav1.ReceiveReport{said}})
}

func (r *replicator) say(report *replicav1.Report) {
	r.mu.Lock()
	r.report = report
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is about to speak anyway
	}
}

// task returns the replicator's task in a replication; nil if it has none.
func (r *replicator) task(replication string) *replicav1.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[replication]
}

// has waits until the replicator's task in a replication is as it should be.
func (r *replicator) has(t *testing.T, replication, what string, is func(*replicav1.Task) bool) *replicav1.Task {
	t.Helper()
	return told(t, 20*time.Second, is, func() (*replicav1.Task, <-chan struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.tasks[replication], r.changed
	}, func(last *replicav1.Task) string { return fmt.Sprintf("%s: not %s: %v", r.name, what, last.GetDuty()) })
}

// begin replicates /srv/disk.img from s to the replicators that are selected.
func (s *site) begin(t *testing.T, selector string) sdk.Replication {
	t.Helper()
	begun, err := s.client.Replicate(t.Context(), sdk.ReplicationSpec{SourceNode: "s", SourcePath: "/srv/disk.img", TargetPath: "/srv", Selector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return begun
}

// becomes watches a replication until it is as it should be.
func (s *site) becomes(t *testing.T, id, what string, is func(sdk.Replication) bool) sdk.Replication {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var last sdk.Replication
	for r, err := range s.client.WatchReplication(ctx, id) {
		if err != nil {
			t.Fatalf("replication %s: not %s: %+v: %v", id, what, last, err)
		}
		if last = r; is(r) {
			return r
		}
	}
	t.Fatalf("replication %s ended, and is not %s: %+v", id, what, last)
	return last
}

// replicaOf returns what is known of one replica.
func replicaOf(r sdk.Replication, name string) sdk.Replica {
	for _, replica := range r.Replicas {
		if replica.Name == name {
			return replica
		}
	}
	return sdk.Replica{}
}

func isTask(task *replicav1.Task) bool { return task != nil }

func isWithdrawn(task *replicav1.Task) bool { return task == nil }
