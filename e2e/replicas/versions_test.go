package replicas_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// Whatever the versions of the manager, the source and the replicas, a file and a directory reach all of them, and
// repeating it changes nothing.
func TestReplicationBetweenVersions(t *testing.T) {
	for _, before := range [][]string{{"store"}, {"manager"}, {"manager", "store"}, {"r1", "r3"}, {"manager", "r1", "r3"}, {"store", "r1", "r3"}, {"manager", "store", "r1", "r3"}} {
		t.Run(strings.Join(before, " and "), func(t *testing.T) {
			r := startRacksOf(t, before)
			file := r.file("disk.img", 6<<20+123)
			r.file("release/weights", 1<<20)
			r.file("release/below/empty", 0)
			for _, source := range []string{file, filepath.Join(r.dir, "release"), file} {
				said := r.run(0, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "role=worker")
				if strings.Count(said, " multicast ") < len(r.replicas) || !strings.Contains(said, "4 of 4 replicas") {
					t.Errorf("it said:\n%s", said)
				}
				for _, one := range r.replicas {
					r.wantCopy(one, source)
				}
			}
		})
	}
}

// Replicators that registered with a manager of the version before, which knew less of them, are known as they are to the one that
// takes its place: multicast reaches them, from a sender that has registered only then.
func TestManagerIsUpgradedBelowReplicators(t *testing.T) {
	r := startRacksOf(t, []string{"manager"})
	r.must(r.serving.Signal(syscall.SIGTERM))
	r.must(r.serving.Wait())
	r.earlier = nil
	r.startManager()
	r.must(r.store.process.Signal(syscall.SIGTERM))
	r.must(r.store.process.Wait())
	r.restart(r.store)
	r.await("all replicators are online again", func() bool { return strings.Count(r.run(0, "replicator", "list"), " online ") == 5 })
	begun := time.Now()
	said := r.run(0, "replicate", "store:"+r.file("disk.img", 6<<20), "--to", "/mnt/replicas", "--on", "role=worker")
	if strings.Count(said, " multicast ") < len(r.replicas) || !strings.Contains(said, "4 of 4 replicas") || time.Since(begun) > 8*time.Second {
		t.Errorf("after %v, it said:\n%s", time.Since(begun), said)
	}
}

// Without managers, too, a sender and a receiver of different versions need only a phrase.
func TestPhraseBetweenVersions(t *testing.T) {
	const program = commands + "replicator/cmd/groupcast-replicator"
	earlier, today := testprocess.EarlierBinary(t, program), testprocess.Binary(t, program)
	for _, c := range []struct{ name, sender, receiver string }{{"the sender is earlier", earlier, today}, {"the receiver is earlier", today, earlier}} {
		t.Run(c.name, func(t *testing.T) {
			a := startAlone(t)
			a.binary = c.receiver
			receiver := a.receive(0)
			a.binary = c.sender
			a.want(a.send(0, "--receivers", "1"), "^receiver1 .* COMPLETE ")
			a.wantStatus(receiver, receiver.Wait(), 0)
			want, err := os.ReadFile(a.source)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(a.dir, "into", filepath.Base(a.source))); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the copy: %d bytes, %v; want %d", len(got), err, len(want))
			}
		})
	}
}
