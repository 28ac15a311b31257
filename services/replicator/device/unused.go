package device

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/groupcast/groupcast/internal/object"
)

const (
	// leastUnused is what is too little to be left out: it is read and sent.
	leastUnused = 64 << 10
	// mostUnused is how many ranges are left out; what comes after them is sent.
	mostUnused = 1 << 16
)

// OpenUsed opens a device like OpenSource. What the file system on it does not use is
// taken for zeros.
func OpenUsed(ctx context.Context, path string) (*Source, error) {
	if !IsDevice(path) {
		return nil, fmt.Errorf("%w: %s is no block device, so no file system tells what of it is used", ErrRefused, path)
	}
	s, err := OpenSource(path)
	if err != nil {
		return nil, err
	}
	if s.unused, err = unused(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("find what of %s is used: %w", path, err), s.Close())
	}
	s.info.Time = usedTime
	return s, nil
}

// unused asks partclone, which knows file systems, what one does not use.
func unused(ctx context.Context, path string) ([]object.Hole, error) {
	name, err := fileSystem(ctx, path)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("partclone." + name)
	if err != nil {
		return nil, fmt.Errorf("%w: partclone.%s is not installed here: install partclone, or replicate all of it", ErrRefused, name)
	}
	dir, err := os.MkdirTemp("", "groupcast-unused-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	domain := filepath.Join(dir, "domain")
	command := exec.CommandContext(ctx, program, "--domain", "--source", path, "--output", domain, "--logfile", filepath.Join(dir, "log"))
	if said, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(program), err, lastLine(said))
	}
	text, err := os.ReadFile(domain)
	if err != nil {
		return nil, err
	}
	return parseDomain(text)
}

// nothingKnown is with what blkid ends that knows nothing of what is there.
const nothingKnown = 2

// fileSystem asks blkid which file system is on a device.
func fileSystem(ctx context.Context, path string) (name string, err error) {
	kind, err := exec.CommandContext(ctx, "blkid", "--probe", "--output", "value", "--match-tag", "TYPE", path).Output()
	var ended *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%w: blkid is not installed here: install util-linux, or replicate all of it", ErrRefused)
	case errors.As(err, &ended) && ended.ExitCode() != nothingKnown: // busybox has one that knows no such flags
		return "", fmt.Errorf("%w: blkid: %w: %s: see that it is that of util-linux, or replicate all of it", ErrRefused, err, lastLine(ended.Stderr))
	}
	name = strings.TrimSpace(string(kind))
	if err != nil || name == "" || strings.ContainsAny(name, "/ \n") {
		return "", fmt.Errorf("%w: blkid knows no file system there: replicate all of it", ErrRefused)
	}
	return name, nil
}

// lastLine is where programs say why they end.
func lastLine(said []byte) []byte {
	said = bytes.TrimSpace(said)
	return said[bytes.LastIndexAny(said, "\r\n")+1:]
}

// parseDomain reads a map as ddrescue has them: after the comments a line that says how
// far its maker was, and then position, size and "+", which is used, or "?", in a line for
// each range.
func parseDomain(text []byte) (holes []object.Hole, err error) {
	hasStatus, end := false, uint64(0)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !hasStatus {
			hasStatus = true
			continue
		}
		var at, size uint64
		var status string
		if _, err := fmt.Sscanf(line, "%v %v %s", &at, &size, &status); err != nil {
			return nil, fmt.Errorf("line %q of partclone's map: %w", line, err)
		}
		if at != end || at+size < at || status != "+" && status != "?" {
			return nil, fmt.Errorf("line %q of partclone's map: want a range from %#x on that is used or not", line, end)
		}
		end = at + size
		if status == "?" && size >= leastUnused && len(holes) < mostUnused {
			holes = append(holes, object.Hole{First: at, End: end})
		}
	}
	if end == 0 {
		return nil, errors.New("partclone's map is empty")
	}
	return holes, nil
}
