package gather_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/testdisk"

	"github.com/groupcast/groupcast/sdk/gather"
)

// A policy holds from the next round on, also for uploads that are under way; and it outlives a kill.
func TestPolicyChangesWhileRunning(t *testing.T) {
	s := start(t)
	s.policy("rules: [{clients: [slow-*], max: 2MB, priority: 3}]")
	name, content := s.file("model", 7, 48<<20)
	p := s.upload("slow-1", name)
	s.await("the rule holds", func() bool {
		now := s.status("slow-1")
		return now.GetShare().GetPriority() == 3 && now.GetShare().GetMaxBytesPerSecond() == 2_000_000 && now.GetReceivedBytes() > 1<<20
	})
	s.gatherer.kill()
	s.startGatherer()
	s.await("the rule holds after a kill", func() bool { return s.status("slow-1").GetShare().GetPriority() == 3 })
	select {
	case <-p.ended:
		t.Fatalf("48 MiB at 2 MB/s have come at once: %s", p.said.String())
	default:
	}
	s.policy("{}")
	if p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("slow-1", "model", content)
}

// A rule by group fits the members that the managers let into that group, at once when that changes, and also after the gatherer was
// killed.
func TestRulesByGroup(t *testing.T) {
	s := start(t)
	s.policy("rules: [{groups: [icu-*], max: 4MB, priority: 3}]\ndefault: {max: 2MB}")
	zero, err := os.Open("/dev/zero")
	s.must(err)
	defer zero.Close()
	s.member(s.enrollInto("alice", "icu-2"), zero)
	bob := s.enrollInto("bob", "lab")
	s.member(bob, zero)
	want := func(what string, alice, bob int32) {
		t.Helper()
		s.await(what, func() bool {
			one, other := s.status("alice"), s.status("bob")
			return one.GetAttached() && other.GetAttached() && one.GetShare().GetPriority() == alice && other.GetShare().GetPriority() == bob
		})
	}
	want("one of two is of the group", 3, 0)
	s.must(os.RemoveAll(bob))
	s.enrollInto("bob", "icu-1")
	want("the other is let in, too", 3, 3)
	s.gatherer.kill()
	s.startGatherer()
	want("it stays so when the gatherer is killed", 3, 3)
}

// Watching goes on when the gatherer is back, and says meanwhile that it is away.
func TestWatchOutlivesTheGatherer(t *testing.T) {
	s := start(t)
	watch := s.begin(s.command("gather", "watch", "--to", s.grpc))
	says := func(what string, times int) func() bool {
		return func() bool { return strings.Count(watch.said.String(), what) == times }
	}
	s.await("a round is shown", says("  (all)  ", 1))
	for i, end := range []func(){func() { s.gatherer.end() }, func() { s.gatherer.kill() }} {
		end()
		s.await("it is said that the gatherer is away", says("the gatherer is away", i+1))
		s.startGatherer()
		s.await("it is said that it is back", says("the gatherer is back", i+1))
	}
	if status := watch.end(); status != 130 {
		t.Errorf("exit status %d: %s", status, watch.said.String())
	}
}

// A cap holds within one machine, where windows bound nothing, and for all uploads of a client together. It does not
// hold up others.
func TestMaxHoldsOnLoopback(t *testing.T) {
	const most, size = 2_000_000, 4 << 20
	s := start(t)
	s.policy("rules: [{clients: [capped], max: 2MB}]")
	client := s.client("capped")
	begun := time.Now()
	var running sync.WaitGroup
	for i := range 2 {
		name, _ := s.file(fmt.Sprint("f", i), uint64(i), size)
		running.Go(func() {
			if _, err := client.Upload(t.Context(), name, gather.FileOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	free, content := s.file("free", 9, 4*size)
	if p := s.upload("free", free); p.status() != 0 {
		t.Error(p.said.String())
	}
	freed := time.Since(begun)
	running.Wait()
	took := time.Since(begun)
	t.Logf("%d bytes at %d a second took %v; without a cap %d took %v", 2*size, most, took, 4*size, freed)
	// A quarter of a second's worth may come at once.
	if least := (2*size - most/4) / float64(most); took.Seconds() < least {
		t.Errorf("%d bytes at %d a second have come in %v", 2*size, most, took)
	}
	if freed > took {
		t.Errorf("one without a cap took %v, the capped one %v", freed, took)
	}
	s.wantFile("free", "free", content)
	if came, mixed := s.metric("groupcast_gatherer_segments_total"), s.metric("groupcast_gatherer_out_of_order_segments_total"); came == 0 || mixed > came {
		t.Errorf("%g segments are counted, %g of them out of order", came, mixed)
	}
}

// A policy that lets a client have fewer connections holds also for what it uploads already: those that are too many are ended. Whatever
// has none for that waits until others have ended, says why, and loses nothing.
func TestFewerConnectionsForUploadsUnderWay(t *testing.T) {
	const streams, most, content = 4, 2, "content"
	s := start(t)
	client, ended, last := s.client("alice"), make(chan error), make(chan struct{})
	var waiting [streams]atomic.Bool
	for i := range streams {
		go func() {
			_, err := client.UploadStream(t.Context(), func(uint64) (io.Reader, error) {
				return io.MultiReader(strings.NewReader(content), endsWith(last)), nil
			}, gather.StreamOptions{Path: fmt.Sprint(i), Progress: func(p gather.Progress) {
				waiting[i].Store(strings.Contains(p.Stuck, "the client has as many connections as it is to have"))
			}})
			ended <- err
		}()
	}
	s.await("each has a connection", func() bool { return s.status("alice").GetConnections() == streams })
	s.policy(fmt.Sprintf("default: {maxConnections: %d}", most))
	s.await("there are no more than may be", func() bool { return s.status("alice").GetConnections() == most })
	s.await("the others say what they wait for", func() bool {
		waits := 0
		for i := range waiting {
			if waiting[i].Load() {
				waits++
			}
		}
		return waits == streams-most
	})
	close(last)
	for range streams {
		s.must(<-ended)
	}
	for i := range streams {
		if got := s.stored("alice", fmt.Sprint(i)); string(got) != content {
			t.Errorf("stream %d has %q", i, got)
		}
	}
}

// If a policy refuses what does not fit, the command says so, and what to do; also one that has waited, where the policy was another.
func TestRefusedClient(t *testing.T) {
	s := start(t)
	const rules = "default: {minimum: 60kB}\nlink: 100kB\nadmission: "
	s.policy(rules + "queue")
	l := s.liar()
	_, leave := l.attach("first")
	defer leave()
	name, _ := s.file("f", 1, 10)
	waits := s.upload("waits", name)
	s.await("one waits", func() bool { return s.status("waits").GetPaused() == "queued" })
	s.policy(rules + "refuse")
	for _, p := range []*process{waits, s.upload("second", name)} {
		if status := p.status(); status <= 0 || !strings.Contains(p.said.String(), "the policy has to change") {
			t.Errorf("exit status %d: %s", status, p.said.String())
		}
	}
}

// While the disk is full, clients are paused and told why; once there is room again they go on, and nothing is lost.
func TestDiskFull(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=128m"); err != nil {
		t.Fatalf("mount a small disk (the test has to be root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	s := start(t, "--store-dir="+disk+"/gathered", "--store-reserve=16MiB")
	s.store = disk + "/gathered"
	name, content := s.file("model", 8, 64<<20)
	s.must(os.WriteFile(disk+"/ballast", make([]byte, 116<<20), 0o600))
	p := s.upload("alice", name)
	s.await("it is told what is missing", func() bool {
		said := p.said.String()
		return strings.Contains(said, "paused by the gatherer: ") && strings.Contains(said, "64 MiB are needed")
	})
	if s.status("alice").GetPaused() != "disk_full" {
		t.Errorf("%+v", s.status("alice"))
	}
	s.must(os.Remove(disk + "/ballast"))
	if p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("alice", "model", content)

	// It fills up in the middle of a stream whose client has not waited for room before.
	s.must(os.Remove(s.store + "/alice/model"))
	s.must(os.WriteFile(disk+"/ballast", make([]byte, 70<<20), 0o600))
	log, content := s.file("log", 9, 60<<20)
	p = s.upload("bob", log, "--follow")
	s.await("it is paused", func() bool { return s.status("bob").GetPaused() == "disk_full" })
	s.must(os.Remove(disk + "/ballast"))
	s.await("all has come", func() bool { return len(s.stored("bob", "log")) == len(content) })
	s.await("it goes on", func() bool { return s.status("bob").GetPaused() == "" }) // a paused stream is not waited for when it is interrupted
	if status := p.end(); status != 0 || string(s.stored("bob", "log")) != string(content) {
		t.Errorf("exit status %d, %d bytes: %s", status, len(s.stored("bob", "log")), p.said.String())
	}
}

// A gatherer whose disk is full starts again, and goes on when there is room.
func TestGathererStartsOnAFullDisk(t *testing.T) {
	disk := testdisk.Memory(t, "size=32m")
	s := start(t, "--store-dir="+disk+"/gathered", "--policy-file="+disk+"/policy.yaml", "--store-reserve=1MiB")
	s.store = disk + "/gathered"
	name, content := s.file("model", 8, 1<<20)
	if p := s.upload("alice", name, "--name", "first"); p.status() != 0 {
		t.Fatal(p.said.String())
	}
	s.gatherer.end()
	testdisk.Fill(t, disk+"/ballast")
	s.startGatherer()
	p := s.upload("alice", name)
	s.await("it is told what is missing", func() bool { return strings.Contains(p.said.String(), "paused by the gatherer: ") })
	s.must(os.Remove(disk + "/ballast"))
	if p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("alice", "model", content)
}

// A disk that takes no more, though it is not full, ends uploads, which say why; once it does again, they go on
// where they were.
func TestDiskThatFails(t *testing.T) {
	s := start(t)
	name, content := s.file("model", 10, 24<<20)
	for _, flags := range [][]string{nil, {"--follow"}} {
		s.limitFiles(8 << 20)
		p := s.upload("alice", append([]string{name}, flags...)...)
		if status := p.status(); status != 1 || !strings.Contains(p.said.String(), "the gatherer cannot keep what comes: ") ||
			!strings.Contains(p.said.String(), "file too large") {
			t.Errorf("with %v, exit status %d: %s", flags, status, p.said.String())
		}
		s.limitFiles(unix.RLIM_INFINITY)
		p = s.upload("alice", append([]string{name}, flags...)...)
		if flags != nil {
			s.await("all has come", func() bool { return len(s.stored("alice", "model")) == len(content) })
			p.end()
		} else if p.status() != 0 {
			t.Error(p.said.String())
		}
	}
	s.wantFile("alice", "model", content)
	if string(s.stored("alice", "model")) != string(content) {
		t.Error("the stream is another")
	}
}

// limitFiles keeps the gatherer from writing files beyond a length.
func (s *site) limitFiles(most uint64) {
	s.Helper()
	s.must(unix.Prlimit(s.gatherer.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}, nil))
}
