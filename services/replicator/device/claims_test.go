package device_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// A device that is whole is complete though the disk is full on which it is noted how much it has: from the beginning, later, or just
// before it is complete. Nothing wrong is noted of it.
func TestFullDiskOfWhatIsNoted(t *testing.T) {
	const size = 2 << 20
	for name, after := range map[string]int{"from the beginning": 0, "later": size / 2, "at the end": size} {
		t.Run(name, func(t *testing.T) {
			d, state := newDisk(t, size), testdisk.Memory(t, "size=64k")
			device.ClaimOften(t, 100<<10)
			content := make([]byte, size)
			for i := range content {
				content[i] = byte(i % 251)
			}
			var hash digest.Hash
			_, _ = hash.Write(content)
			root := object.Root(hash.Sum())
			info := object.Info{Name: "image", Kind: object.File, Length: size, Mode: 0o600}
			target := device.Target{Path: d.device, Allowed: []string{d.device}, State: state}
			former, err := device.Land(t.Context(), target, info) // of which it is noted that all is there
			if err == nil {
				_, err = former.Write(make([]byte, size))
			}
			var zeros digest.Hash
			_, _ = zeros.Write(make([]byte, size))
			if err == nil {
				err = former.Complete(size, object.Root(zeros.Sum()), true)
			}
			if err != nil {
				t.Fatal(err)
			}
			fill := func() { testdisk.Fill(t, filepath.Join(state, "full")) }
			if after == 0 {
				fill()
			}
			landing, err := device.Land(t.Context(), target, info)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := landing.Write(content[:after]); err != nil {
				t.Fatal(err)
			}
			if after > 0 {
				fill()
			}
			if _, err := landing.Write(content[after:]); err != nil {
				t.Fatal(err)
			}
			if err := landing.Complete(size, root, true); err != nil {
				t.Fatal(err)
			}
			if d.onDisk(t, size) != root || !errors.Is(landing.Unnoted(), unix.ENOSPC) {
				t.Errorf("the disk has something else, or nothing is said: %v", landing.Unnoted())
			}
			offset, claimed, has := device.ClaimOf(d.number, state, info)
			if has && offset > 0 && d.onDisk(t, offset) != claimed {
				t.Errorf("%d bytes are noted to have the root %v", offset, claimed)
			}
			if left, err := filepath.Glob(filepath.Join(state, "*.new")); err != nil || len(left) > 0 {
				t.Errorf("left are %v: %v", left, err)
			}
			if err := os.Remove(filepath.Join(state, "full")); err != nil {
				t.Fatal(err)
			}
		})
	}
}
