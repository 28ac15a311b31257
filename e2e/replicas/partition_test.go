package replicas_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}

// partitionSize returns the size of the partition; GROUPCAST_PARTITION=1GiB changes it.
func partitionSize(t *testing.T) int64 {
	size := bytesize.Size(48 << 20)
	if text := os.Getenv("GROUPCAST_PARTITION"); text != "" {
		if err := size.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	return int64(size)
}

func must(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

// fill makes an ext4 file system with files on a device.
func fill(t *testing.T, device string) {
	t.Helper()
	must(t, "mkfs.ext4", "-q", "-F", device)
	at := t.TempDir()
	must(t, "mount", device, at)
	defer must(t, "umount", at)
	content := bytes.Repeat([]byte("what a partition has on it, again and again\n"), 20000)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		content[0]++
		if err := os.WriteFile(filepath.Join(at, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// partitions is a LAN that loses 1 %, a partition, and devices for its copies.
type partitions struct {
	t         *testing.T
	program   string
	sender    *lab.Host
	uplink    lab.Way
	receivers []*lab.Host
	source    string
	devices   []string
	files     []string
	size      int64
}

func onLossyLAN(t *testing.T) *partitions {
	t.Helper()
	l := labtest.New(t, 1)
	p := &partitions{t: t, size: partitionSize(t), sender: l.Host("sender"), receivers: l.Hosts("receiver", 3)}
	lan := l.LAN("lan")
	p.uplink = l.Link(p.sender, lan, link.Shape{Rate: 100 * link.Mbit, Queue: link.Packets(200)}).From(p.sender)
	for _, host := range p.receivers {
		l.Link(host, lan, link.Shape{Rate: 100 * link.Mbit, Queue: link.Packets(200), Loss: 0.01})
	}
	dir := t.TempDir()
	p.files = append(p.files, filepath.Join(dir, "source"))
	p.source = testdisk.Loop(t, p.files[0], p.size)
	fill(t, p.source)
	for _, host := range p.receivers {
		p.files = append(p.files, filepath.Join(dir, host.Name()))
		p.devices = append(p.devices, testdisk.Loop(t, filepath.Join(dir, host.Name()), p.size))
	}
	labtest.Start(t, l)
	p.program = testprocess.Binary(t, "github.com/groupcast/groupcast/services/replicator/cmd/groupcast-replicator")
	return p
}

const phrase = "a phrase of the test's own"

func (p *partitions) start(host *lab.Host, arguments ...string) *lab.Process {
	p.t.Helper()
	device, err := host.Interface()
	if err != nil {
		p.t.Fatal(err)
	}
	process := host.Command(p.program, append(arguments, "--lan", device.Name, "--key", phrase)...)
	if err := process.Start(); err != nil {
		p.t.Fatal(err)
	}
	return process
}

func (p *partitions) receive(i int, state string) *lab.Process {
	return p.start(p.receivers[i], "receive", "--into", p.devices[i], "--allow-device", p.devices[i], "--state", state,
		"--name", p.receivers[i].Name(), "--serial", p.files[i+1])
}

// await waits until a share of the partition has left the sender.
func (p *partitions) await(share float64) {
	p.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for p.uplink.Read().Count.Delivered.Bytes < link.Bytes(share*float64(p.size)) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%.0f %% of the partition never left the sender:\n%s", 100*share, p.sender.Output())
		}
		time.Sleep(10 * time.Millisecond) // the state of another process is polled
	}
}

// awaitClaim waits until it is recorded how much is on a device: the record has 56 bytes, and eight in the middle say
// it (services/replicator/device).
func (p *partitions) awaitClaim(state string) {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		files, err := filepath.Glob(filepath.Join(state, "device-*"))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, ".new") { // it is not in its place yet
				continue
			}
			if content, err := os.ReadFile(file); err == nil && len(content) == 56 && binary.BigEndian.Uint64(content[8:]) > 0 {
				return
			}
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("nothing was noted in %s:\n%s", state, p.sender.Output())
		}
		time.Sleep(10 * time.Millisecond) // as await
	}
}

// mostMemory is that of a receiver: 576 blocks of up to 92 KiB that are not whole, or wait for others (services/replicator/receive), and as
// much again for the program.
const mostMemory = 2 * 576 * 92 << 10

// A partition goes to three devices through 1 % loss. One receiver reboots and goes on from its record; one has lost its
// record, and begins anew: all copies are clean and byte-identical. However much is missing before what comes, it takes no more memory (C53).
func TestPartitionThroughLossAndKills(t *testing.T) {
	p := onLossyLAN(t)
	states := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var running []*lab.Process
	for i := range p.receivers {
		running = append(running, p.receive(i, states[i]))
	}
	sender := p.start(p.sender, "send", p.source, "--receivers", "3", "--wait", "30s", "--rate", strconv.FormatInt(p.size/7, 10))
	p.awaitClaim(states[1])
	if err := running[1].Kill(); err != nil {
		t.Fatal(err)
	}
	running[1] = p.receive(1, states[1])
	p.await(0.8)
	if err := running[2].Kill(); err != nil {
		t.Fatal(err)
	}
	running[2] = p.receive(2, t.TempDir())
	if err := sender.Wait(); err != nil {
		t.Errorf("%v\n%s", err, sender.Output())
	}
	t.Log(sender.Output())
	for i, one := range running {
		if err := one.Wait(); err != nil {
			t.Errorf("%v\n%s", err, one.Output())
			continue
		}
		must(t, "fsck.ext4", "-f", "-n", p.devices[i])
		must(t, "cmp", p.source, p.devices[i])
		t.Logf("%s needed %d MiB", p.receivers[i].Name(), one.Usage().PeakMemory/link.MiB)
		if peak := one.Usage().PeakMemory; peak < link.MiB || peak > mostMemory {
			t.Errorf("%s needed %d MiB", p.receivers[i].Name(), peak/link.MiB)
		}
		if resumed := strings.Contains(one.Output(), "were there before"); resumed != (i == 1) {
			t.Errorf("that %s had a part before is told: %v:\n%s", p.receivers[i].Name(), resumed, one.Output())
		}
	}
}

// Whenever receivers are killed, and however often, their copies are byte-identical in the end, and so is that of the one that was not.
func TestPartitionThroughManyKills(t *testing.T) {
	const kills = 20
	p := onLossyLAN(t)
	random := rand.New(rand.NewPCG(1, 2))
	states := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var running []*lab.Process
	for i := range p.receivers {
		running = append(running, p.receive(i, states[i]))
	}
	sender := p.start(p.sender, "send", p.source, "--receivers", "3", "--wait", "30s", "--rate", strconv.FormatInt(p.size/10, 10))
	p.await(0.01)
	for kill := range kills {
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond) // the moment is what the test is about
		i := 1 + kill%2
		select {
		case <-running[i].Ended():
			t.Fatalf("%s had ended before kill %d:\n%s", p.receivers[i].Name(), kill, running[i].Output())
		default:
		}
		if err := running[i].Kill(); err != nil {
			t.Fatal(err)
		}
		running[i] = p.receive(i, states[i])
	}
	if err := sender.Wait(); err != nil {
		t.Errorf("%v\n%s", err, sender.Output())
	}
	for i, one := range running {
		if err := one.Wait(); err != nil {
			t.Errorf("%v\n%s", err, one.Output())
			continue
		}
		must(t, "cmp", p.source, p.devices[i])
	}
}

// The unused part of a file system is not sent, and becomes zeros in the copies, whatever was there before. The
// copies are clean, and have the files of the source.
func TestUnusedBlocksAreLeftOut(t *testing.T) {
	p := onLossyLAN(t)
	gone, kept := bytes.Repeat([]byte("what was deleted "), 1<<20), t.TempDir()
	p.mounted(p.source, func(at string) {
		name := filepath.Join(at, "deleted")
		if err := os.WriteFile(name, gone, 0o644); err != nil {
			t.Fatal(err)
		}
		must(t, "sync", "--file-system", at)
		must(t, "rm", name)
		must(t, "cp", "--recursive", at, filepath.Join(kept, "files"))
	})
	for _, device := range p.devices {
		must(t, "dd", "if=/dev/urandom", "of="+device, "bs=1M", "count=40", "conv=fsync")
	}
	var running []*lab.Process
	for i := range p.receivers {
		running = append(running, p.receive(i, t.TempDir()))
	}
	sender := p.start(p.sender, "send", p.source, "--skip-unused", "--receivers", "3", "--wait", "30s")
	if err := sender.Wait(); err != nil {
		t.Errorf("%v\n%s", err, sender.Output())
	}
	sent := p.uplink.Read().Count.Delivered.Bytes
	t.Logf("%d of %d bytes were sent\n%s", sent, p.size, sender.Output())
	if sent > link.Bytes(p.size)/2 {
		t.Errorf("%d of %d bytes were sent", sent, p.size)
	}
	for i, one := range running {
		if err := one.Wait(); err != nil {
			t.Errorf("%v\n%s", err, one.Output())
			continue
		}
		must(t, "fsck.ext4", "-f", "-n", p.devices[i])
		if content, err := os.ReadFile(p.devices[i]); err != nil || bytes.Contains(content, gone[:64]) {
			t.Errorf("%s: what was deleted came along (%v)", p.devices[i], err)
		}
		p.mounted(p.devices[i], func(at string) { must(t, "diff", "--recursive", filepath.Join(kept, "files"), at) })
	}
}

// If a source does not tell what is used, it is not sent at all.
func TestUnusedBlocksMustBeKnown(t *testing.T) {
	p := onLossyLAN(t)
	must(t, "dd", "if=/dev/zero", "of="+p.devices[0], "bs=1M", "count=40", "conv=fsync")
	for source, why := range map[string]string{p.devices[0]: "knows no file system", p.files[0]: "is no block device"} {
		sender := p.start(p.sender, "send", source, "--skip-unused")
		if err := sender.Wait(); err == nil || !strings.Contains(sender.Output(), why) {
			t.Errorf("want a refusal with %q, have %v:\n%s", why, err, sender.Output())
		}
	}
}

// mounted calls do with the directory where a device is mounted.
func (p *partitions) mounted(device string, do func(at string)) {
	p.t.Helper()
	at := p.t.TempDir()
	must(p.t, "mount", device, at)
	defer must(p.t, "umount", at)
	do(at)
}

// C57: a device that is mounted, too small, read-only, not allowed or not the intended one is
// refused, and nothing is written to it.
func TestDevicesAreRefused(t *testing.T) {
	p := onLossyLAN(t)
	small := testdisk.Loop(t, filepath.Join(t.TempDir(), "small"), 1<<20)
	fixed := p.devices[1]
	must(t, "blockdev", "--setro", fixed)
	t.Cleanup(func() { must(t, "blockdev", "--setrw", fixed) }) // a loop device stays read-only after it is detached
	mounted := p.devices[2]
	must(t, "mkfs.ext4", "-q", "-F", mounted)
	at := t.TempDir()
	must(t, "mount", mounted, at)
	defer must(t, "umount", at)
	sender := p.start(p.sender, "send", p.source)
	for why, arguments := range map[string][]string{
		"is not among":    {"--into", p.devices[0]},
		"needed":          {"--into", small, "--allow-device", small},
		"read-only":       {"--into", fixed, "--allow-device", fixed},
		"is in use":       {"--into", mounted, "--allow-device", mounted},
		"another device":  {"--into", p.devices[0], "--allow-device", p.devices[0], "--serial", "another"},
		"is no block dev": {"--into", "/dev/zero", "--allow-device", "/dev/zero"},
	} {
		status := 2
		if why == "needed" { // the sender says how much will come
			status = 1
		}
		one := p.start(p.receivers[0], append([]string{"receive", "--await", "20s"}, arguments...)...)
		exit := new(exec.ExitError)
		if err := one.Wait(); !errors.As(err, &exit) || exit.ExitCode() != status || !strings.Contains(one.Output(), why) {
			t.Errorf("want a refusal with %q, have %v:\n%s", why, err, one.Output())
		}
	}
	if err := sender.Kill(); err != nil {
		t.Fatal(err)
	}
}
