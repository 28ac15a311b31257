package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
)

// Source is an object that is sent. Its methods are safe to be used at once.
type Source struct {
	info   Info
	root   *os.Root // the outermost directory, or the one that the file is in
	head   *os.File // in memory; nil of a file
	file   *os.File // the one that is sent, whatever takes its name; nil of a directory
	layout *layout
	seen   []identity // of each entry, when the source was opened
	sparse []bool     // of each entry, too: whether it has holes
	top    identity   // of the file, or the outermost directory
	pulse  *pulse.Pulse

	hashing chan struct{} // holds a token: whoever has it may hash
	known   bool          // guarded by the token, as is sum
	sum     Root
}

// Open looks at all that belongs to an object and will not change from now on.
// It refuses what cannot be delivered, and names up to maxProblems of it: all but
// regular files and directories, names that rules of a table forbid, and what
// cannot be read. A large tree takes a while: it is given up when ctx is done. A pulse in ctx beats with all that is done with the
// source, but for what readers read.
func Open(ctx context.Context, path string) (*Source, error) { return open(ctx, path, nil) }

// OpenHashed opens a directory whose head has the hashes of its files, so that whoever has some of them already can tell. It reads all
// of them, and calls each with how much of all it has read.
func OpenHashed(ctx context.Context, path string, each Reading) (*Source, error) {
	return open(ctx, path, each)
}

// Reading is called with how many bytes were read, of how many.
type Reading func(read, all uint64)

// open opens a directory with a head that has hashes if each is not nil.
func open(ctx context.Context, path string, each Reading) (*Source, error) {
	if path == "" {
		return nil, errors.New("open: the name of what is to be sent is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, bare(err))
	}
	defer func() { _ = root.Close() }()
	source, err := openIn(ctx, root, filepath.Base(path), each)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return source, nil
}

// bare returns what is wrong with a path that is named already.
func bare(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// openIn opens the object of this name in a directory. If it is to have hashes, each is not nil, and it is a directory itself.
func openIn(ctx context.Context, dir *os.Root, name string, each Reading) (*Source, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, bare(err)
	}
	source := newSource()
	source.pulse = pulse.Of(ctx)
	switch {
	case info.IsDir():
		err = source.openDirectory(ctx, dir, name, info, each)
	case each != nil:
		err = fmt.Errorf("it is %s: only what is in a directory is compared", describe(info.Mode()))
	case info.Mode().IsRegular():
		err = source.openFile(dir, name)
	default:
		err = fmt.Errorf("it is %s: only regular files and directories are delivered", describe(info.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

func newSource() *Source {
	s := &Source{hashing: make(chan struct{}, 1)}
	s.hashing <- struct{}{}
	return s
}

func (s *Source) openFile(dir *os.Root, name string) error {
	root, err := dir.OpenRoot(".")
	if err != nil {
		return err
	}
	s.root = root
	file, info, err := openPlain(root, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	s.file = file
	s.info = Info{Name: name, Kind: File, Length: uint64(info.Size()), Mode: info.Mode().Perm(), Time: info.ModTime()}
	s.layout = fileLayout(name, s.info)
	s.top = identify(info)
	s.seen, s.sparse = []identity{s.top}, []bool{true}
	return nil
}

func (s *Source) openDirectory(ctx context.Context, dir *os.Root, name string, info fs.FileInfo, each Reading) error {
	root, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	s.root = root
	survey, err := walk(ctx, root)
	if err != nil {
		return err
	}
	s.top = identify(info)
	if s.top != survey.top {
		return fmt.Errorf("%w: another directory took its place", ErrChanged)
	}
	if each != nil {
		if err := survey.hashPieces(ctx, each); err != nil {
			return err
		}
	}
	return s.adopt(survey, name, info.Mode().Perm())
}

// adopt makes the source what a survey has found.
func (s *Source) adopt(survey *survey, name string, mode fs.FileMode) error {
	head, known, err := survey.table()
	if err != nil {
		return err
	}
	if s.head, err = inMemory(head); err != nil {
		return err
	}
	s.seen, s.sparse, s.layout = survey.seen, survey.sparse, known
	s.info = Info{Name: name, Kind: Directory, Length: known.end, Mode: mode, Time: survey.newest, Hashed: known.pieces > 0}
	return nil
}

// inMemory returns a file that holds these bytes and has no name.
func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("groupcast-head", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "directory head")
	if _, err := file.Write(content); err != nil {
		return nil, errors.Join(fmt.Errorf("write a head of %d bytes to memory: %w", len(content), err), file.Close())
	}
	return file, nil
}

// Info returns what receivers must know.
func (s *Source) Info() Info { return s.info }

// Head is how long a directory's head is, by which receivers know where all that comes after it belongs; none of a file.
func (s *Source) Head() uint64 { return s.layout.head }

// Beside returns the same source for another use at the same time, which has what ctx brings: of a large tree all is there once. It is of no use any
// more once the source is closed, and needs no closing itself.
func (s *Source) Beside(ctx context.Context) *Source {
	beside := newSource()
	beside.info, beside.root, beside.head, beside.file, beside.layout = s.info, s.root, s.head, s.file, s.layout
	beside.seen, beside.sparse, beside.top, beside.pulse = s.seen, s.sparse, s.top, pulse.Of(ctx)
	return beside
}

// Close ends the source. Its readers must be closed before.
func (s *Source) Close() error {
	var errs []error
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	for _, file := range []*os.File{s.head, s.file} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Reader gives the bytes of a source to one user at a time.
type Reader struct {
	source *Source
	mu     sync.Mutex
	cursor cursor
}

// NewReader returns a reader with descriptors of its own.
func (s *Source) NewReader() *Reader { return &Reader{source: s, cursor: s.cursor()} }

// Section returns a file that is positioned so that its next n bytes are the
// object's from offset on. It stays open until the next call. At the end n is
// zero and there is no file.
func (r *Reader) Section(offset uint64) (file *os.File, n int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	length := r.source.info.Length
	if offset >= length {
		if offset > length {
			return nil, 0, fmt.Errorf("section at %d of an object of %d bytes", offset, length)
		}
		return nil, 0, nil
	}
	file, position, left, err := r.cursor.at(r.source.layout, offset)
	if err != nil {
		return nil, 0, err
	}
	if _, err := file.Seek(int64(position), 0); err != nil {
		return nil, 0, err
	}
	return file, int64(left), nil
}

// Close ends the reader.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cursor.close()
}

func (s *Source) cursor() cursor { return cursor{open: s.openEntry} }

// openEntry opens a file of the source again, with a position of its own, if it
// is still what it was.
func (s *Source) openEntry(l *layout, index int) (*os.File, error) {
	switch {
	case index == headIndex:
		return again(s.head)
	case s.file != nil:
		if err := s.Changed(); err != nil {
			return nil, err
		}
		return again(s.file)
	}
	path := l.entries[index].path
	file, info, err := openPlain(s.root, path, os.O_RDONLY)
	if err != nil {
		return nil, changedIfGone(path, err)
	}
	if identify(info) != s.seen[index] {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrChanged, path), file.Close())
	}
	return file, nil
}

// again opens a file once more, with a position of its own, whether or not it has a name.
func again(file *os.File) (*os.File, error) {
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
}

func changedIfGone(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is gone", ErrChanged, path)
	}
	return err
}

// Changed returns an error if a directory, or what is in it, is another, or in another state, than
// when the source was opened; of a file, whether it may have been written to. That it is removed, or another
// renamed over it, does not change what is read from it. What else changes its times may be a write.
func (s *Source) Changed() error {
	if s.file != nil {
		info, err := s.file.Stat()
		if err == nil && !s.top.holds(info) {
			err = fmt.Errorf("%w: %s", ErrChanged, s.info.Name)
		}
		return err
	}
	if s.info.Kind == Directory {
		if err := s.unchanged(".", s.top); err != nil {
			return err
		}
	}
	for i := range s.layout.entries {
		if err := s.unchanged(s.layout.entries[i].path, s.seen[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) unchanged(path string, seen identity) error {
	if seen == anything {
		return nil
	}
	info, err := s.root.Lstat(path)
	s.pulse.Beat()
	if err != nil {
		return changedIfGone(path, err)
	}
	switch {
	case identify(info) == seen:
		return nil
	case info.IsDir():
		return fmt.Errorf("%w: %s: something in it was added or removed, or its mode changed", ErrChanged, filepath.Join(s.info.Name, path))
	}
	return fmt.Errorf("%w: %s", ErrChanged, path)
}

// Root hashes all bytes, once: later calls return the same. It may run while
// readers read. A source that changed has no root.
func (s *Source) Root(ctx context.Context) (Root, error) {
	select {
	case <-s.hashing:
	case <-ctx.Done():
		return Root{}, ctx.Err()
	}
	defer func() { s.hashing <- struct{}{} }()
	if s.known {
		return s.sum, nil
	}
	sum, err := s.hash(ctx)
	if err != nil {
		return Root{}, fmt.Errorf("hash %s: %w", s.info.Name, err)
	}
	s.known, s.sum = true, sum
	return sum, nil
}

func (s *Source) hash(ctx context.Context) (Root, error) {
	all := newRehash(s.cursor(), s.pulse)
	defer func() { _ = all.close() }()
	for all.offset < s.info.Length {
		if ctx.Err() != nil {
			return Root{}, ctx.Err()
		}
		if err := all.advance(s.layout, s.info.Length); err != nil {
			return Root{}, errors.Join(err, s.Changed())
		}
	}
	return all.root(), s.Changed()
}
