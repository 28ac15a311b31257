package replicator

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// A disk that was given up takes nothing more until it answers, and is not touched for that: what comes for it fails at once, of
// multicast or of session agents; what is for another disk goes on.
func TestNothingIsBegunOnADiskThatStands(t *testing.T) {
	synctest.Test(t, nothingIsBegun)
}

func nothingIsBegun(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), new(Config), &places{disks: disks{patience: Defaults().DiskPatience.Std()}}, newMetrics(prometheus.NewRegistry()), nil, "r1")
	standing := func() float64 {
		var metric dto.Metric
		if err := w.metrics.standing.Write(&metric); err != nil {
			t.Fatal(err)
		}
		return metric.GetGauge().GetValue()
	}
	const here, other = "/dev/groupcast-one", "/dev/groupcast-two"
	onHere, onOther := pulse.DiskOf(here), pulse.DiskOf(other)
	answers := w.leftBehind(onHere, here, "r-1", "write", time.Now().Add(-w.places.disks.patience))
	lately := w.leftBehind(onOther, other, "r-2", "write", time.Now()) // its task was withdrawn
	if err := w.places.disks.check(pulse.DiskOf(here + "/")); !errors.Is(err, receive.ErrDiskStalled) || !strings.Contains(err.Error(), "r-1") || standing() != 2 {
		t.Errorf("%v, with %g standing", err, standing())
	}
	if err := w.places.disks.check(onOther); err != nil {
		t.Errorf("of one that was left for another reason: %v", err)
	}
	// Nothing is allowed there: whoever asks is told so, and not that the disk stands.
	for name, task := range map[string]*replicav1.ReceiveTask{"multicast": {Path: here}, "agents": {Path: here, DeliveryGroup: "g"}} {
		j := &job{receiving: &replicav1.ReceiveReport{Replication: name}}
		if j.delivers = task.GetDeliveryGroup() != ""; j.delivers {
			w.receiveDelivery(t.Context(), j, task)
		} else {
			w.receive(t.Context(), j, nil, task)
		}
		if said := j.receiving; said.GetState() != replicav1.ReplicaState_REPLICA_STATE_FAILED || said.GetReason() != "disk_stalled" {
			t.Errorf("%s: it says %v", name, said)
		}
	}
	w.places.disks.patience = 0
	if err := w.places.disks.check(onHere); err != nil {
		t.Errorf("where disks are waited for for ever: %v", err)
	}
	w.places.disks.patience = Defaults().DiskPatience.Std()
	answers()
	lately()
	if err := w.places.disks.check(onHere); err != nil || standing() != 0 {
		t.Errorf("when it answers: %v, with %g standing", err, standing())
	}
}

// A real disk that does not answer fails what session agents would carry there, once; the next is told at once, and the task has ended.
// Another target is not touched by that.
func TestTargetThatStandsIsGivenUp(t *testing.T) {
	disk, dir := testdisk.New(t, "16m").Dir, t.TempDir()
	one := &places{targets: []string{filepath.Join(disk, "replicas"), dir}, disks: disks{patience: time.Second}}
	w := newWorker(slog.New(slog.DiscardHandler), new(Config), one, newMetrics(prometheus.NewRegistry()), nil, "r1")
	thaw := testdisk.Freeze(t, disk)
	task := &replicav1.ReceiveTask{Path: one.targets[0], DeliveryGroup: "g"}
	for _, id := range []string{"1", "2"} {
		j, began := &job{receiving: &replicav1.ReceiveReport{Replication: id}}, time.Now()
		w.receiveDelivery(t.Context(), j, task)
		if said := j.receiving; said.GetReason() != "disk_stalled" {
			t.Errorf("it says %v", said)
		}
		if took := time.Since(began); (id == "1") != (took >= time.Second) {
			t.Errorf("%s took %v", id, took)
		}
	}
	if err := w.landAt(t.Context(), new(job), &replicav1.ReceiveTask{Path: dir}, new(sdk.ReceiveOptions)); err != nil {
		t.Error(err)
	}
	thaw()
	for one.disks.check(pulse.DiskOf(task.GetPath())) != nil {
		time.Sleep(time.Millisecond)
	}
	if err := w.landAt(t.Context(), new(job), task, new(sdk.ReceiveOptions)); err != nil {
		t.Errorf("when it answers: %v", err)
	}
}

// keepBusy has others write to a directory's disk all the time, until the test ends.
func keepBusy(t *testing.T, dir string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	writing.Go(func() {
		for pause.For(ctx, 50*time.Millisecond) {
			if _, err := file.WriteAt([]byte(time.Now().String()), 0); errors.Join(err, file.Sync()) != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		stop()
		writing.Wait()
		_ = file.Close()
	})
}

// startOn has a worker begin something on a target, whose disk does not answer, and returns what became of it.
func startOn(t *testing.T, w *worker, target string) (ended chan *replicav1.ReceiveReport) {
	ended = make(chan *replicav1.ReceiveReport, 1)
	go func() {
		j := &job{receiving: &replicav1.ReceiveReport{Replication: "r-1"}}
		w.receiveDelivery(t.Context(), j, &replicav1.ReceiveTask{Path: target, DeliveryGroup: "g"})
		ended <- j.receiving
	}()
	return ended
}

// untilItStands waits until a call for what session agents are to carry does not return.
func untilItStands(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for stands, deadline := 0, time.Now().Add(10*time.Second); stands < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no call stands")
		}
		all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
		if slices.ContainsFunc(all, func(one string) bool { return strings.Contains(one, "[syscall") && strings.Contains(one, ").landAt(") }) {
			stands++
		} else {
			stands = 0
		}
	}
}

// wantStalled wants that something ends because its disk does not answer.
func wantStalled(t *testing.T, ended chan *replicav1.ReceiveReport) {
	t.Helper()
	select {
	case said := <-ended:
		if said.GetReason() != "disk_stalled" {
			t.Errorf("it says %v", said)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it is waited for, for as long as others write to another disk")
	}
}

// A target that is reached by a link is on the disk that the link leads to: that is given up when it does not answer, whatever goes on where
// the link is, and nothing more is begun there by either path. What is on the link's disk goes on.
func TestTargetBehindALinkIsGivenUp(t *testing.T) {
	near, far := testdisk.New(t, "16m").Dir, testdisk.New(t, "16m").Dir
	link, beside := filepath.Join(near, "link"), filepath.Join(near, "beside")
	if err := os.Symlink(far, link); err != nil {
		t.Fatal(err)
	}
	one := &places{targets: []string{link, beside}, disks: disks{patience: time.Second}}
	w := newWorker(slog.New(slog.DiscardHandler), new(Config), one, newMetrics(prometheus.NewRegistry()), nil, "r1")
	keepBusy(t, near)
	thaw := testdisk.Freeze(t, far)
	ended := startOn(t, w, filepath.Join(link, "images"))
	wantStalled(t, ended)
	for _, path := range []string{link, far} {
		if err := one.enter(t.Context(), path); !errors.Is(err, receive.ErrDiskStalled) || !strings.Contains(err.Error(), far) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := one.directory(t.Context(), beside); err != nil {
		t.Errorf("on the link's disk: %v", err)
	}
	thaw()
	for one.enter(t.Context(), link) != nil {
		time.Sleep(time.Millisecond)
	}
}

// A disk that does not answer is unmounted while its calls stand, which operators do, and is given up all the same, whatever goes on where
// it was mounted. What is mounted there then is another one.
func TestDiskThatIsUnmountedIsGivenUp(t *testing.T) {
	below := testdisk.New(t, "16m").Dir
	at := filepath.Join(below, "at")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(testdisk.Memory(t, "size=32m"), "disk.img")
	testdisk.Run(t, "truncate", "-s", "16m", gone)
	testdisk.Run(t, "mkfs.ext4", "-q", gone)
	unmount := testdisk.Mount(t, "ext4", "loop", gone, at)
	one := &places{targets: []string{at}, disks: disks{patience: time.Second}}
	w := newWorker(slog.New(slog.DiscardHandler), new(Config), one, newMetrics(prometheus.NewRegistry()), nil, "r1")
	keepBusy(t, below)
	thaw := testdisk.Freeze(t, at)
	ended := startOn(t, w, filepath.Join(at, "images"))
	untilItStands(t)
	unmount()
	wantStalled(t, ended)
	if _, of := one.disks.all(); !slices.Equal(of, []string{at}) {
		t.Errorf("what does not answer is %v", of)
	}
	if err := one.enter(t.Context(), below); err != nil {
		t.Errorf("where it was mounted: %v", err)
	}
	testdisk.Mount(t, "tmpfs", "size=1m", "tmpfs", at)
	if _, err := one.directory(t.Context(), filepath.Join(at, "images")); err != nil {
		t.Errorf("what is mounted there now: %v", err)
	}
	thaw()
	for count, _ := one.disks.all(); count > 0; count, _ = one.disks.all() {
		time.Sleep(time.Millisecond)
	}
}

// mute is a source of which one call does not return until it answers.
type mute struct {
	send.Opened
	at      string
	answers chan struct{}
	closed  chan struct{}
}

func (m *mute) call(at string) error {
	if m.at == at {
		<-m.answers
	}
	return nil
}

func (m *mute) ReadAt([]byte, uint64) error { return m.call("read") }
func (m *mute) Changed() error              { return m.call("changed") }

func (m *mute) Close() error {
	close(m.closed) // once
	return nil
}

// A source whose disk does not answer fails, with what stands; it is closed once that has returned.
func TestSourceThatStandsFails(t *testing.T) {
	for at, do := range map[string]func(s send.Source) error{
		"read":    func(s send.Source) error { return s.ReadAt(make([]byte, 10), 0) },
		"changed": func(s send.Source) error { return s.Changed() },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &mute{at: at, answers: make(chan struct{}), closed: make(chan struct{})}
			watch := &pulse.Watch{Log: slog.New(slog.DiscardHandler), Path: "/srv/it", Patience: time.Minute}
			p := send.Await(t.Context(), watch, m)
			began := time.Now()
			if err := do(p); !errors.Is(err, receive.ErrDiskStalled) || !strings.Contains(err.Error(), "/srv/it") || time.Since(began) > 2*time.Minute {
				t.Errorf("%s: %v after %v", at, err, time.Since(began))
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			select {
			case <-m.closed:
				t.Errorf("%s: it is closed while it is used", at)
			default:
			}
			close(m.answers)
			<-m.closed
		})
	}
}

// A source is opened, read and closed as it was.
func TestPatientSource(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "object")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorker(slog.New(slog.DiscardHandler), nil, &places{sources: []string{dir}}, nil, nil, "r1")
	from, err := w.source(t.Context(), w.watch("r-1", path), &replicav1.SendTask{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if err := errors.Join(from.ReadAt(got, 0), from.Changed(), from.Close()); err != nil || string(got) != "content" {
		t.Errorf("%q: %v", got, err)
	}
	if _, err := w.source(t.Context(), w.watch("r-1", dir), &replicav1.SendTask{Path: dir + "/nothing"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A target whose disk does not answer is in the way of no other: it is not even looked at.
func TestOtherTargetsAreNotTouched(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	p := &places{targets: []string{other, one}}
	real, err := p.directory(t.Context(), filepath.Join(one, "below"))
	if err != nil || real != filepath.Join(one, "below") {
		t.Errorf("%s: %v", real, err)
	}
	if _, err := os.Lstat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other was made: %v", err)
	}
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(one, "link")); err != nil {
		t.Fatal(err)
	}
	if real, err := p.directory(t.Context(), filepath.Join(one, "link")); err != nil || real != other {
		t.Errorf("by a link: %s: %v", real, err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(one, "away")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.directory(t.Context(), filepath.Join(one, "away")); !errors.Is(err, errNotAllowed) || !strings.Contains(err.Error(), other) {
		t.Errorf("by a link elsewhere: %v", err)
	}
}
