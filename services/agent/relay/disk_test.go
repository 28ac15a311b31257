package relay_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/testdisk"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// An agent makes do with a disk that takes less than the cache may hold: what all have gives way to what comes, over the links that there are.
func TestDiskSmallerThanTheCache(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 24<<20+5, spec)
			first := w.startIn("sa1", testdisk.Memory(t, "size=10m"), 32<<20)
			second := w.startIn("sa2", testdisk.Memory(t, "size=6m"), 32<<20)
			w.tree("sa1", "sender", "sa2", "r1")
			w.tree("sa2", "sa1", "r2", "r3")
			w.deliver("sa1", map[*member]string{newMember("r1"): "sa1", newMember("r2"): "sa2", newMember("r3"): "sa2"})
			for _, a := range []*agent{first, second} {
				if came := a.count(w, "received_bytes"); came != float64(len(w.content)) {
					t.Errorf("%v bytes came, want %d", came, len(w.content))
				}
			}
		})
	}
}

// Where there is nothing to give back, a sender that offers is told that the disk is full, and is welcome when it is not.
func TestFullDiskIsTold(t *testing.T) {
	w := newWorld(t, 4<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	disk := testdisk.Memory(t, "size=8m")
	a := w.startIn("sa1", disk, 32<<20)
	w.tree("sa1", "sender", "r1")
	filler := filepath.Join(disk, "filler")
	testdisk.Fill(t, filler)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	reader := newMember("r1")
	running.Go(func() { _ = w.pull(ctx, reader, func() string { return "sa1" }) })
	running.Go(func() { _ = w.send(ctx, "sa1") })
	w.await("it says so", func() bool {
		reports := a.Reports()
		return len(reports) == 1 && reports[0].GetTrouble() == "no_room"
	})
	var refusal *wire.Refusal
	w.await("it refuses", func() bool { return errors.As(w.offer(ctx, "sa1"), &refusal) })
	if refusal.Reason != wire.NoRoom || refusal.Text != "the disk of its cache is full" {
		t.Errorf("%v, want to hear of the disk", refusal)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w.await("all of it came", reader.isDone)
	if trouble := a.Reports()[0].GetTrouble(); trouble != "" {
		t.Errorf("it still says %s", trouble)
	}
}

// An agent whose cache cannot be written says that of itself, and does not blame its parent.
func TestBrokenCacheIsNoFaultOfTheParent(t *testing.T) {
	w := newWorld(t, 1<<20, modes()["CONTROL_MODE_HOP-DATA_PLANE_TLS"])
	dir := filepath.Join(t.TempDir(), "cache")
	w.start("sa1", 4<<20)
	a := w.startIn("sa2", dir, 4<<20)
	if err := errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	w.tree("sa1", "sender", "sa2")
	w.tree("sa2", "sa1", "r1")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	reader := newMember("r1")
	running.Go(func() { _ = w.pull(ctx, reader, func() string { return "sa2" }) })
	running.Go(func() { _ = w.send(ctx, "sa1") })
	stands := func() *groupv1.DeliveryReport {
		report := a.Reports()[0]
		if report.GetLost() != "" {
			t.Fatalf("it blames %s", report.GetLost())
		}
		return report
	}
	w.await("it says so", func() bool { return stands().GetTrouble() == "no_room" })
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	w.await("all of it came", func() bool { return stands() != nil && reader.isDone() })
	if trouble := stands().GetTrouble(); trouble != "" {
		t.Errorf("it still says %s", trouble)
	}
}

// offer offers the delivery to an agent once, and sends nothing.
func (w *world) offer(ctx context.Context, to string) error {
	sender := identity.ID{Role: identity.Member, Name: "sender"}
	hello := w.hello(w.capability(sender, identity.Send))
	hello.Offer = true
	conn, _, err := link.Dial(ctx, &net.Dialer{}, w.agents[to].address, w.identity(sender), identity.ID{Role: identity.Agent, Name: to}, hello)
	if err == nil {
		conn.Close()
	}
	return err
}
