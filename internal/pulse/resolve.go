package pulse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrDangling says that a link in a path leads to nothing.
var ErrDangling = errors.New("is a link to nothing")

// mostLinks is how many links are followed in a path: as many as the kernel follows.
const mostLinks = 40

// Resolve follows the links in an absolute path. Before each step enter is told which disk it asks, so that it is known which one does
// not answer; an error of enter ends it. Of a path of which only the beginning exists it returns fs.ErrNotExist and what it leads to.
func Resolve(path string, enter func(Disk) error) (real string, err error) {
	rest, ofLink := parts(filepath.Clean(path)), 0 // the first so many are of a link
	for links := 0; len(rest) > 0; {
		next, isOfLink := filepath.Join("/", real, rest[0]), ofLink > 0
		rest, ofLink = rest[1:], max(ofLink-1, 0)
		if err := enter(DiskOf(next)); err != nil {
			return "", err
		}
		to, err := linkAt(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) && isOfLink:
			return "", fmt.Errorf("%s %w: %w", path, ErrDangling, err)
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(next, filepath.Join(rest...)), err
		case err != nil:
			return "", err
		case to == "":
			real = next
			continue
		}
		if links++; links > mostLinks {
			return "", &fs.PathError{Op: "follow links", Path: path, Err: unix.ELOOP}
		}
		if filepath.IsAbs(to) {
			real = "/"
		}
		rest, ofLink = append(parts(to), rest...), ofLink+len(parts(to))
	}
	return filepath.Join("/", real), nil
}

// linkAt returns where a link leads; empty if there is something else.
func linkAt(path string) (to string, err error) {
	there, err := os.Lstat(path)
	if err != nil || there.Mode()&fs.ModeSymlink == 0 {
		return "", err
	}
	return os.Readlink(path)
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}
