package gather_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A policy holds from the next round on, for uploads under way, too; and it outlives a kill.
func TestPolicyChangesWhileRunning(t *testing.T) {
	s := start(t)
	s.policy("rules: [{clients: [slow-*], max: 2MB, priority: 3}]")
	name, content := s.file("model", 7, 48<<20)
	p := s.upload("slow-1", name)
	s.await("the rule holds", func() bool {
		now := s.status("slow-1")
		return now.Share.Priority == 3 && now.Share.Max == 2_000_000 && now.Received > 1<<20
	})
	s.gatherer.kill()
	s.startGatherer()
	s.await("the rule holds after a kill", func() bool { return s.status("slow-1").Share.Priority == 3 })
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

// With a policy that refuses what does not fit, the command says so, and what to do.
func TestRefusedClient(t *testing.T) {
	s := start(t)
	s.policy("default: {minimum: 60kB}\nlink: 100kB\nadmission: refuse")
	l := s.liar()
	_, leave := l.attach("first")
	defer leave()
	name, _ := s.file("f", 1, 10)
	p := s.upload("second", name)
	if status := p.status(); status == 0 || !strings.Contains(p.said.String(), "the policy has to change") {
		t.Errorf("exit status %d: %s", status, p.said.String())
	}
}

// While the disk is full, clients are paused and told why; with room again they go on, and nothing is lost.
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
	s.await("it is paused", func() bool { return strings.Contains(p.said.String(), "paused by the gatherer: disk full") })
	if s.status("alice").Paused != "disk_full" {
		t.Errorf("%+v", s.status("alice"))
	}
	s.must(os.Remove(disk + "/ballast"))
	if p.status() != 0 {
		t.Error(p.said.String())
	}
	s.wantFile("alice", "model", content)

	// It fills up in the middle of a stream.
	s.must(os.Remove(s.store + "/alice/model"))
	s.must(os.WriteFile(disk+"/ballast", make([]byte, 70<<20), 0o600))
	log, content := s.file("log", 9, 60<<20)
	p = s.upload("alice", log, "--follow")
	s.await("it is paused", func() bool { return s.status("alice").Paused == "disk_full" })
	s.must(os.Remove(disk + "/ballast"))
	s.await("all has come", func() bool { return len(s.stored("alice", "log")) == len(content) })
	if status := p.end(); status != 0 || string(s.stored("alice", "log")) != string(content) {
		t.Errorf("exit status %d, %d bytes: %s", status, len(s.stored("alice", "log")), p.said.String())
	}
}
