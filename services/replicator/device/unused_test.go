package device

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/internal/object"
)

// What partclone.ext4 0.3.23 wrote of a new file system of 64 MiB, but for its shortest range.
const domain = `# Domain logfile created by unset_name v0.3.23
# Source: pc.img
# Offset: 0x00000000
# current_pos  current_status
0x04000000     ?
#      pos        size  status
0x00000000  0x00448400  +
0x00448400  0x003B8000  ?
0x00800400  0x00040800  +
0x00840C00  0x007BF800  ?
0x01000400  0x00400000  +
0x01400400  0x00000400  ?
0x01400800  0x02BFF800  +
`

func TestDomain(t *testing.T) {
	holes, err := parseDomain([]byte(domain))
	if err != nil {
		t.Fatal(err)
	}
	if want := []object.Hole{{First: 0x448400, End: 0x800400}, {First: 0x840c00, End: 0x1000400}}; !slices.Equal(holes, want) {
		t.Errorf("holes %x, want %x", holes, want)
	}
}

// What is not understood is not taken for unused.
func TestDomainThatMakesNoSense(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                "",
		"comments":               "# Source: x\n",
		"no range":               "0x0 ?\n",
		"no numbers":             "0x0 ?\nall of it ?\n",
		"another status":         "0x0 ?\n0x0 0x100000 *\n",
		"a gap":                  "0x0 ?\n0x0 0x100000 +\n0x200000 0x100000 ?\n",
		"an overlap":             "0x0 ?\n0x0 0x100000 +\n0x80000 0x100000 ?\n",
		"beyond what is counted": "0x0 ?\n0x0 0x100000 +\n0x100000 0xffffffffffffffff ?\n",
	} {
		if holes, err := parseDomain([]byte(text)); err == nil {
			t.Errorf("%s: holes %x", name, holes)
		}
	}
}

// Where blkid is missing, or is another's, that is said: not that there is no file system.
func TestFileSystemIsNotKnown(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"missing":           {"", "blkid is not installed"},
		"busybox's":         {"echo 'blkid: unrecognized option: probe' >&2; exit 1", "unrecognized option: probe"},
		"nothing there":     {"exit 2", "knows no file system"},
		"a partition table": {"exit 0", "knows no file system"},
	} {
		dir := t.TempDir()
		t.Setenv("PATH", dir)
		if tt.script != "" {
			if err := os.WriteFile(filepath.Join(dir, "blkid"), []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if fs, err := fileSystem(t.Context(), "/dev/sdb"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v", name, fs, err)
		}
	}
}

// What is unused reads as zeros, wherever a read begins and ends.
func TestUnusedReadsAsZeros(t *testing.T) {
	content, name := bytes.Repeat([]byte{1}, 100), filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := &Source{file: file, unused: []object.Hole{{First: 10, End: 20}, {First: 30, End: 31}, {First: 60, End: 100}}}
	for _, hole := range s.unused {
		clear(content[hole.First:hole.End])
	}
	for from := range 100 {
		for to := from + 1; to <= 100; to++ {
			got := make([]byte, to-from)
			if err := s.ReadAt(got, uint64(from)); err != nil || !bytes.Equal(got, content[from:to]) {
				t.Fatalf("from %d to %d: %v (%v), want %v", from, to, got, err, content[from:to])
			}
		}
	}
}
