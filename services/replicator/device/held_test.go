package device_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/device"
)

// A device that this process has not done with is busy, and waited for where that is wanted; one that somebody else has is refused.
func TestOwnDeviceIsWaitedFor(t *testing.T) {
	d := newDisk(t, 1<<20)
	target := device.Target{Path: d.device, Allowed: []string{d.device}, State: t.TempDir()}
	info := object.Info{Name: "image", Kind: object.File, Length: 1 << 10}
	synctest.Test(t, func(t *testing.T) {
		first, err := device.Land(t.Context(), target, info)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := device.Land(t.Context(), target, info); !errors.Is(err, object.ErrBusy) || errors.Is(err, device.ErrRefused) {
			t.Errorf("while it is written to: %v", err)
		}
		if _, err := device.Find(target, info); !errors.Is(err, object.ErrBusy) {
			t.Errorf("looked at while it is written to: %v", err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, err := device.Await(short, target, info); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited for in vain: %v", err)
		}
		time.AfterFunc(time.Minute, func() {
			if err := first.Keep(); err != nil {
				t.Error(err)
			}
		})
		second, err := device.Await(t.Context(), target, info)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Keep(); err != nil {
			t.Error(err)
		}
	})
	other, err := os.OpenFile(d.device, os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := device.Await(t.Context(), target, info); !errors.Is(err, device.ErrRefused) || errors.Is(err, object.ErrBusy) {
		t.Errorf("while somebody else has it: %v", err)
	}
}
