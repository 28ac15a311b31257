package fault_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/fault"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// victim is two hosts, the link between them, and one socket on each.
type victim struct {
	t    *testing.T
	wire *lab.Link
	a, b *lab.Host
	from net.PacketConn
	sink net.PacketConn
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	l := labtest.New(t, 1)
	v := &victim{t: t, a: l.Host("a"), b: l.Host("b")}
	v.wire = l.Link(v.a, v.b, link.Shape{Rate: 100 * link.Mbit, Delay: time.Millisecond})
	labtest.Start(t, l)
	v.from, v.sink = v.socket(v.a), v.socket(v.b)
	return v
}

func (v *victim) socket(host *lab.Host) net.PacketConn {
	v.t.Helper()
	conn, err := host.ListenPacket(context.Background(), "udp4", ":9")
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.UDPConn).SetReadBuffer(4 << 20)
	return conn
}

// arrive sends n datagrams and returns how many came.
func (v *victim) arrive(n int) int {
	v.t.Helper()
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(v.b.Addr(), 9))
	for range n {
		if _, err := v.from.WriteTo(make([]byte, 1000), to); err != nil {
			v.t.Fatal(err)
		}
	}
	came := 0
	for frame := make([]byte, 2000); ; came++ {
		_ = v.sink.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, _, err := v.sink.ReadFrom(frame); err != nil {
			return came
		}
	}
}

func TestLinkFaultsBiteProveItAndEnd(t *testing.T) {
	const n = 200
	for name, test := range map[string]struct {
		fault       func(*victim) fault.Fault
		least, most int // that arrive while the fault lasts
	}{
		"loss": {func(v *victim) fault.Fault { return &fault.Loss{Way: v.wire.From(v.a), Probability: 0.5} }, 50, 150},
		"burst loss": {func(v *victim) fault.Fault {
			return &fault.BurstLoss{Way: v.wire.From(v.a), Burst: link.Burst{Start: 0.1, Length: 5}}
		}, 50, 180},
		"one way":    {func(v *victim) fault.Fault { return &fault.OneWay{Way: v.wire.From(v.a)} }, 0, 0},
		"partition":  {func(v *victim) fault.Fault { return &fault.Partition{Link: v.wire} }, 0, 0},
		"black hole": {func(v *victim) fault.Fault { return &fault.BlackHole{Way: v.wire.From(v.a), Above: 1000} }, 0, 0},
		"firewall":   {func(v *victim) fault.Fault { return &fault.Firewall{Way: v.wire.From(v.a), From: v.a} }, 0, 0},
		"rate step":  {func(v *victim) fault.Fault { return &fault.RateStep{Way: v.wire.From(v.a), Rate: 10 * link.Mbit} }, n, n},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			healthy := v.wire.From(v.a).Shape()
			f := test.fault(v)
			if err := f.Begin(); err != nil {
				t.Fatal(err)
			}
			if err := f.Proof(); !errors.Is(err, fault.ErrNoEffect) {
				t.Errorf("proof before a packet was sent: %v", err)
			}
			if came := v.arrive(n); came < test.least || came > test.most {
				t.Errorf("%s: %d of %d arrived, want %d to %d", f, came, n, test.least, test.most)
			}
			if err := f.Proof(); err != nil {
				t.Error(err)
			}
			if err := f.End(); err != nil {
				t.Fatal(err)
			}
			if got := v.wire.From(v.a).Shape(); got != healthy {
				t.Errorf("shape after the end %+v, before %+v", got, healthy)
			}
			if came := v.arrive(n); came != n {
				t.Errorf("%d of %d arrived after the end", came, n)
			}
		})
	}
}

func TestOneWayLeavesTheWayBack(t *testing.T) {
	v := newVictim(t)
	f := fault.OneWay{Way: v.wire.From(v.b)}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	if came := v.arrive(10); came != 10 {
		t.Errorf("%d of 10 arrived", came)
	}
}

func TestFreezeAndKill(t *testing.T) {
	v := newVictim(t)
	p := v.a.Command("sleep", "1000")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	freeze, kill := &fault.Freeze{Process: p}, &fault.Kill{Process: p}
	for _, f := range []fault.Fault{freeze, kill} {
		if err := f.Proof(); !errors.Is(err, fault.ErrNoEffect) {
			t.Errorf("proof before %s: %v", f, err)
		}
		if err := f.Begin(); err != nil {
			t.Fatal(err)
		}
		awaitProof(t, f)
		if err := f.End(); err != nil {
			t.Error(err)
		}
	}
}

func awaitProof(t *testing.T, f fault.Fault) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Second); f.Proof() != nil; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(f.Proof())
		}
	}
}

func TestFullDiskRefusesWritesUntilItsEnd(t *testing.T) {
	v := newVictim(t)
	disk, err := v.a.Disk(4 * link.MiB)
	if err != nil {
		t.Fatal(err)
	}
	f := &fault.FullDisk{Disk: disk}
	if err := f.Proof(); !errors.Is(err, fault.ErrNoEffect) {
		t.Errorf("proof of an empty disk: %v", err)
	}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := f.Proof(); err != nil {
		t.Error(err)
	}
	if err := v.a.Command("sh", "-c", "echo more > "+disk.Inside("file")).Run(); err == nil {
		t.Error("a program wrote to a full disk")
	}
	if err := f.End(); err != nil {
		t.Fatal(err)
	}
	if free, err := disk.Free(); err != nil || free < 3*link.MiB {
		t.Errorf("%d bytes free after the end: %v", free, err)
	}
	if err := v.a.Command("sh", "-c", "echo more > "+disk.Inside("file")).Run(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(disk.Outside("file")); err != nil || string(text) != "more\n" {
		t.Errorf("read %q from outside: %v", text, err)
	}
}

func TestSlowDiskSlowsPrograms(t *testing.T) {
	v := newVictim(t)
	disk, err := v.a.SlowableDisk(64 * link.MiB)
	if err != nil {
		t.Fatal(err)
	}
	write := func() time.Duration {
		start := time.Now()
		p := v.a.Command("sh", "-c", "dd if=/dev/zero of=/mnt/file bs=64k count=32 conv=fsync && mv /mnt/file /mnt/final && sync /mnt")
		if err := p.Run(); err != nil {
			t.Fatalf("%v: %s", err, p.Output())
		}
		return time.Since(start)
	}
	fast := write()
	f := &fault.SlowDisk{Disk: disk, Rate: 40 * link.Mbit, Sync: 100 * time.Millisecond}
	if err := f.Proof(); err == nil {
		t.Error("proof of a disk that is not slow yet")
	}
	if err := f.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := f.Proof(); err != nil {
		t.Error(err)
	}
	const least = 519 * time.Millisecond // 2 MiB at 40 Mbit/s and one sync
	if slow := write(); slow < least || slow < 2*fast {
		t.Errorf("writing took %v, and %v before", slow, fast)
	}
	if err := f.End(); err != nil {
		t.Fatal(err)
	}
	if again := write(); again > least/2 {
		t.Errorf("writing took %v after the end", again)
	}
}

func TestSlowDiskNeedsASlowableOne(t *testing.T) {
	v := newVictim(t)
	disk, err := v.a.Disk(link.MiB)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&fault.SlowDisk{Disk: disk}).Begin(); err == nil {
		t.Error("a plain disk was slowed")
	}
	if _, err := v.a.Disk(link.MiB); err == nil {
		t.Error("a second disk was mounted")
	}
}
