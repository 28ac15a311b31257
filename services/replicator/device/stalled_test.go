package device_test

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// What waits in memory for a device goes there piece by piece for whoever waits for it, and is all there when it is complete. One that
// nobody waits for any more, for the device did not answer, is not complete, and is kept.
func TestDeviceIsWrittenByBeats(t *testing.T) {
	const size = 24<<20 + 4096
	d, state := newDisk(t, size), t.TempDir()
	device.ClaimOften(t, 3<<20)
	device.LookAtOnce(t)
	random, content := rand.New(rand.NewPCG(1, 1)), make([]byte, size)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	var hash digest.Hash
	_, _ = hash.Write(content)
	root := object.Root(hash.Sum())
	info := object.Info{Name: "image", Kind: object.File, Length: size, Mode: 0o600}
	target := device.Target{Path: d.device, Allowed: []string{d.device}, State: state}
	w := &pulse.Watch{Log: slog.New(slog.DiscardHandler), Patience: time.Millisecond}
	landing, err := device.Land(pulse.In(t.Context(), &w.Pulse), target, info)
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := landing.Ahead(20<<20, content[20<<20:]); !taken || err != nil {
		t.Fatal(err)
	}
	if _, err := landing.Write(content[:20<<20]); err != nil {
		t.Fatal(err)
	}
	if err := landing.Adopt(size - 20<<20); err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	defer close(answer)
	_ = w.Await(t.Context(), "stand", func() error { <-answer; return nil }, func() {})
	if err := landing.Complete(size, root, true); !errors.Is(err, pulse.ErrStalled) {
		t.Error(err)
	}
	if err := landing.Keep(); err != nil {
		t.Error(err)
	}
	if d.onDisk(t, size) != root {
		t.Error("it was kept, and the disk has something else")
	}
	wantFound(t, target, info, root)
}
