package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/fault"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// death notes that a machine's program was killed during a delivery: nobody says what its links had carried by then.
type death struct{ delivery, machine string }

// dies notes a death in all deliveries that run. What was reported of those that have ended still holds, as what will be reported of the
// next ones does.
func (n *Net) dies(name string) {
	for _, p := range n.pushes {
		if !p.over {
			n.killed[death{p.ID, name}] = true
		}
	}
}

// Kill ends a machine's program at once.
func (n *Net) Kill(name string) {
	n.Helper()
	n.dies(name)
	n.must(n.Machine(name).Process.Kill())
}

// KillPush ends a push at once.
func (n *Net) KillPush(p *Push) {
	n.Helper()
	n.killed[death{p.ID, n.Sender.name}] = true
	n.must(p.Process.Kill())
}

// Freeze stops a machine's program as if the machine hung, until Thaw.
func (n *Net) Freeze(name string) {
	n.Helper()
	f := &fault.Freeze{Process: n.Machine(name).Process}
	n.must(f.Begin())
	n.Await(name+" is frozen", func() bool { return f.Proof() == nil })
}

// Thaw ends Freeze.
func (n *Net) Thaw(name string) {
	n.Helper()
	n.must(n.Machine(name).Process.Continue())
}

// Cut loses everything to and from a machine, without notice, until Heal.
func (n *Net) Cut(name string) {
	n.Helper()
	n.must(n.Machine(name).Cable.Cut())
}

// Heal ends Cut.
func (n *Net) Heal(name string) {
	n.Helper()
	n.must(n.Machine(name).Cable.Heal())
}

// CutTo loses everything to a machine, but nothing from it, until Heal.
func (n *Net) CutTo(name string) {
	n.Helper()
	n.must(n.to(name).Cut())
}

// to returns the way to a machine.
func (n *Net) to(name string) lab.Way { return n.Machine(name).Cable.From(n.lan) }

// Swallow loses large packets to a machine, without notice, until the test ends.
func (n *Net) Swallow(name string) (proof func() error) {
	n.Helper()
	f := &fault.BlackHole{Way: n.to(name), Above: 1000}
	n.must(f.Begin())
	return f.Proof
}

// Throttle limits the rate at which a machine receives; zero ends that.
func (n *Net) Throttle(name string, rate link.Rate) {
	n.Helper()
	n.must(n.to(name).Step(rate))
}

// ThrottleSending limits the rate at which a machine sends; zero ends that.
func (n *Net) ThrottleSending(name string, rate link.Rate) {
	n.Helper()
	m := n.Machine(name)
	n.must(m.Cable.From(m.Host).Step(rate))
}

// SlowDisk limits the rate at which a machine's disk writes; zero ends that.
func (n *Net) SlowDisk(name string, rate link.Rate) {
	n.Helper()
	n.must(n.Machine(name).Disk.Slow(rate, 0))
}

// FillDisk fills a machine's disk completely.
func (n *Net) FillDisk(name string) {
	n.Helper()
	f := &fault.FullDisk{Disk: n.Machine(name).Disk}
	n.must(f.Begin())
}

// Carried returns how many bytes have come to a machine.
func (n *Net) Carried(name string) int64 { return int64(n.to(name).Read().Count.Carried.Bytes) }

// SentBy returns how many bytes a machine has sent.
func (n *Net) SentBy(name string) int64 {
	m := n.Machine(name)
	return int64(m.Cable.From(m.Host).Read().Count.Carried.Bytes)
}

// AwaitExit waits for a push to end, and reports whether it succeeded.
func (n *Net) AwaitExit(p *Push) error {
	n.Helper()
	select {
	case <-p.Process.Ended():
	case <-time.After(patience):
		n.Fatalf("the push goes on: %s", p.Process.Output())
	}
	return p.Process.Wait()
}

// DamageCache flips bytes of what an agent has cached, at an offset of its first file.
func (n *Net) DamageCache(name string, offset int64) {
	n.Helper()
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.Machine(name).Process.Pid()))
	n.must(err)
	for _, descriptor := range descriptors {
		target, err := os.Readlink(descriptor)
		info, failed := os.Stat(descriptor)
		if err != nil || failed != nil || !strings.HasPrefix(target, n.Machine(name).dir) || !info.Mode().IsRegular() || info.Size() <= offset {
			continue
		}
		file, err := os.OpenFile(descriptor, os.O_WRONLY, 0)
		n.must(err)
		_, err = file.WriteAt([]byte("damaged"), offset)
		n.must(errors.Join(err, file.Close()))
		return
	}
	n.Fatalf("%s has no cache file with more than %d bytes", name, offset)
}

// PeakMemory returns the most memory that a machine's program has used, in bytes.
func (m *Machine) PeakMemory(t testing.TB) int64 {
	t.Helper()
	peak := m.Process.PeakMemory()
	if peak == 0 {
		t.Fatalf("%s does not run: its memory is not known", m.Name())
	}
	return int64(peak)
}
