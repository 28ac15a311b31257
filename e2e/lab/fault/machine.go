package fault

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
)

// Freeze stops a process as if its machine hung.
type Freeze struct{ Process *lab.Process }

// Begin implements Fault.
func (f *Freeze) Begin() error { return f.Process.Stop() }

// Proof implements Fault.
func (f *Freeze) Proof() error {
	state, err := f.Process.State()
	if err != nil {
		return err
	}
	if state != lab.Stopped {
		return noEffect(f, "the process is in state %c", state)
	}
	return nil
}

// End implements Fault.
func (f *Freeze) End() error { return f.Process.Continue() }

func (f *Freeze) String() string { return "freeze of " + f.Process.Name }

// Kill ends a process at once. It cannot be undone.
type Kill struct{ Process *lab.Process }

// Begin implements Fault.
func (f *Kill) Begin() error { return f.Process.Kill() }

// Proof implements Fault.
func (f *Kill) Proof() error {
	select {
	case <-f.Process.Ended():
		return nil
	default:
		return noEffect(f, "the process runs")
	}
}

// End implements Fault.
func (f *Kill) End() error { return nil }

func (f *Kill) String() string { return "kill of " + f.Process.Name }

// FullDisk leaves no byte free on a disk.
type FullDisk struct {
	Disk *lab.Disk
	Name string // of the file that takes the space; "ballast" if empty
}

func (f *FullDisk) ballast() string {
	if f.Name == "" {
		return f.Disk.Outside("ballast")
	}
	return f.Disk.Outside(f.Name)
}

// Begin implements Fault.
func (f *FullDisk) Begin() error {
	file, err := os.Create(f.ballast())
	if err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	defer file.Close()
	block := make([]byte, link.MiB)
	for len(block) > 0 {
		n, err := file.Write(block)
		switch {
		case errors.Is(err, unix.ENOSPC):
			block = block[:(len(block)-n)/2]
		case err != nil:
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return nil
}

// Proof implements Fault: one more page is refused.
func (f *FullDisk) Proof() error {
	probe := f.ballast() + ".probe"
	defer os.Remove(probe)
	err := os.WriteFile(probe, make([]byte, os.Getpagesize()), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		return noEffect(f, "a write was answered by %v", err)
	}
	return nil
}

// End implements Fault.
func (f *FullDisk) End() error { return os.Remove(f.ballast()) }

func (f *FullDisk) String() string { return "full disk" }

// SlowDisk makes writes and syncs of a slowable disk slow.
type SlowDisk struct {
	Disk *lab.Disk
	Rate link.Rate     // of writes
	Sync time.Duration // of one sync
}

// Begin implements Fault.
func (f *SlowDisk) Begin() error { return f.Disk.Slow(f.Rate, f.Sync) }

// Proof implements Fault: a write and a sync take as long as they must.
func (f *SlowDisk) Proof() error {
	const size = 64 * link.KiB
	probe := f.Disk.Outside(".probe")
	defer os.Remove(probe)
	start := time.Now()
	if err := writeSynced(probe, int(size)); err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	if took, least := time.Since(start), f.Rate.Time(size)+f.Sync; took < least {
		return noEffect(f, "a write of %d bytes took %v, less than %v", size, took, least)
	}
	return nil
}

func writeSynced(name string, size int) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, size))
	return errors.Join(err, file.Sync(), file.Close())
}

// End implements Fault.
func (f *SlowDisk) End() error { return f.Disk.Slow(0, 0) }

func (f *SlowDisk) String() string { return fmt.Sprintf("slow disk of %v", f.Rate) }
