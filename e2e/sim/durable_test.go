package sim

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/sdk"
)

// What a member has acknowledged as durable outlives a power cut: an object, a stream, and an object that somebody had put there
// before. What it has acknowledged only as received is complete, but does not outlive the cut: the disk has nothing that was not
// synced.
func TestDurableOutlivesAPowerCut(t *testing.T) {
	disk, dir := testdisk.New(t, "64M"), scratch(t)
	testdisk.Mount(t, "none", "bind", disk.Dir, filepath.Join(dir, "r1", "into"))
	s := scenario{
		agents:    []place{{"a1", "a1", "x", 16 << 20}},
		receivers: []place{{name: "r1", node: "a1"}},
		deliveries: []parcel{
			{name: "object-1", size: 200_000}, {name: "object-2", size: 200_000}, {name: "stream-3", size: 100_000, stream: true},
		},
	}
	inWorldAt(t, dir, s, func(*world) {}, func(w *world) {
		object, another, stream := s.deliveries[0], s.deliveries[1], s.deliveries[2]
		w.deliverAs(object, sdk.Received)
		if _, err := w.afterCut(disk, object); !os.IsNotExist(err) {
			t.Errorf("what nobody synced is on the disk: %v: nothing is shown", err)
		}
		w.deliverAs(object, sdk.Durable)
		w.deliverAs(another, sdk.Durable)
		w.deliverAs(stream, sdk.Durable)
		for _, p := range s.deliveries {
			if differs, err := w.afterCut(disk, p); err != nil || differs != nil {
				t.Errorf("after a power cut, of %s: %v, %v", p.name, err, differs)
			}
		}
	})
}

// deliverAs sends something, asks for a level of acknowledgement, and checks that it is reached.
func (w *world) deliverAs(p parcel, level sdk.AckLevel) {
	w.Helper()
	path := w.write(p)
	options := sdk.SendOptions{Name: p.name, AckLevel: level}
	out, err := w.sendWith(context.Background(), p, path, options)
	w.must(err)
	ended := w.awaitEnd(out.ID(), endTime)
	w.checkOutcome(p, ended)
	if ended.State != sdk.DeliveryComplete {
		w.Errorf("the delivery is %s", standing(ended))
	}
}

// afterCut returns how what a member has on its disk if the power is cut now differs from what was sent, or an error if
// it has nothing.
func (w *world) afterCut(disk *testdisk.Disk, p parcel) (differs, err error) {
	w.Helper()
	dir, done := disk.Cut(w)
	defer done()
	if _, err := os.Stat(filepath.Join(dir, p.name)); err != nil {
		return nil, err
	}
	return same(filepath.Join(w.dir, senderHost, p.name), filepath.Join(dir, p.name)), nil
}
