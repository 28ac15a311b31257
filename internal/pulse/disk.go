package pulse

import (
	"bufio"
	"cmp"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Disk is what a path is on: a file system that is mounted, or a block device.
type Disk struct {
	// At is where it is mounted, or the path of the device.
	At     string
	number string // "major:minor", by which the kernel knows it; one of major 0 is no device's
	kind   string // of the file system
	source string
}

// ID tells a disk from all others for as long as the kernel does anything there, also when it is not mounted at that place any more.
func (d Disk) ID() string { return cmp.Or(d.number, d.At) }

// DiskOf returns what a path is on, by the path's text alone: nothing on it is touched, for it may not answer. Links in it are not
// followed: see Resolve.
func DiskOf(path string) Disk {
	path = filepath.Clean(path)
	if strings.HasPrefix(path, "/dev/") { // which is in memory
		if number, isKnown := numberOf(path); number != "" || !isKnown {
			return Disk{At: path, number: number}
		}
	}
	return mountOf(path)
}

// mountOf returns the file system that a path is on.
func mountOf(path string) Disk {
	of, longest := Disk{At: path}, 0
	for mounted := range mounts() {
		if isIn(path, mounted.At) && len(mounted.At) >= longest {
			of, longest = mounted, len(mounted.At)
		}
	}
	return of
}

// MountIn returns where something is mounted at a path or below it; empty if nothing is.
func MountIn(path string) string {
	for mounted := range mounts() {
		if isIn(mounted.At, path) {
			return mounted.At
		}
	}
	return ""
}

func isIn(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// mounts returns all that is mounted.
func mounts() iter.Seq[Disk] {
	return func(yield func(Disk) bool) {
		file, err := os.Open("/proc/self/mountinfo")
		if err != nil {
			return
		}
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			// "36 35 98:0 /root /at rw,noatime ... - ext4 /dev/sdb rw", with what is no plain character in octal
			here, system, _ := strings.Cut(lines.Text(), " - ")
			fields, kind := strings.Fields(here), strings.Fields(system)
			if len(fields) < 5 || len(kind) < 2 {
				continue
			}
			if !yield(Disk{plain.Replace(fields[4]), fields[2], kind[0], plain.Replace(kind[1])}) {
				return
			}
		}
	}
}

var plain = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Activity counts what the kernel says that a disk has done, for whomever; it stays 0 where that is not told. While it
// grows a call that does not return may wait for what others write.
func (d Disk) Activity() uint64 {
	switch {
	case strings.HasPrefix(d.kind, "nfs"):
		if mountOf(d.At).number != d.number {
			return 0 // something else is mounted there now, or nothing
		}
		return ofNFS(d.At)
	case strings.HasPrefix(d.number, "0:") && strings.HasPrefix(d.source, "/dev/"): // Btrfs has several, and numbers of its own
		number, _ := numberOf(d.source)
		return ofDevice(number)
	}
	return ofDevice(d.number)
}

// numberOf is "major:minor" of a block device, whose file is in memory: empty if something else has the path. isKnown is false if nothing has it.
func numberOf(device string) (number string, isKnown bool) {
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		return "", false
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", true
	}
	return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)), true
}

// ofDevice sums what a block device has read, written, discarded and flushed.
func ofDevice(number string) (sum uint64) {
	text, err := os.ReadFile(filepath.Join("/sys/dev/block", number, "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	for _, i := range []int{0, 2, 4, 6, 11, 15} {
		sum += field(fields, i)
	}
	return sum
}

// ofNFS sums what a server of files has given and taken.
func ofNFS(at string) (sum uint64) {
	file, err := os.Open("/proc/self/mountstats")
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	isIt := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// "device server:/path mounted on /at with fstype nfs4 statvers=1.1", and below it "bytes:" with what programs have read and
		// written, twice, and what the server has
		if before, after, is := strings.Cut(lines.Text(), " mounted on "); is && strings.HasPrefix(before, "device ") {
			mounted, _, _ := strings.Cut(after, " with fstype ")
			isIt = plain.Replace(mounted) == at
		}
		if fields := strings.Fields(lines.Text()); isIt && len(fields) > 0 && fields[0] == "bytes:" {
			sum = field(fields, 5) + field(fields, 6)
		}
	}
	return sum
}

// field is a number among others; 0 if there are not as many.
func field(fields []string, i int) uint64 {
	if i >= len(fields) {
		return 0
	}
	number, _ := strconv.ParseUint(fields[i], 10, 64)
	return number
}
