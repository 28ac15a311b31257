package replicas_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// Session agents, if there are any, carry what multicast does not, in the same replication and with the same
// receipts: a file and a directory, to a single replica that hears nothing, and where no replica hears anything.
func TestSessionAgentsCarryWhatMulticastDoesNot(t *testing.T) {
	r := startRacks(t)
	file := r.file("disk.img", 5<<20+77)
	r.file("release/weights", 3<<20)
	r.file("release/below/empty", 0)
	r.startAgent(r.replicas[2])
	r.mislead()
	for _, source := range []string{file, filepath.Join(r.dir, "release")} {
		said := r.run(0, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "role=worker")
		if !matches(said, "r4 +rack1 +agents +COMPLETE ") || !matches(said, "r1 +rack1 +multicast +COMPLETE ") || !strings.Contains(said, "4 of 4") {
			t.Errorf("it said:\n%s", said)
		}
		for _, one := range r.replicas {
			r.wantCopy(one, source)
		}
	}
	r.wantSlow("PACE")
	alone := r.file("alone.img", 2<<20+1)
	if said := r.run(0, "replicate", "store:"+alone, "--to", "/mnt/replicas", "--on", "r4", "--slow", "detach"); !matches(said, "r4 +rack1 +agents +COMPLETE ") {
		t.Errorf("it said:\n%s", said)
	}
	r.wantSlow("DETACH")
	r.wantCopy(r.replicas[3], alone)
	r.await("no group is left", func() bool { return !strings.Contains(r.run(0, "group", "list"), "replication-") })
}

// They also carry onto block devices: a whole one, the used part of a file system, and a file; in the middle of what came by
// multicast, and from the beginning; also if the device's node is outside /dev. A directory goes onto no device.
func TestSessionAgentsCarryOntoDevices(t *testing.T) {
	const size = 24 << 20
	r := startRacks(t)
	source, one := testdisk.Loop(t, filepath.Join(r.dir, "golden"), size), r.replicas[3]
	fill(t, source)
	to := testdisk.Loop(t, filepath.Join(r.dir, "backing"), size)
	r.allow(r.store, "--sources="+r.dir+","+source)
	elsewhere := node(t, to, filepath.Join(t.TempDir(), "volume"))
	r.allow(one, "--devices="+to+","+elsewhere)
	r.startAgent(r.replicas[2])
	replicate := func(from string, flags ...string) *lab.Process {
		return r.command(append([]string{"replicate", "store:" + from, "--to", to, "--on", "r4", "--serial", filepath.Join(r.dir, "backing")}, flags...)...)
	}

	p := replicate(source, "--rate", "6MB")
	r.must(p.Start())
	r.await("a third of it has come by multicast", func() bool {
		return matches(p.Output(), "replication watch ") && r.replication("").GetReplicas()[0].GetBytes() > size/3
	})
	r.must(r.rack2.FloodMulticast(one.Host, false))
	if said := r.wait(0, p); !matches(said, "r4 +rack2 +agents +COMPLETE ") {
		t.Errorf("it said:\n%s", said)
	}
	must(t, "cmp", source, to)

	for what, from := range map[string]*lab.Process{"a file": replicate(filepath.Join(r.dir, "golden")), "what is used": replicate(source, "--skip-unused")} {
		must(t, "dd", "if=/dev/urandom", "of="+to, "bs=1M", "conv=fsync", "count=24")
		r.must(from.Start())
		if said := r.wait(0, from); !matches(said, "r4 +rack2 +agents +COMPLETE ") {
			t.Errorf("%s: it said:\n%s", what, said)
		}
		must(t, "fsck.ext4", "-f", "-n", to)
	}

	must(t, "dd", "if=/dev/urandom", "of="+to, "bs=1M", "conv=fsync", "count=24")
	if said := r.run(0, "replicate", "store:"+source, "--to", elsewhere, "--on", "r4"); !matches(said, "r4 +rack2 +agents +COMPLETE ") {
		t.Errorf("outside /dev: it said:\n%s", said)
	}
	must(t, "cmp", source, to)

	if said := r.run(1, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "r4"); !strings.Contains(said, "onto block devices alone") {
		t.Errorf("a device into a directory: it said:\n%s", said)
	}

	p = replicate(r.dir)
	r.must(p.Start())
	if said := r.wait(1, p); !strings.Contains(said, "is a directory, and goes onto no device") {
		t.Errorf("it said:\n%s", said)
	}
}

// node creates another node of a block device, as Kubernetes does in a container.
func node(t *testing.T, device, path string) string {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(stat.Rdev)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A switch that forgets in the middle which hosts listen, as one does that snoops and hears no querier: session agents carry the
// rest to those that it leaves out, in the same replication, from what is there. The others notice nothing.
func TestMulticastEndsInTheMiddle(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 16<<20)
	r.startAgent(r.replicas[2])
	p, id := r.begin(source, "--rate", "2MB")
	r.awaitReceiving(id)
	r.must(r.rack2.FloodMulticast(r.replicas[3].Host, false))
	said := r.wait(0, p)
	if !matches(said, "r4 +rack2 +agents +COMPLETE ") || !matches(said, "r3 +rack2 +multicast +COMPLETE ") {
		t.Errorf("it said:\n%s", said)
	}
	for _, one := range r.replicas {
		r.wantCopy(one, source)
	}
	for _, replica := range r.replication(id).GetReplicas() {
		if replica.GetName() == "r4" && replica.GetResumedBytes() == 0 {
			t.Errorf("r4 began anew: %v", replica)
		}
		// What was meanwhile sent to the others in its LAN counts as lost for it.
		if isCut := replica.GetName() == "r4"; isCut != (replica.GetLost() > 0.3) {
			t.Errorf("lost to %s: %.3f", replica.GetName(), replica.GetLost())
		}
	}
}

// A replica whose cable is out for longer than a session lasts comes back, and goes on from what it has.
func TestReplicaOfSessionAgentsComesBack(t *testing.T) {
	r := startRacks(t, link.Shape{}, link.Shape{}, link.Shape{}, link.Shape{}, link.Shape{}, link.Shape{Rate: 100 * link.Mbit, Queue: link.Packets(200)})
	source := r.file("disk.img", 24<<20)
	r.startAgent(r.replicas[2])
	r.mislead()
	p := r.command("replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "r4", "--rate", "1MB")
	r.must(p.Start())
	lost := r.replicas[3]
	r.await("r4 has a part", func() bool {
		return matches(p.Output(), "replication watch ") && r.replication("").GetReplicas()[0].GetBytes() > 2<<20
	})
	r.must(lost.cable.Cut())
	time.Sleep(12 * time.Second)
	r.must(lost.cable.Heal())
	if said := r.wait(0, p); !matches(said, "r4 +rack1 +agents +COMPLETE ") {
		t.Errorf("it said:\n%s", said)
	}
	r.wantCopy(lost, source)
}

// If a sender's session expires while session agents carry what it sends, it joins again, and the replicas go on from
// what they have.
func TestSenderOfSessionAgentsComesBack(t *testing.T) {
	shape := link.Shape{Rate: 100 * link.Mbit, Queue: link.Packets(200)}
	r := startRacks(t, shape, shape)
	source := r.file("disk.img", 24<<20)
	r.startAgent(r.replicas[2])
	r.mislead()
	p := r.command("replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "r4", "--rate", "1MB")
	r.must(p.Start())
	r.await("r4 has a part", func() bool {
		return matches(p.Output(), "replication watch ") && r.replication("").GetReplicas()[0].GetBytes() > 2<<20
	})
	for _, way := range r.uplinks {
		r.must(way.Cut())
	}
	before := r.traffic()
	members := []string{"member", "list", "replication-" + r.replication("").GetId()}
	r.await("the sender's session has expired", func() bool { return !matches(r.run(0, members...), "^store ") })
	for _, way := range r.uplinks {
		r.must(way.Heal())
	}
	if said := r.wait(0, p); !matches(said, "r4 +rack1 +agents +COMPLETE ") {
		t.Errorf("it said:\n%s", said)
	}
	r.wantCopy(r.replicas[3], source)
	if sent := r.traffic() - before; sent >= 24<<20 {
		t.Errorf("it began anew: %d bytes were sent", sent)
	}
}

// If managers are gone for longer than calls are retried when session agents are to begin, the replication waits for them.
func TestManagerIsGoneAsSessionAgentsBegin(t *testing.T) {
	r := startRacks(t, link.Shape{}, link.Shape{}, link.Shape{}, link.Shape{}, link.Shape{}, link.Shape{Rate: 100 * link.Mbit, Queue: link.Packets(200)})
	source := r.file("disk.img", 2<<20)
	r.startAgent(r.replicas[2])
	r.mislead()
	p := r.command("replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "r4")
	r.must(p.Start())
	r.await("the replication begins", func() bool { return matches(p.Output(), "replication watch ") })
	lost := r.replicas[3]
	r.must(lost.cable.Cut()) // so that it does not join before
	r.await("session agents are to carry it", func() bool { return r.replication("").GetReplicas()[0].GetOverAgents() })
	r.must(r.serving.Kill())
	r.must(lost.cable.Heal())
	r.await("the sender has waited in vain", func() bool { return strings.Contains(r.store.process.Output(), "do not carry a replication for now") })
	r.startManager()
	if said := r.wait(0, p); !matches(said, "r4 +rack1 +agents +COMPLETE ") {
		t.Errorf("it said:\n%s", said)
	}
	r.wantCopy(lost, source)
}
