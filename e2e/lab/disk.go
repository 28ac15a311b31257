package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/e2e/lab/link"
)

// DiskPath is where programs on a host find its disk.
const DiskPath = "/mnt"

// Disk is a file system of limited size, in memory, that only one host sees.
type Disk struct {
	host    *Host
	outside string // the same file system, for this process
	pace    pace
	server  unmounter // of a slowable disk
	beneath *os.File
}

type unmounter interface {
	Unmount() error
	Wait()
}

// Disk mounts a disk on this host, at DiskPath. A host can have one disk.
func (h *Host) Disk(size link.Bytes) (*Disk, error) { return h.disk(size, false) }

// SlowableDisk is a Disk that Slow can slow down. This process serves it, so even its full speed is limited by that.
func (h *Host) SlowableDisk(size link.Bytes) (*Disk, error) { return h.disk(size, true) }

func (h *Host) disk(size link.Bytes, slowable bool) (*Disk, error) {
	if h.space == nil {
		return nil, fmt.Errorf("mount a disk: host %s is not running", h.name)
	}
	if h.mounted != nil {
		return nil, fmt.Errorf("mount a disk: host %s has one", h.name)
	}
	d := &Disk{host: h}
	err := h.space.do(func() error {
		d.outside = fmt.Sprintf("/proc/%d/task/%d/root%s", os.Getpid(), unix.Gettid(), DiskPath)
		options := fmt.Sprintf("size=%d", size)
		if err := unix.Mount("groupcast-lab", DiskPath, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return err
		}
		if slowable {
			return d.serve()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mount a disk on %s: %w", h.name, err)
	}
	h.mounted = d
	return d, nil
}

// Outside is the path by which this process finds a file of the disk. It ends
// with the lab.
func (d *Disk) Outside(name string) string { return filepath.Join(d.outside, name) }

// Inside is the path by which programs on the host find a file of the disk.
func (d *Disk) Inside(name string) string { return filepath.Join(DiskPath, name) }

// Free tells how much more fits.
func (d *Disk) Free() (link.Bytes, error) {
	var state unix.Statfs_t
	if err := unix.Statfs(d.outside, &state); err != nil {
		return 0, fmt.Errorf("ask the disk of %s for its free space: %w", d.host.name, err)
	}
	return link.Bytes(state.Bavail) * link.Bytes(state.Bsize), nil
}

// close ends the server of a slowable disk; the file system itself ends with
// its namespace.
func (d *Disk) close() error {
	if d.server == nil {
		return nil
	}
	err := d.host.space.do(d.server.Unmount)
	if err != nil {
		return fmt.Errorf("unmount the disk of %s: %w", d.host.name, err)
	}
	d.server.Wait()
	return d.beneath.Close()
}
