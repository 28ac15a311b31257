package device_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// disk is a loop device. Its file has what a disk would have after a power cut: what was written
// to the device and not synced is in the kernel's memory alone.
type disk struct{ device, file, number string }

func newDisk(t *testing.T, size int64) *disk {
	t.Helper()
	d := &disk{file: filepath.Join(t.TempDir(), "disk")}
	d.device = testdisk.Loop(t, d.file, size)
	file, err := os.Open(d.device)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if d.number, err = device.NumberOf(file); err != nil {
		t.Fatal(err)
	}
	return d
}

// onDisk is the root of the first bytes as they would be after a power cut.
func (d *disk) onDisk(t *testing.T, length uint64) object.Root {
	t.Helper()
	file, err := os.Open(d.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var hash digest.Hash
	if _, err := io.Copy(&hash, io.LimitReader(file, int64(length))); err != nil {
		t.Fatal(err)
	}
	return object.Root(hash.Sum())
}

// C51: the power is cut at any moment: what is claimed to be on a device is there. C50: it is cut just after
// COMPLETE: all of it is.
func TestC50C51PowerCut(t *testing.T) {
	const size = 4 << 20
	d, state := newDisk(t, size), t.TempDir()
	device.ClaimOften(t, 300<<10)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	var hash digest.Hash
	_, _ = hash.Write(content)
	root := object.Root(hash.Sum())
	info := object.Info{Name: "image", Kind: object.File, Length: size, Mode: 0o600}
	target := device.Target{Path: d.device, Allowed: []string{d.device}, State: state}
	landing, err := device.Land(t.Context(), target, info)
	if err != nil {
		t.Fatal(err)
	}
	claims, looks, last := 0, 0, uint64(0)
	for rest := content; len(rest) > 0; {
		n, err := landing.Write(rest[:min(len(rest), 1+random.IntN(20<<10))])
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
		for isFirst := true; isFirst || claims < (size-len(rest))>>20; isFirst = false { // one in each MiB at least
			looks++
			offset, claimed, has := device.ClaimOf(d.number, state, info)
			if !has || offset == last {
				continue
			}
			claims, last = claims+1, offset
			if d.onDisk(t, offset) != claimed {
				t.Fatalf("%d bytes are claimed, and the disk has others", offset)
			}
		}
	}
	if err := landing.Complete(size, root, true); err != nil {
		t.Fatal(err)
	}
	if d.onDisk(t, size) != root {
		t.Error("it is complete, and the disk has something else")
	}
	t.Logf("%d claims in %d looks", claims, looks)
	wantFound(t, target, info, root)
}

// wantFound wants the device to be known to have had the object; changed, it has another root, and it lands anew.
func wantFound(t *testing.T, target device.Target, info object.Info, root object.Root) {
	t.Helper()
	for _, isChanged := range []bool{false, true} {
		found, err := device.Find(target, info)
		if err != nil || found == nil {
			t.Fatalf("found %v: %v", found, err)
		}
		got, there, err := found.Root(t.Context())
		if err != nil || !there || (got == root) == isChanged {
			t.Errorf("it has root %v, want %v (changed: %v): %v, %v", got, root, isChanged, there, err)
		}
		if err := found.Close(); err != nil {
			t.Error(err)
		}
		file, err := os.OpenFile(target.Path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteAt([]byte("something else"), 12345)
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	landing, err := device.Land(t.Context(), target, info)
	if err != nil || landing.Offset() != 0 {
		t.Fatalf("it lands from %d on: %v", landing.Offset(), err)
	}
	if err := landing.Remove(); err != nil {
		t.Error(err)
	}
	other := info
	other.Length--
	if found, err := device.Find(target, other); found != nil || err != nil {
		t.Errorf("of another object, %v is found: %v", found, err)
	}
	if found, err := device.Find(target, info); found != nil || err != nil {
		t.Errorf("overwritten, %v is found: %v", found, err)
	}
}
