package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/groupcast/groupcast/internal/pulse"
)

// maxProblems is how many of a tree's problems are named.
const maxProblems = 20

// survey is what a walk over a tree has found.
type survey struct {
	root     *os.Root
	top      identity
	entries  []entry
	seen     []identity
	sparse   []bool // which files have fewer blocks than their lengths need
	newest   time.Time
	pieces   pieceSize // of which entries have hashes
	problems []error
	unnamed  int // problems beyond maxProblems
}

// errTooMany ends a walk.
var errTooMany = fmt.Errorf("%w: more than %d entries", ErrTable, MaxEntries)

// walk looks at all files and directories of a tree, in the order of its table, until ctx is done.
func walk(ctx context.Context, root *os.Root) (*survey, error) {
	s := &survey{root: root}
	err := fs.WalkDir(root.FS(), ".", func(path string, found fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pulse.Of(ctx).Beat()
		return s.visit(path, found, err)
	})
	if err != nil {
		return nil, err
	}
	if s.unnamed > 0 {
		s.problems = append(s.problems, fmt.Errorf("and %d more", s.unnamed))
	}
	return s, errors.Join(s.problems...)
}

func (s *survey) problem(path string, err error) {
	if len(s.problems) == maxProblems {
		s.unnamed++
		return
	}
	var named *fs.PathError
	if !errors.As(err, &named) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	s.problems = append(s.problems, err)
}

// visit is called for each directory and file; for a directory that cannot be
// read a second time, with an error.
func (s *survey) visit(path string, found fs.DirEntry, err error) error {
	if err != nil && path == "." {
		return err
	}
	if err == nil && path != "." {
		err = checkPath(path)
	}
	if err == nil {
		err = s.take(path, found)
	}
	switch {
	case errors.Is(err, errTooMany):
		return err
	case err != nil:
		s.problem(path, err)
		if found != nil && found.IsDir() {
			return fs.SkipDir
		}
	}
	return nil
}

func (s *survey) take(path string, found fs.DirEntry) error {
	if len(s.entries) == MaxEntries {
		return errTooMany
	}
	info, err := s.look(path, found)
	if err != nil {
		return err
	}
	if info.ModTime().After(s.newest) {
		s.newest = info.ModTime()
	}
	if path == "." {
		s.top = identify(info)
		return nil
	}
	e := entry{path: path, kind: Directory, mode: info.Mode().Perm()}
	if !info.IsDir() {
		e.kind, e.size = File, uint64(info.Size())
	}
	s.found(e, identify(info), isSparse(info))
	return nil
}

func (s *survey) found(e entry, seen identity, isSparse bool) {
	s.entries, s.seen, s.sparse = append(s.entries, e), append(s.seen, seen), append(s.sparse, isSparse)
}

// look returns what a directory or file is; of a file it makes sure that it can
// be read.
func (s *survey) look(path string, found fs.DirEntry) (fs.FileInfo, error) {
	switch mode := found.Type(); {
	case mode.IsDir():
		info, err := s.root.Lstat(path)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%w: no directory any more", ErrChanged)
		}
		return info, err
	case mode.IsRegular():
		file, info, err := openPlain(s.root, path, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		return info, file.Close()
	default:
		return nil, fmt.Errorf("it is %s: only regular files and directories are delivered", describe(mode))
	}
}

// table returns the head for what was found, after the same checks that a
// receiver makes.
func (s *survey) table() ([]byte, *layout, error) {
	head := appendHead(nil, s.entries, s.pieces)
	if len(head)-headSize > MaxTable {
		return nil, nil, fmt.Errorf("%w: %d bytes: want at most %d", ErrTable, len(head)-headSize, MaxTable)
	}
	known, err := parseHead(head, s.length(uint64(len(head))))
	return head, known, err
}

// length returns that of the object with a head of this size.
func (s *survey) length(head uint64) uint64 {
	for i := range s.entries {
		head += s.entries[i].size
	}
	return head
}
