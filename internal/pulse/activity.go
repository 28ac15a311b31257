package pulse

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is a file system that is mounted.
type Mount struct {
	At     string // where
	number string // "major:minor" of its device; one of major 0 is none
	kind   string
	source string
}

// MountOf returns the file system that a path is on, by the path's text alone: nothing on it is touched, for it may not answer.
func MountOf(path string) (of Mount, isKnown bool) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Mount{}, false
	}
	defer func() { _ = file.Close() }()
	path = filepath.Clean(path)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// "36 35 98:0 /root /at rw,noatime ... - ext4 /dev/sdb rw", with what is no plain character in octal
		here, system, _ := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(here), strings.Fields(system)
		if len(fields) < 5 || len(kind) < 2 {
			continue
		}
		at := plain.Replace(fields[4])
		if isIn := path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/"); isIn && len(at) >= len(of.At) {
			of, isKnown = Mount{at, fields[2], kind[0], plain.Replace(kind[1])}, true
		}
	}
	return of, isKnown
}

var plain = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Activity counts what the kernel says that the disk of a path has done, for whomever; it stays 0 where that is not told. While it
// grows a call that does not return may wait for what others write.
func Activity(path string) uint64 {
	if strings.HasPrefix(path, "/dev/") {
		return ofDevice(numberOf(path))
	}
	of, _ := MountOf(path)
	switch {
	case strings.HasPrefix(of.kind, "nfs"):
		return ofNFS(of.At)
	case strings.HasPrefix(of.number, "0:") && strings.HasPrefix(of.source, "/dev/"): // Btrfs has several, and numbers of its own
		return ofDevice(numberOf(of.source))
	}
	return ofDevice(of.number)
}

// numberOf is "major:minor" of a device, whose file is in memory.
func numberOf(device string) string {
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
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
