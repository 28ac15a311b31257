package replicas_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/capture"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// When the command ends with 0, every replica in both LANs has the same bytes that an operator
// replicates: a file, and a directory that contains an empty file. Repeating it changes nothing.
func TestFileAndDirectoryReachBothLANs(t *testing.T) {
	r := startRacks(t)
	file := r.file("disk.img", 9<<20+123)
	r.file("release/weights", 3<<20)
	r.file("release/below/empty", 0)
	for _, source := range []string{file, filepath.Join(r.dir, "release")} {
		said := r.run(0, "replicate", source, "--from", "node-of-store", "--to", "/mnt/replicas", "--on", "role=worker")
		for i, one := range r.replicas {
			r.wantCopy(one, source)
			if want := one.Name() + " +" + []string{"rack1", "rack2"}[i/2] + " +multicast +COMPLETE "; !matches(said, want) {
				t.Errorf("no line as %q:\n%s", want, said)
			}
		}
		if !strings.Contains(said, "is complete: 4 of 4 replicas") || !strings.Contains(said, "2 replicas on LAN rack1 (239.195.") {
			t.Errorf("it said:\n%s", said)
		}
	}
	before := r.traffic()
	r.run(0, "replicate", "store:"+file, "--to", "/mnt/replicas", "--on", "role=worker")
	if sent := r.traffic() - before; sent > 1<<20 || r.replication("").GetSentBytes() != 0 {
		t.Errorf("the one that has it all was sent %d bytes; the sender says %d", sent, r.replication("").GetSentBytes())
	}
	for _, one := range r.replicas {
		r.wantCopy(one, file)
	}
	said := r.run(0, "replicate", "store:"+file, "--to", "/mnt/replicas", "--on", "lan=rack2")
	r.wantCopy(r.replicas[3], file)
	if strings.Contains(said, "rack1") || !strings.Contains(said, "2 of 2 replicas") {
		t.Errorf("of rack2 alone it said:\n%s", said)
	}
	if list := r.run(0, "replication", "list"); len(regexp.MustCompile(`COMPLETE +(\d)/\d`).FindAllString(list, -1)) != 4 {
		t.Errorf("the replications are:\n%s", list)
	}
}

// journalHead is the length of a journal that claims nothing (internal/object).
const journalHead = 8

// A replica that is killed in the middle is UNKNOWN and never counts as a success; all others are
// complete, and the command ends with 3.
func TestKilledReplicaIsUnknown(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 40<<20)
	p, _ := r.begin(source)
	r.await("r4 has noted what is on its disk", func() bool {
		journals, err := filepath.Glob(r.replicas[3].disk.Outside("replicas/.groupcast-partial/*/journal"))
		r.must(err)
		return slices.ContainsFunc(journals, func(path string) bool {
			journal, err := os.Stat(path)
			return err == nil && journal.Size() > journalHead
		})
	})
	r.must(r.replicas[3].process.Kill())
	said := r.wait(3, p)
	for i, one := range r.replicas[:3] {
		r.wantCopy(one, source)
		if !matches(said, one.Name()+" +rack[12] +multicast +COMPLETE ") {
			t.Errorf("replica %d is not complete:\n%s", i, said)
		}
	}
	if !matches(said, `r4 +rack2 +multicast +UNKNOWN\(\d+[sm]\)`) || !strings.Contains(said, "3 of 4") {
		t.Errorf("it said:\n%s", said)
	}
	r.wantNothing(3, source)
	// Replicas in its LAN, and in another, do not wait for it.
	r.run(3, "replicate", "store:"+r.file("another.img", 1<<20), "--to", "/mnt/replicas", "--on", "*")
	another := r.replication("")
	for _, replica := range another.GetReplicas() {
		if took := replica.GetChangeTime().AsTime().Sub(another.GetCreateTime().AsTime()); replica.GetName() != "r4" && took > 3*time.Second {
			t.Errorf("%s had to wait for %v", replica.GetName(), took)
		}
	}
	// When it is back it goes on from what it has.
	r.restart(r.replicas[3])
	r.await("r4 is online again", func() bool { return matches(r.run(0, "replicator", "list"), "r4 .* online ") })
	r.run(0, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "r4")
	r.wantCopy(r.replicas[3], source)
	last := r.replication("").GetReplicas()
	if len(last) != 1 || last[0].GetResumedBytes() == 0 {
		t.Errorf("r4 did not go on from what it had: %v", last)
	}
}

// A replica that is killed and comes back while others are waited for is waited for, too, and goes on.
func TestKilledReplicaComesBack(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 32<<20)
	p, id := r.begin(source)
	r.awaitReceiving(id)
	r.must(r.replicas[3].process.Kill())
	r.restart(r.replicas[3])
	if said := r.wait(0, p); !strings.Contains(said, "4 of 4 replicas are complete") {
		t.Errorf("it said:\n%s", said)
	}
	for _, one := range r.replicas {
		r.wantCopy(one, source)
	}
}

// leave stops a replicator and makes the managers forget it.
func (r *racks) leave(one *replicator) {
	r.Helper()
	r.must(one.process.Signal(syscall.SIGTERM))
	r.must(one.process.Wait())
	r.await(one.Name()+" has left", func() bool { return !matches(r.run(0, "replicator", "list"), one.Name()+" ") })
}

// A replicator that comes during a replication that selects it takes part: what it missed comes to its LAN
// by multicast. A replicator that is not selected takes no part, nor does one in a LAN that is not part of
// the replication.
func TestLateReplicatorsTakePart(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 32<<20)
	late, other, elsewhere := r.replicas[1], r.replicas[2], r.replicas[3]
	for _, one := range []*replicator{late, other, elsewhere} {
		r.leave(one)
	}
	elsewhere.flags = append(elsewhere.flags, "--lans=rack3=eth0")
	p, id := r.begin(source)
	r.await("r1 has a quarter", func() bool { return r.replication(id).GetReplicas()[0].GetBytes() > 8<<20 })
	other.flags = append(other.flags, "--lans=rack1=eth0", "--labels=role=none")
	for _, one := range []*replicator{late, other, elsewhere} {
		r.restart(one)
	}
	said := r.wait(0, p)
	for _, want := range []string{"r1 +rack1 +multicast +COMPLETE ", "r2 +rack1 +multicast +COMPLETE "} {
		if !matches(said, want) {
			t.Errorf("no line as %q:\n%s", want, said)
		}
	}
	ended := r.replication(id)
	if ended.GetReplicaCount() != 2 || len(ended.GetReplicas()) != 2 || ended.GetLegs()[0].GetReplicas() != 2 {
		t.Errorf("it ended as %v", ended)
	}
	for _, one := range r.replicas[:2] {
		r.wantCopy(one, source)
	}
	r.wantNothing(2, source)
	r.wantNothing(3, source)
}

// The transfer goes on without any manager: all replicas get everything, and the next manager that comes is told so.
func TestManagerIsGoneForAWhile(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 24<<20)
	p, id := r.begin(source)
	r.awaitReceiving(id)
	r.must(r.serving.Kill())
	for _, one := range r.replicas {
		r.await(one.Name()+" has all", func() bool {
			_, err := os.Stat(copyAt(one, source))
			return err == nil
		})
	}
	r.startManager()
	if said := r.wait(0, p); !strings.Contains(said, "4 of 4 replicas are complete") {
		t.Errorf("it said:\n%s", said)
	}
	for _, one := range r.replicas {
		r.wantCopy(one, source)
	}
}

// mislead makes r4, which is in rack2, say that it is in rack1: so it hears nothing.
func (r *racks) mislead() {
	r.Helper()
	lost := r.replicas[3]
	r.must(lost.process.Signal(syscall.SIGTERM))
	r.must(lost.process.Wait())
	lost.flags = append(lost.flags, "--lans=rack1=eth0")
	r.restart(lost)
	r.await("r4 is online again", func() bool { return matches(r.run(0, "replicator", "list"), "r4 .* online ") })
}

// announces returns a function that says when the store first sent something to a group of rack1, from now on.
func (r *racks) announces() (when func() time.Time) {
	r.Helper()
	var live *capture.Live
	r.must(r.store.Do(func() (err error) {
		live, err = capture.Listen("eth0", 7431)
		return err
	}))
	r.Cleanup(func() { _ = live.Close() })
	first := make(chan time.Time, 1)
	go func() {
		defer close(first)
		if packet, err := live.Next(); err == nil {
			first <- packet.At
		}
	}()
	return func() time.Time {
		r.Helper()
		_ = live.Close()
		at, came := <-first
		if !came {
			r.Fatal("the store has announced nothing")
		}
		return at
	}
}

// A LAN that multicast does not reach is found within 5 s. Without session agents the replicas there are told so, and
// nobody else waits for it.
func TestUnheardReplicaIsFound(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 4<<20)
	r.mislead()
	announced := r.announces()
	said := r.run(3, "replicate", "store:"+source, "--to", "/mnt/replicas", "--on", "role=worker")
	if !matches(said, `r4 +rack1 +multicast +FAILED\(no_multicast\) `) || !strings.Contains(said, "IGMP snooping") || !strings.Contains(said, "3 of 4") {
		t.Errorf("it said:\n%s", said)
	}
	for _, one := range r.replicas[:3] {
		r.wantCopy(one, source)
	}
	begun := announced()
	for _, replica := range r.replication("").GetReplicas() {
		// The patience is 5 s, and the managers look four times in a second.
		if after := replica.GetChangeTime().AsTime().Sub(begun); replica.GetName() == "r4" && (after < 4*time.Second || after > 5500*time.Millisecond) {
			t.Errorf("it was found %v after the sender had begun to announce", after)
		}
	}
}

// wantSlow checks how session agents treat slow members in the newest delivery.
func (r *racks) wantSlow(action string) {
	r.Helper()
	if said := r.run(0, "delivery", "get", "-o", "json"); !matches(said, `"action": *"SLOW_MEMBER_ACTION_`+action+`"`) {
		r.Errorf("session agents are told:\n%s", said)
	}
}

// Two replications at once do not hear each other: each has groups of its own.
func TestTwoReplicationsAtOnce(t *testing.T) {
	r := startRacks(t)
	one, two := r.file("one.img", 6<<20), r.file("two.img", 6<<20)
	first, _ := r.begin(one)
	second, _ := r.begin(two)
	r.wait(0, first)
	r.wait(0, second)
	for _, replica := range r.replicas {
		r.wantCopy(replica, one)
		r.wantCopy(replica, two)
	}
}

// If two equal replications run at once, the second waits at each replica until the first is done there, and then has the object.
func TestTwoEqualReplicationsAtOnce(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 12<<20)
	first, id := r.begin(source)
	r.awaitReceiving(id)
	second, other := r.begin(source)
	for _, p := range []*lab.Process{first, second} {
		if said := r.wait(0, p); !strings.Contains(said, "4 of 4 replicas are complete") {
			t.Errorf("it said:\n%s", said)
		}
	}
	for _, replica := range r.replication(other).GetReplicas() {
		if replica.GetResumedBytes() != 12<<20 {
			t.Errorf("%s was sent what the first had brought: %v", replica.GetName(), replica)
		}
	}
	for _, one := range r.replicas {
		r.wantCopy(one, source)
	}
}

// A partition goes only onto a device that is on the replicator's list and has the intended serial number.
func TestPartitionThroughManagers(t *testing.T) {
	r := startRacks(t)
	image, backing := filepath.Join(r.dir, "golden"), filepath.Join(r.dir, "backing")
	fill(t, testdisk.Loop(t, image, 24<<20))
	device := testdisk.Loop(t, backing, 24<<20)
	one := r.replicas[0]
	replicate := func(status int, serial string) string {
		t.Helper()
		return r.run(status, "replicate", "store:"+image, "--to", device, "--serial", serial, "--on", one.Name())
	}
	if said := replicate(1, backing); !strings.Contains(said, "refused") || !strings.Contains(said, "allow it by name") {
		t.Errorf("onto a device that is not on the list: %s", said)
	}
	r.allow(one, "--devices="+device)
	if said := replicate(1, "another"); !strings.Contains(said, "another device") {
		t.Errorf("onto another device than was meant: %s", said)
	}
	replicate(0, backing)
	must(t, "fsck.ext4", "-f", "-n", device)
	must(t, "cmp", image, device)
	// Repeating it sends nothing; if one byte on the device is changed, everything is sent.
	for _, sent := range []uint64{0, 24 << 20} {
		replicate(0, backing)
		must(t, "cmp", image, device)
		if got := r.replication("").GetSentBytes(); got != sent {
			t.Errorf("%d bytes were sent again, want %d", got, sent)
		}
		must(t, "dd", "if=/dev/urandom", "of="+device, "bs=4096", "count=1", "seek=7", "conv=fsync")
	}
}

// The unused part of a file system is neither read nor sent when managers order the replication, either.
func TestUnusedBlocksAreLeftOutThroughManagers(t *testing.T) {
	r := startRacks(t)
	source := testdisk.Loop(t, filepath.Join(r.dir, "golden"), 24<<20)
	fill(t, source)
	device, one := testdisk.Loop(t, filepath.Join(r.dir, "backing"), 24<<20), r.replicas[0]
	must(t, "dd", "if=/dev/urandom", "of="+device, "bs=1M", "conv=fsync", "count=24")
	r.allow(r.store, "--sources="+r.dir+","+source)
	r.allow(one, "--devices="+device)
	if said := r.run(1, "replicate", "store:"+r.access(), "--to", device, "--skip-unused", "--on", one.Name()); !strings.Contains(said, "block device") {
		t.Errorf("what is no device: %s", said)
	}
	before := r.traffic()
	r.run(0, "replicate", "store:"+source, "--to", device, "--skip-unused", "--on", one.Name())
	if sent := r.traffic() - before; sent > 12<<20 {
		t.Errorf("%d bytes have left the store, of a device of 24 MiB that is all but empty", sent)
	}
	must(t, "fsck.ext4", "-f", "-n", device)
	from, to := t.TempDir(), t.TempDir()
	for at, mounted := range map[string]string{from: source, to: device} {
		must(t, "mount", "-o", "ro,noload", mounted, at)
		defer must(t, "umount", at)
	}
	must(t, "diff", "--recursive", from, to)
}

// A replication that is canceled, by somebody who watches or by the one who began it, ends at once:
// nobody has half of it under its name.
func TestCanceledWhileItRuns(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 32<<20)
	p, id := r.begin(source)
	r.awaitReceiving(id)
	if said := r.run(0, "replication", "cancel", id); !strings.Contains(said, "FAILED(canceled)") {
		t.Errorf("canceled, it is:\n%s", said)
	}
	if said := r.wait(1, p); !strings.Contains(said, "no replica has it: canceled") {
		t.Errorf("it said:\n%s", said)
	}
	p, id = r.begin(source)
	r.awaitReceiving(id)
	r.must(p.Signal(syscall.SIGINT))
	if said := r.wait(130, p); !strings.Contains(said, "replication "+id+" canceled") {
		t.Errorf("interrupted, it said:\n%s", said)
	}
	ended := r.replication(id)
	if ended.GetState() != replicav1.ReplicationState_REPLICATION_STATE_FAILED || ended.GetReason() != "canceled" {
		t.Errorf("it ended as %v", ended)
	}
	for i := range r.replicas {
		r.wantNothing(i, source)
	}
	p, id = r.begin(source, "--no-wait")
	r.wait(0, p)
	watch := r.command("replication", "watch", id)
	r.must(watch.Start())
	r.awaitReceiving(id)
	r.run(0, "replication", "cancel", id)
	r.wait(1, watch)
}

// However a replication ends while one LAN lags, the replicas of the other LAN are COMPLETE as soon as they have everything, and
// those that lag are told why they do not.
func TestLaggingLANCostsOthersNothing(t *testing.T) {
	r := startRacks(t, link.Shape{}, link.Shape{Rate: 2 * link.Mbit})
	for _, tt := range []struct {
		reason string
		flags  []string
		end    func(id string)
	}{
		{"deadline", []string{"--deadline", "8s"}, func(string) {}},
		{"canceled", nil, func(id string) { r.run(0, "replication", "cancel", id) }},
		{"sender_lost", nil, func(string) { r.must(r.store.process.Kill()) }},
	} {
		source := r.file(tt.reason+".img", 12<<20)
		p, id := r.begin(source, tt.flags...)
		for _, one := range r.replicas[:2] {
			r.await(one.Name()+" has all", func() bool {
				_, err := os.Stat(copyAt(one, source))
				return err == nil
			})
		}
		tt.end(id)
		said := r.wait(3, p)
		for i, one := range r.replicas {
			want := one.Name() + " +rack1 +multicast +COMPLETE "
			if i >= 2 {
				want = one.Name() + ` +rack2 +multicast +FAILED\(` + tt.reason + `\) `
			}
			if !matches(said, want) {
				t.Errorf("no line as %q:\n%s", want, said)
			}
		}
	}
}

// A sender does not wait for a replica that refuses, not even for as long as it waits for replicas that may still
// come. With one that refuses it takes no longer, apart from the questions and answers.
func TestRefusalHoldsNobodyUp(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 1<<20)
	took := func(status int, to string) time.Duration {
		begun := time.Now()
		said := r.run(status, "replicate", "store:"+source, "--to", to, "--on", "r1,r2")
		if !matches(said, `r1 +rack1 +multicast +COMPLETE`) || (status == 3) != matches(said, `r2 +rack1 +multicast +FAILED\(refused\)`) {
			t.Errorf("the receipts are:\n%s", said)
		}
		return time.Since(begun)
	}
	both := took(0, "/mnt/replicas")
	r.must(os.WriteFile(r.replicas[1].disk.Outside("replicas/below"), nil, 0o600)) // a file, where a directory would have to be
	one := took(3, "/mnt/replicas/below")
	t.Logf("%v with both, %v with one that refuses", both, one)
	if one > 3*both+time.Second {
		t.Errorf("%v with both, %v with one that refuses", both, one)
	}
}

// If something cannot be replicated, the message says so, and what to do.
func TestWhatCannotBeReplicated(t *testing.T) {
	r := startRacks(t)
	source := r.file("disk.img", 1<<20)
	for _, tt := range []struct {
		name   string
		status int
		want   []string
		args   []string
	}{
		{"the source is missing", 1, []string{"source_failed", "no such file"}, []string{"store:" + source + ".missing", "--to", "/mnt/replicas", "--on", "*"}},
		{"it may not be sent", 1, []string{"source_failed", "is not below one of sources"}, []string{"store:/etc/hostname", "--to", "/mnt/replicas", "--on", "*"}},
		{"it may not be written there", 1, []string{"refused", "is not below one of targets"}, []string{"store:" + source, "--to", "/etc", "--on", "r1,r2"}},
		{"nobody is selected", 4, []string{"no replicator is selected", "the LANs are rack1, rack2"}, []string{"store:" + source, "--to", "/mnt/replicas", "--on", "role=database"}},
		{"no such replicator", 4, []string{`did you mean "r1"`}, []string{"store:" + source, "--to", "/mnt/replicas", "--on", "r11"}},
		{"no such sender", 4, []string{"no replicator has this name or runs on this node"}, []string{"shop:" + source, "--to", "/mnt/replicas", "--on", "*"}},
		{"no node", 2, []string{"want NODE:PATH"}, []string{source, "--to", "/mnt/replicas", "--on", "*"}},
		{"a relative path", 2, []string{"want an absolute path"}, []string{"store:disk.img", "--to", "/mnt/replicas", "--on", "*"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := (&racks{T: t, dir: r.dir, manager: r.manager}).run(tt.status, append([]string{"replicate"}, tt.args...)...)
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
		})
	}
	for i := range r.replicas {
		r.wantNothing(i, source)
	}
}

// wantNothing checks that a replica has nothing under the source's name.
func (r *racks) wantNothing(i int, source string) {
	r.Helper()
	if _, err := os.Stat(copyAt(r.replicas[i], source)); !errors.Is(err, fs.ErrNotExist) {
		r.Errorf("%s has something under the name of %s (%v)", r.replicas[i].Name(), source, err)
	}
}
