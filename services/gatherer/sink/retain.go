package sink

import (
	"cmp"
	"container/heap"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/object"
)

// Retention says how long what clients uploaded stays. Zero is for ever, and as much as comes.
type Retention struct {
	Age   time.Duration // since it came
	Bytes uint64        // of one client: the oldest goes first
}

// surelyCommitted is behind how many full segments a stream's are committed: more is never
// asked for.
const surelyCommitted = 5

// kept is a file that can go.
type kept struct {
	path string
	came time.Time
	size uint64
}

// Retain removes from a client's directory what need not stay: whole files, and whole segments of
// streams but the last ones, which the stream goes on behind. It returns how many files and bytes.
// What cannot be looked at stays, and is not counted. There is no room in memory for all names of a client.
func (r Retention) Retain(dir string, now time.Time) (files int, bytes uint64, err error) {
	if r.Age == 0 && r.Bytes == 0 {
		return 0, 0, nil // nothing goes: nobody need look
	}
	var failed []error
	remove := func(one kept) {
		switch removed, err := one.remove(); {
		case removed:
			files, bytes = files+1, bytes+one.size
		case err != nil:
			failed = append(failed, err)
		}
	}
	var sum uint64
	err = survey(dir, func(one kept) {
		if r.Age > 0 && now.Sub(one.came) > r.Age {
			remove(one)
			return
		}
		sum += one.size
	})
	if r.Bytes > 0 && sum > r.Bytes {
		first := oldest{want: sum - r.Bytes}
		_ = survey(dir, first.offer) // what is wrong is known by now
		for _, one := range first.sorted() {
			remove(one)
		}
	}
	return files, bytes, errors.Join(append(failed, err)...)
}

// oldest are the oldest of many files, as many as have so many bytes together: a heap with the youngest at its top.
type oldest struct {
	want, sum uint64
	all       []kept
}

func (k kept) compare(other kept) int {
	return cmp.Or(k.came.Compare(other.came), cmp.Compare(k.path, other.path))
}

func (o *oldest) Len() int           { return len(o.all) }
func (o *oldest) Less(i, j int) bool { return o.all[i].compare(o.all[j]) > 0 }
func (o *oldest) Swap(i, j int)      { o.all[i], o.all[j] = o.all[j], o.all[i] }
func (o *oldest) Push(one any)       { o.all = append(o.all, one.(kept)) }
func (o *oldest) Pop() any {
	last := o.all[len(o.all)-1]
	o.all = o.all[:len(o.all)-1]
	return last
}

// offer takes a file, if it is older than others that would do.
func (o *oldest) offer(one kept) {
	heap.Push(o, one)
	for o.sum += one.size; o.sum-o.all[0].size >= o.want; {
		o.sum -= heap.Pop(o).(kept).size
	}
}

func (o *oldest) sorted() []kept {
	slices.SortFunc(o.all, kept.compare)
	return o.all
}

// errOther says that there is another file where one was looked at.
var errOther = errors.New("another file has come to its place")

// remove removes a file unless another has come to its place since it was looked at, or is about to.
func (k kept) remove() (removed bool, err error) {
	removed, err = held.unless(k.path, func() error {
		now, err := keptAt(k.path)
		switch {
		case err != nil:
			return err
		case now != k:
			return errOther
		}
		return os.Remove(k.path)
	})
	if errors.Is(err, errOther) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return removed && err == nil, err
}

// Sweep removes from a client's directory what was abandoned of uploads for so long.
func Sweep(dir string, olderThan time.Duration) error {
	return walk(dir, func(path string, entry fs.DirEntry) error {
		if !entry.IsDir() || !object.IsPartial(entry.Name()) {
			return nil
		}
		_, _ = object.Sweep(filepath.Dir(path), olderThan) // what is left is swept another time
		return filepath.SkipDir
	})
}

// survey tells each file below a directory that can go.
func survey(dir string, each func(kept)) error {
	return walk(dir, func(path string, entry fs.DirEntry) error {
		switch {
		case entry.IsDir() && object.IsPartial(entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() && strings.HasSuffix(entry.Name(), gathered.StreamSuffix):
			segments, err := surveyStream(path)
			for _, one := range segments {
				each(one)
			}
			return cmp.Or(err, filepath.SkipDir)
		case !entry.Type().IsRegular() || held.has(path):
			return nil
		}
		one, err := keptAt(path)
		if err == nil {
			each(one)
		}
		return err
	})
}

// failuresMost is how much is told of what is wrong: there may be a directory of it.
const failuresMost = 10

// walk tells all that is below a directory, but for what is gone meanwhile. What fails is passed over, with all that is in it, and told at the end.
func walk(dir string, each func(path string, entry fs.DirEntry) error) error {
	var failed []error
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = each(path, entry)
		}
		if err == nil || err == filepath.SkipDir { //nolint:errorlint // it is returned as it is
			return err
		}
		if err = ignoreGone(err); err != nil && len(failed) < failuresMost {
			failed = append(failed, err)
		}
		if entry != nil && entry.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}

// Stored returns how many bytes there are in a client's directory.
func Stored(dir string) (bytes uint64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err == nil {
			bytes += uint64(info.Size())
		}
		return ignoreGone(err)
	})
	return bytes, err
}

// surveyStream returns the segments of a stream but the last ones.
func surveyStream(dir string) (all []kept, err error) {
	entries, err := os.ReadDir(dir) // in the order of their names, which is that of their offsets
	if err != nil {
		return nil, ignoreGone(err)
	}
	for _, entry := range entries {
		if _, isSegment := offsetOf(entry.Name()); !isSegment {
			continue
		}
		one, err := keptAt(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, ignoreGone(err)
		}
		if one.size == segmentSize {
			all = append(all, one)
		}
	}
	// Bytes come in any order: full ones at the end may not be committed yet.
	return all[:max(0, len(all)-surelyCommitted)], nil
}

// keptAt tells when a file came by when it was last changed here: its time is its source's.
func keptAt(path string) (kept, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return kept{}, err
	}
	one := kept{path: path, came: info.ModTime(), size: uint64(info.Size())}
	if own, is := info.Sys().(*syscall.Stat_t); is {
		one.came = time.Unix(own.Ctim.Unix())
	}
	return one, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed or renamed meanwhile
	}
	return err
}
