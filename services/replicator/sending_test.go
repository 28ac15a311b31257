package replicator

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/udp"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// twoLANs is a replication to the LANs a and b.
func twoLANs(w *worker, j *job) *sending {
	return newSending(w, j, nil, &replicav1.SendTask{Legs: []*replicav1.Leg{{Lan: "a"}, {Lan: "b"}}})
}

// No LAN waits for another: the root that the managers confirm replicas by is told once one has it. How much is sent
// is that of the LAN which is behind, as long as that is not out of it.
func TestLANsHoldNobodyBack(t *testing.T) {
	for name, out := range map[string]func(*leg){
		"nobody":  func(l *leg) { l.nobody = true },
		"refused": func(l *leg) { l.refused = true },
		"failed":  func(l *leg) { l.failed = errors.New("network is unreachable") },
	} {
		w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
		j := &job{sending: new(replicav1.SendReport)}
		s := twoLANs(w, j)
		s.sent(s.legs[1], send.Progress{Sent: 100, Length: 100, Root: object.Root{1}})
		if len(j.sending.GetRoot()) == 0 || j.sending.GetSentBytes() != 100 {
			t.Errorf("%s: before the other LAN begins, %d bytes were sent, and the root is %x", name, j.sending.GetSentBytes(), j.sending.GetRoot())
		}
		s.sent(s.legs[0], send.Progress{Sent: 10, Length: 100})
		if len(j.sending.GetRoot()) == 0 || j.sending.GetSentBytes() != 10 {
			t.Errorf("%s: with one LAN behind, %d bytes were sent, and the root is %x", name, j.sending.GetSentBytes(), j.sending.GetRoot())
		}
		s.updateLeg(func() { out(s.legs[0]) })
		if j.sending.GetSentBytes() != 100 {
			t.Errorf("%s: with that one out, %d bytes were sent", name, j.sending.GetSentBytes())
		}
	}
}

// The window of a LAN is that of all replications that are sent there: what one of them had is not shown any more once it has ended, however
// it did.
func TestWindowEndsWithTheReplication(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
	want := func(when string, packets float64) {
		t.Helper()
		var shown dto.Metric
		if err := w.metrics.window.WithLabelValues("a").Write(&shown); err != nil {
			t.Fatal(err)
		}
		if got := shown.GetGauge().GetValue(); got != packets {
			t.Errorf("%s, %v packets may be on their way, want %v", when, got, packets)
		}
	}
	first, second := twoLANs(w, &job{sending: new(replicav1.SendReport)}), twoLANs(w, &job{sending: new(replicav1.SendReport)})
	first.sent(first.legs[0], send.Progress{Window: 20})
	second.sent(second.legs[0], send.Progress{Window: 5})
	want("of two replications", 25)
	first.sent(first.legs[0], send.Progress{Window: 30})
	want("once the first has more", 35)
	if err := first.sendTo(t.Context(), first.legs[0]); err == nil {
		t.Error("what is nowhere was sent")
	}
	want("with the first failed", 5)
	second.sent(second.legs[0], send.Progress{})
	want("with the second done", 0)
}

// Whether the kernel cuts what is sent and merges what comes is that of the replication that was sent, or came, last.
func TestOffloadIsThatOfTheLastReplication(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
	want := func(segment, merge float64) {
		t.Helper()
		for kind, want := range map[string]float64{"segment": segment, "merge": merge} {
			var shown dto.Metric
			if err := w.metrics.offload.WithLabelValues(kind).Write(&shown); err != nil {
				t.Fatal(err)
			}
			if got := shown.GetGauge().GetValue(); got != want {
				t.Errorf("%s is %v, want %v", kind, got, want)
			}
		}
	}
	send := func(uses udp.Offload) {
		s := twoLANs(w, &job{sending: new(replicav1.SendReport)})
		s.sent(s.legs[0], send.Progress{Offload: uses})
	}
	receive := func(uses udp.Offload) {
		w.progresses(&job{receiving: new(replicav1.ReceiveReport)}, receive.Progress{Stats: receive.Stats{Offload: uses}})
	}
	send(udp.Offload{Segment: true})
	want(1, 0)
	receive(udp.Offload{Merge: true})
	want(1, 1)
	send(udp.Offload{Merge: true}) // of which a sender makes no use
	want(0, 1)
	receive(udp.Offload{Segment: true})
	want(0, 0)
}

// Two LANs that were not sent the same are no replication: the source changed meanwhile.
func TestLANsAreSentTheSame(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
	j := &job{sending: new(replicav1.SendReport)}
	s := twoLANs(w, j)
	s.sent(s.legs[0], send.Progress{Root: object.Root{1}})
	s.sent(s.legs[1], send.Progress{Root: object.Root{2}})
	if err := s.compare("a", object.Root{1}); err != nil {
		t.Error(err)
	}
	if err := s.compare("b", object.Root{2}); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("with another root: %v", err)
	}
	if err := s.compare("b", object.Root{}); err != nil {
		t.Errorf("without a root: %v", err)
	}
}

// What a source that cannot be opened is called is said once; what another part of the way there is called, too.
func TestSourceThatIsNotThereIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	p := &places{sources: []string{dir}}
	for path, want := range map[string]string{
		dir + "/x":      "open " + dir + "/x: no such file or directory",
		dir + "/no/x":   "open " + dir + "/no/x: lstat " + dir + "/no: no such file or directory",
		"/etc/hostname": "open /etc/hostname: not allowed here: /etc/hostname is not below one of sources (" + dir + ") in the configuration of this replicator",
	} {
		_, err := p.source(t.Context(), path, false)
		if err = opening(path, err); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// A source that a link leads to appears under the link's name, by multicast and by session agents. Where a link leads out of what may be sent,
// or written, the refusal says where to.
func TestLinksAreFollowed(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	for link, to := range map[string]string{"current.img": "disk-7.img", "current": "tree", "away": away} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "disk-7.img"), []byte("content"), 0o600), os.Mkdir(filepath.Join(dir, "tree"), 0o700)); err != nil {
		t.Fatal(err)
	}
	p := &places{sources: []string{dir}, targets: []string{dir}}
	for path, want := range map[string]string{"current.img": "current.img", "current/": "current", "disk-7.img": "disk-7.img", "tree/../current": "current"} {
		from, err := p.source(t.Context(), dir+"/"+path, false)
		if err != nil {
			t.Fatal(err)
		}
		delivered := sendOptions(&replicav1.SendTask{Path: dir + "/" + path}).Name
		if name := from.Info().Name; name != want || delivered != want {
			t.Errorf("%s appears as %s, and by session agents as %s, want %s", path, name, delivered, want)
		}
		if err := from.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := p.source(t.Context(), dir+"/away", false)
	_, alsoErr := p.directory(t.Context(), dir+"/away/below")
	for want, err := range map[string]error{
		dir + "/away leads to " + away + ", which is not below one of sources":             err,
		dir + "/away/below leads to " + away + "/below, which is not below one of targets": alsoErr,
	} {
		if !errors.Is(err, errNotAllowed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A task begins when those that were withdrawn before are over, which may hold the place where it lands; it does not
// wait for ever.
func TestTaskBeginsAfterTheOneThatWasWithdrawn(t *testing.T) {
	for name, wait := range map[string]func(old *job){
		"it ends":       func(old *job) { close(old.done) },
		"it never ends": func(*job) { time.Sleep(leavePatience) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
				ctx, cancel := context.WithCancel(t.Context())
				old := &job{ctx: ctx, cancel: cancel, done: make(chan struct{}), receiving: new(replicav1.ReceiveReport)}
				w.jobs["old"] = old
				nowhere := &replicav1.Task_Send{Send: new(replicav1.SendTask)} // it ends at once
				w.assign(&replicav1.Tasks{Current: []*replicav1.Task{{Replication: "new", Duty: nowhere}}})
				synctest.Wait()
				if ctx.Err() == nil || w.report().GetSending()[0].GetEnded() {
					t.Errorf("while the old one goes on: it is withdrawn %v, and the new one is %v", ctx.Err(), w.report().GetSending())
				}
				wait(old)
				synctest.Wait()
				if !w.report().GetSending()[0].GetEnded() {
					t.Error("the new one did not begin")
				}
				w.stop()
			})
		})
	}
}

// A replica needs from when it was first told until it is there, also where session agents go on with what multicast has begun.
// One that is told again after that was withdrawn needs from then.
func TestHowLongAReplicaNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
		tell := func(tasks ...*replicav1.ReceiveTask) { // none of them goes well
			all := new(replicav1.Tasks)
			for _, task := range tasks {
				all.Current = append(all.Current, &replicav1.Task{Replication: "1", Duty: &replicav1.Task_Receive{Receive: task}})
			}
			w.assign(all)
			synctest.Wait()
		}
		needed := func() time.Duration {
			j := w.jobs["1"]
			w.note(true, func() { w.complete(j, object.Info{}, nil, time.Now(), receive.Stats{}) })
			return w.report().GetReceiving()[0].GetElapsed().AsDuration()
		}
		multicast, agents := new(replicav1.ReceiveTask), &replicav1.ReceiveTask{DeliveryGroup: "group"}
		tell(multicast)
		time.Sleep(10 * time.Second)
		tell(agents)
		time.Sleep(5 * time.Second)
		if got := needed(); got != 15*time.Second {
			t.Errorf("by multicast for 10 s and by agents for 5, it needed %v", got)
		}
		tell()
		tell(multicast)
		time.Sleep(2 * time.Second)
		if got := needed(); got != 2*time.Second {
			t.Errorf("told again 2 s ago, it needed %v", got)
		}
		w.stop()
	})
}

// A sender asks every replica for a proof of its name but those of an earlier version, while they are that; where the managers are,
// it asks nobody.
func TestWhoHasToProveItsName(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "s")
	j := &job{sending: new(replicav1.SendReport), replicas: make(map[string]uint32)}
	task := &replicav1.SendTask{NameSecret: make([]byte, 32), Unproven: []string{"r2"}}
	j.expect(task)
	if key := nameKey(task); key == nil || bytes.Equal(key("r1"), key("r2")) {
		t.Error("replicas have the same key, or none")
	}
	if w.isUnproven(j, "r1") || !w.isUnproven(j, "r2") {
		t.Error("an earlier version is asked for a proof, or another is not")
	}
	j.expect(&replicav1.SendTask{NameSecret: task.GetNameSecret()})
	if w.isUnproven(j, "r2") {
		t.Error("a later version is believed without a proof")
	}
	if nameKey(new(replicav1.SendTask)) != nil {
		t.Error("managers of an earlier version know a key")
	}
}

// A LAN whose interface is gone is out of it, and the others go on. A replica there waits, as one that hears nothing, and says why:
// session agents may carry it there.
func TestLANWithoutAnInterface(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "object")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	lans := Settings{LANs: []string{"rack1=gone0"}, TTL: 1}
	w := newWorker(slog.New(slog.DiscardHandler), &Config{Settings: lans}, &places{sources: []string{dir}}, newMetrics(prometheus.NewRegistry()), nil, "r1")
	to := &replicav1.Leg{Lan: "rack1", Group: "239.7.7.7:4000"}
	j := &job{sending: new(replicav1.SendReport)}
	s := newSending(w, j, []byte("key"), &replicav1.SendTask{Path: path, Legs: []*replicav1.Leg{to}})
	if err := s.sendTo(t.Context(), s.legs[0]); err != nil || s.legs[0].failed == nil {
		t.Errorf("it ends the other LANs: %v; that one is out of it for %v", err, s.legs[0].failed)
	}
	if said := j.sending; said.GetName() != "object" || said.GetLength() != 7 {
		t.Errorf("of what session agents may carry it says %v", said)
	}
	synctest.Test(t, func(t *testing.T) {
		task := &replicav1.ReceiveTask{Lan: to.GetLan(), Group: to.GetGroup(), Path: dir}
		w.assign(&replicav1.Tasks{Current: []*replicav1.Task{{Replication: "1", Key: []byte("key"), Duty: &replicav1.Task_Receive{Receive: task}}}})
		time.Sleep(10 * time.Second)
		synctest.Wait() // it is being tried again
		if said := w.report().GetReceiving()[0]; said.GetState() != replicav1.ReplicaState_REPLICA_STATE_WAITING || !strings.Contains(said.GetDetail(), "gone0") || !said.GetUnheard() {
			t.Errorf("it says %v", said)
		}
		w.stop()
	})
	_, err := receive.Run(t.Context(), receive.Env{Log: w.log}, receive.Config{Place: multicast.Place{Group: netip.MustParseAddrPort(to.GetGroup()), Interface: "gone0"}})
	if word := receive.Word(err); word != "no_multicast" {
		t.Errorf("%v is called %s", err, word)
	}
}

// Where the network of no LAN takes anything, or nobody has come in the others, the replicas are as those that multicast does not reach, and
// it is said why: session agents may carry it to them. A source that cannot be read, nobody can carry.
func TestLANsWithoutANetworkAreNoFailedSource(t *testing.T) {
	lost := errors.New("send to LAN b: network is unreachable")
	nobody, failed, done := &leg{nobody: true}, &leg{failed: lost}, new(leg)
	for name, tt := range map[string]struct {
		legs           []*leg
		err            error
		reason, detail string
	}{
		"nobody has come":                     {[]*leg{nobody, nobody}, nil, "no_multicast", ""},
		"nobody has come, and one has failed": {[]*leg{nobody, failed}, nil, "no_multicast", lost.Error()},
		"all have failed":                     {[]*leg{failed, failed}, nil, "no_multicast", lost.Error()},
		"others have it":                      {[]*leg{done, failed, nobody}, nil, "", ""},
		"it cannot be read":                   {[]*leg{done, failed}, errors.New("read block 7"), "source_failed", "read block 7"},
	} {
		j := &job{sending: new(replicav1.SendReport)}
		(&sending{job: j, legs: tt.legs}).ends(tt.err)
		if said := j.sending; !said.GetEnded() || said.GetReason() != tt.reason || said.GetDetail() != tt.detail {
			t.Errorf("%s: it says %v", name, said)
		}
	}
}

// A LAN in which all is done, or nobody has come, is sent to as long as others are: a replica that is away there may come back.
func TestLANIsSentToWhileOthersAre(t *testing.T) {
	w := newWorker(slog.New(slog.DiscardHandler), nil, new(places), newMetrics(prometheus.NewRegistry()), nil, "r1")
	j := &job{sending: new(replicav1.SendReport), stay: make(map[string]time.Time)}
	s := twoLANs(w, j)
	serves := func(outcome algo.Outcome) send.Progress {
		return send.Progress{Members: []send.Receipt{{Outcome: outcome}}}
	}
	want := func(i int, stays bool) {
		t.Helper()
		if got := s.stays(s.legs[i]).After(time.Now()); got != stays {
			t.Errorf("the sender stays in LAN %d: %v, want %v", i, got, stays)
		}
	}
	want(0, true) // nobody has come here, and nothing is known of the other
	s.sent(s.legs[1], serves(algo.Running))
	want(0, true)
	s.sent(s.legs[0], serves(algo.Running)) // somebody has come late
	s.sent(s.legs[1], serves(algo.Complete))
	want(1, true)
	s.sent(s.legs[0], serves(algo.Unknown))
	want(1, false)
	want(0, false)
	j.stay["a"] = time.Now().Add(gathering)
	want(0, true)
}

// A source is looked at once for all LANs, which read it at the same time, each from its own place. It is closed with the last of them.
func TestSourceIsOpenedOnceForAllLANs(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "tree")
	content := make(map[string][]byte)
	for _, name := range []string{"a", "b"} {
		content[name] = bytes.Repeat([]byte(name), 5000)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), content[name], 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	one := &places{sources: []string{root}, disks: disks{patience: time.Minute}}
	w := newWorker(slog.New(slog.DiscardHandler), new(Config), one, newMetrics(prometheus.NewRegistry()), nil, "r1")
	s := newSending(w, &job{sending: &replicav1.SendReport{Replication: "id"}}, nil, &replicav1.SendTask{Path: dir})
	first, err := s.from(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c"), nil, 0o600); err != nil { // who looked now would see it
		t.Fatal(err)
	}
	second, err := s.from(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.Info(), second.Info(); a != b || a.Name != "tree" {
		t.Errorf("one LAN has %+v, another %+v", a, b)
	}
	for i, from := range []send.Opened{first, second, first} {
		name := []string{"b", "a", "b"}[i]
		at, read := first.Head()+uint64(i+1)%2*5000, make([]byte, 5000)
		if err := from.ReadAt(read, at); err != nil || !bytes.Equal(read, content[name]) {
			t.Errorf("%s is not what it was: %v", name, err)
		}
	}
	if err := second.Changed(); !errors.Is(err, object.ErrChanged) {
		t.Errorf("%v, want that it has changed", err)
	}
	if err := errors.Join(first.Close(), second.ReadAt(make([]byte, 5000), second.Head()), second.Close(), s.opened.Close()); err != nil {
		t.Error(err)
	}
}
