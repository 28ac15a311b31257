// Package sink is where the bytes of an upload go on the gatherer's disk: below its client's directory, as a whole file that
// appears in one step, or as the segments of a stream. What is committed is on disk, and is never asked for again.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/link"
	"github.com/groupcast/groupcast/internal/object"
)

// Sink takes the bytes of one upload. Many goroutines may call Place and GoesOn, and write in any order. One goroutine calls the other
// methods, except that another may be in Commit while it calls Landed and Due.
type Sink interface {
	// Offset is where the bytes begin that are still wanted.
	Offset() uint64
	// GoesOn reports whether a client that comes back can go on with this sink. It cannot with a stream, which is opened anew behind what
	// is committed, nor if the file was taken away meanwhile.
	GoesOn() bool
	// Place returns where the bytes from an offset on go, and how many fit there.
	Place(offset uint64) (to link.Place, most int64, err error)
	// Landed takes note that all before an offset was written.
	Landed(upTo uint64) error
	// Due says when what has landed is to be committed; zero if nothing waits.
	Due() time.Time
	// Commit brings what has landed to the disk, and returns up to where all is there.
	Commit() (committed uint64, err error)
	// Finish compares what has come with what was sent, makes it durable, and returns where it is. After object.ErrDamaged all of it
	// has to be sent again.
	Finish(length uint64, root object.Root) (path string, err error)
	// Placed returns, after Finish, the files that have appeared whole, for each of which a command may be run. They are held until the
	// sink is closed.
	Placed() []Placed
	// Close ends the sink, and keeps what has landed.
	Close() error
}

// Placed is a file that has appeared.
type Placed struct {
	Path string // below its client's directory, with slashes
	File string
}

// Spec says what an upload is.
type Spec struct {
	Client string
	// Path is below the client's directory, with slashes.
	Path   string
	Stream bool
	// Bundle is whether the file is a bundle of many: each of them goes below the directory that Path is in.
	Bundle bool
	Info   object.Info // of a file; its name is the path's last element
}

// Open returns the sink of an upload below a directory. A path has at most one at a time.
func Open(ctx context.Context, dir string, spec Spec) (Sink, error) {
	to, err := open(ctx, dir, spec)
	if err != nil {
		return nil, err
	}
	return bounded{to}, nil
}

func open(ctx context.Context, dir string, spec Spec) (Sink, error) {
	below, err := spec.below()
	if err != nil {
		return nil, err
	}
	if spec.Bundle {
		return openBundle(ctx, dir, spec)
	}
	parent, err := makeBelow(dir, below)
	if err != nil {
		return nil, fmt.Errorf("make room for %s: %w", spec.Path, err)
	}
	if !spec.Stream {
		return openFile(ctx, parent, spec)
	}
	if parent, err = makeDirectory(parent, spec.Info.Name+gathered.StreamSuffix); err != nil {
		return nil, fmt.Errorf("make room for %s: %w", spec.Path, err)
	}
	return openStream(parent)
}

// makeBelow makes nested directories.
func makeBelow(parent string, below []string) (string, error) {
	for _, name := range below {
		var err error
		if parent, err = makeDirectory(parent, name); err != nil {
			return "", err
		}
	}
	return parent, nil
}

// makeDirectory makes a directory that outlives a power cut, or sees to it that one that is there does: whoever made it may have
// been killed before it did, or not be that far yet.
func makeDirectory(parent, name string) (string, error) {
	path := filepath.Join(parent, name)
	err := os.Mkdir(path, 0o750)
	switch isThere := errors.Is(err, fs.ErrExist); {
	case err != nil && !isThere:
		return "", err
	case isThere && lasting.has(path):
		return path, nil
	}
	if err := object.SyncDirectory(parent); err != nil {
		return "", err
	}
	lasting.add(path)
	return path, nil
}

// lasting are directories that are known to outlive a power cut: many files may go into one, and a sync takes long.
var lasting = directories{known: make(map[string]bool)}

// mostLasting is how many are remembered.
const mostLasting = 4096

type directories struct {
	mu    sync.Mutex
	known map[string]bool
}

func (d *directories) has(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[path]
}

func (d *directories) add(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= mostLasting {
		clear(d.known) // those in use are soon back
	}
	d.known[path] = true
}

// isRemoved reports whether an open file has no name any more.
func isRemoved(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink == 0
}

// below returns the names of the directories that an upload goes into.
func (s Spec) below() ([]string, error) {
	if err := gathered.CheckPath(s.Path, s.Stream); err != nil {
		return nil, err
	}
	if err := object.CheckName(s.Client); err != nil {
		return nil, fmt.Errorf("%w: client %.200q: %w", gathered.ErrPath, s.Client, err)
	}
	if s.Stream && s.Bundle {
		return nil, fmt.Errorf("%w: %.200q is a stream, which holds no files", gathered.ErrPath, s.Path)
	}
	elements := strings.Split(s.Path, "/")
	return append([]string{s.Client}, elements[:len(elements)-1]...), nil
}
