package replicator

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/groupcast/groupcast/internal/daemon"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/replicator/receive"
)

// A disk that was given up takes nothing more until it answers, and is not touched for that: what comes for it fails at once, of
// multicast or of session agents; what is for another disk goes on.
func TestNothingIsBegunOnADiskThatStands(t *testing.T) {
	synctest.Test(t, nothingIsBegun)
}

func nothingIsBegun(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), &Config{Settings: Settings{DiskPatience: Defaults().DiskPatience}}, nil, newMetrics(prometheus.NewRegistry()), nil, "r1")
	standing := func() float64 {
		var metric dto.Metric
		if err := w.metrics.standing.Write(&metric); err != nil {
			t.Fatal(err)
		}
		return metric.GetGauge().GetValue()
	}
	const here, other = "/dev/groupcast-one", "/dev/groupcast-two"
	answers := w.leftBehind(here, "r-1", "write", time.Now().Add(-w.disks.patience))
	lately := w.leftBehind(other, "r-2", "write", time.Now()) // its task was withdrawn
	if err := w.disks.check(here + "/"); !errors.Is(err, receive.ErrDiskStalled) || !strings.Contains(err.Error(), "r-1") || standing() != 2 {
		t.Errorf("%v, with %g standing", err, standing())
	}
	if err := w.disks.check(other); err != nil {
		t.Errorf("of one that was left for another reason: %v", err)
	}
	// There are no places: whoever asks for one panics.
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
	w.disks.patience = 0
	if err := w.disks.check(here); err != nil {
		t.Errorf("where disks are waited for for ever: %v", err)
	}
	w.disks.patience = Defaults().DiskPatience.Std()
	answers()
	lately()
	if err := w.disks.check(here); err != nil || standing() != 0 {
		t.Errorf("when it answers: %v, with %g standing", err, standing())
	}
}

// A real disk that does not answer fails what session agents would carry there, once; the next is told at once, and the task has ended.
// Another target is not touched by that.
func TestTargetThatStandsIsGivenUp(t *testing.T) {
	disk, dir := testdisk.New(t, "16m").Dir, t.TempDir()
	one := &places{targets: []string{filepath.Join(disk, "replicas"), dir}}
	w := newWorker(slog.New(slog.DiscardHandler), &Config{Settings: Settings{DiskPatience: daemon.Duration(time.Second)}}, one, newMetrics(prometheus.NewRegistry()), nil, "r1")
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
	for w.disks.check(task.GetPath()) != nil {
		time.Sleep(time.Millisecond)
	}
	if err := w.landAt(t.Context(), new(job), task, new(sdk.ReceiveOptions)); err != nil {
		t.Errorf("when it answers: %v", err)
	}
}

// What is on the same file system, or device, is on the same disk, by its name alone.
func TestDiskOf(t *testing.T) {
	if a, b := diskOf("/proc/self/status"), diskOf("/proc/nothing"); a != "/proc" || b != "/proc" {
		t.Errorf("%s, %s", a, b)
	}
	if a, b := diskOf("/dev/sda"), diskOf("/dev/disk/../sda"); a != "/dev/sda" || b != "/dev/sda" {
		t.Errorf("%s, %s", a, b)
	}
	if a := diskOf("/procedure"); a == "/proc" {
		t.Error(a)
	}
}

// mute is a source of which one call does not return until it answers.
type mute struct {
	source
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
	for at, do := range map[string]func(s source) error{
		"read":    func(s source) error { return s.ReadAt(make([]byte, 10), 0) },
		"changed": func(s source) error { return s.Changed() },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &mute{at: at, answers: make(chan struct{}), closed: make(chan struct{})}
			watch := &pulse.Watch{Log: slog.New(slog.DiscardHandler), Path: "/srv/it", Patience: time.Minute}
			p := &patient{source: m, ctx: t.Context(), watch: watch, close: sync.OnceFunc(func() { _ = m.Close() })}
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
	from, err := w.source(t.Context(), "r-1", &replicav1.SendTask{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 7)
	if err := errors.Join(from.ReadAt(got, 0), from.Changed(), from.Close()); err != nil || string(got) != "content" {
		t.Errorf("%q: %v", got, err)
	}
	if _, err := w.source(t.Context(), "r-1", &replicav1.SendTask{Path: dir + "/nothing"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A target whose disk does not answer is in the way of no other: it is not even looked at.
func TestOtherTargetsAreNotTouched(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	p := &places{targets: []string{other, one}}
	real, err := p.directory(filepath.Join(one, "below"))
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
	if real, err := p.directory(filepath.Join(one, "link")); err != nil || real != other {
		t.Errorf("by a link: %s: %v", real, err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(one, "away")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.directory(filepath.Join(one, "away")); !errors.Is(err, errNotAllowed) || !strings.Contains(err.Error(), other) {
		t.Errorf("by a link elsewhere: %v", err)
	}
}
