package device

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
)

// ErrRefused says that a device is not written to.
var ErrRefused = errors.New("device refused")

// errGone says that a device had the bytes before.
var errGone = errors.New("the device is gone, or smaller than it was")

// explained says what is wrong with a device that was large enough when it was opened: to the kernel one that was pulled out has
// no bytes, so a write returns that there is no space, and a read that the device ends.
func explained(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, io.EOF) {
		return errGone
	}
	return err
}

// Target is a device that may be overwritten.
type Target struct {
	Path string
	// Allowed are the devices that may be, as paths; links are followed.
	Allowed []string
	// Serial is that of the device that is meant; empty does not ask.
	Serial string
	// State is the directory where it is kept how far an interrupted replication is.
	State string
	// Anew has what is there of an interrupted replication be of no use.
	Anew bool
}

// IsDevice reports whether a path is that of a block device.
func IsDevice(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0
}

// Check says why nothing can be written to the device, as far as that is known before anything comes.
func (t Target) Check() error {
	file, err := t.open(object.Info{Kind: object.File})
	if err != nil {
		return err
	}
	return file.Close() // nothing was done with it
}

// open opens the device if it may be overwritten with an object.
func (t Target) open(info object.Info) (*held, error) {
	if info.Kind != object.File {
		return nil, fmt.Errorf("%w: %s gets the bytes of a file or a device, not a directory", ErrRefused, t.Path)
	}
	if err := t.isAllowed(); err != nil {
		return nil, err
	}
	file, isOurs, err := hold(t.Path)
	if isOurs && errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%w: %s is still written to here", object.ErrBusy, t.Path)
	}
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%w: %s is in use%s: unmount it, or name another", ErrRefused, t.Path, mountedAt(t.Path))
	}
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	if err := t.check(file.File, info.Length); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (t Target) isAllowed() error {
	real, err := filepath.EvalSymlinks(t.Path)
	if err != nil {
		return fmt.Errorf("open device: %w", err)
	}
	allowed := slices.ContainsFunc(t.Allowed, func(one string) bool {
		other, err := filepath.EvalSymlinks(one)
		return err == nil && other == real
	})
	switch {
	case !allowed:
		return fmt.Errorf("%w: %s is not among the devices that may be overwritten: allow it by name", ErrRefused, t.Path)
	case !IsDevice(real):
		return fmt.Errorf("%w: %s is no block device", ErrRefused, t.Path)
	}
	return nil
}

// check looks at the device that is open, not at what its path leads to.
func (t Target) check(file *os.File, length uint64) error {
	readOnly, err := unix.IoctlGetInt(int(file.Fd()), unix.BLKROGET)
	if err != nil {
		return fmt.Errorf("ask whether %s is read-only: %w", t.Path, err)
	}
	if readOnly != 0 {
		return fmt.Errorf("%w: %s is read-only", ErrRefused, t.Path)
	}
	size, err := sizeOf(file)
	if err != nil {
		return err
	}
	if size < length {
		return fmt.Errorf("%w: %s has %d bytes and %d are needed: name a larger one", ErrRefused, t.Path, size, length)
	}
	if t.Serial == "" {
		return nil
	}
	serial, err := serialOf(file)
	if err != nil {
		return fmt.Errorf("%w: %s may be another device than the one with the serial number %q that was asked for: its own is not known: %w", ErrRefused, t.Path, t.Serial, err)
	}
	if serial != t.Serial {
		return fmt.Errorf("%w: %s has the serial number %q and %q was asked for: it is another device", ErrRefused, t.Path, serial, t.Serial)
	}
	return nil
}

// sizeOf is how many bytes a device has.
func sizeOf(file *os.File) (uint64, error) {
	end, err := file.Seek(0, 2)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", file.Name(), err)
	}
	return uint64(end), nil
}

// numberOf is "major:minor" of a device.
func numberOf(file *os.File) (string, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return "", fmt.Errorf("look at %s: %w", file.Name(), err)
	}
	return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)), nil
}

// mount is where a device is mounted, and whether its file system can be written to: elsewhere, if not there.
type mount struct {
	at       string
	writable bool
}

// mounts returns where a device is mounted.
func mounts(number string) (found []mount) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// "36 35 98:0 /root /at ro,noatime ... - ext4 /dev/sdb rw,errors=continue": the first options are this mount's alone,
		// which a service's sandbox and a read-only volume of a container set; the last are the file system's.
		here, system, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(here); len(fields) > 5 && fields[2] == number {
			options := system[strings.LastIndexByte(system, ' ')+1:]
			found = append(found, mount{fields[4], options != "ro" && !strings.HasPrefix(options, "ro,")})
		}
	}
	return found
}

// Asking whether a device is claimed claims it for a moment: goroutines of this process ask one after the other, and
// another that just looks at it is waited for.
var asking sync.Mutex

const (
	askMost  = 10
	askPause = 30 * time.Millisecond
)

// isClaimed reports whether somebody has a device for itself: the kernel then gives it to nobody else.
func isClaimed(file *os.File) bool {
	asking.Lock()
	defer asking.Unlock()
	for range askMost {
		other, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), os.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
		if err == nil {
			_ = other.Close() // nothing was written
		}
		if !errors.Is(err, unix.EBUSY) {
			return false
		}
		time.Sleep(askPause)
	}
	return true
}

// mountedAt says where a device is mounted, if it is.
func mountedAt(path string) string {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return ""
	}
	for _, one := range mounts(fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))) {
		return ", mounted at " + one.at
	}
	return ""
}
