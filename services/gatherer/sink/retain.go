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

// surelyCommitted is how many full segments may be behind the last one that is committed: more bytes are never asked for.
const surelyCommitted = 5

// kept is a file that may be removed.
type kept struct {
	path string
	came time.Time
	size uint64
}

// Retain removes from a client's directory what need not stay: whole files, and whole segments of streams except for the last ones,
// at which the stream goes on. It returns how many files and bytes it removed. What it cannot look at stays, and does not count.
// It never has all names of a client in memory: there may be too many.
func (r Retention) Retain(dir string, now time.Time) (files int, bytes uint64, err error) {
	if r.Age == 0 && r.Bytes == 0 {
		return 0, 0, nil // nothing ever has to go
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
		_ = survey(dir, first.offer) // the first look has said what is wrong
		for _, one := range first.sorted() {
			remove(one)
		}
	}
	return files, bytes, errors.Join(append(failed, err)...)
}

// oldest collects the oldest of many files, just enough to free a number of bytes: a heap with the youngest on top.
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

// offer takes a file if it is among the oldest so far.
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

// errOther says that another file has taken the place of one since that was looked at.
var errOther = errors.New("another file has come to its place")

// remove removes a file unless another has taken its place since it was looked at, or is about to.
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

// Sweep removes from a client's directory the parts of uploads that were abandoned for so long.
func Sweep(dir string, olderThan time.Duration) error {
	return walk(dir, func(path string, entry fs.DirEntry) error {
		if !entry.IsDir() || !object.IsPartial(entry.Name()) {
			return nil
		}
		_, _ = object.Sweep(filepath.Dir(path), olderThan) // the next sweep takes what is left
		return filepath.SkipDir
	})
}

// survey calls each with every file below a directory that may be removed.
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

// failuresMost is how many failures are told: a whole directory may fail.
const failuresMost = 10

// walk visits all that is below a directory, except for what is gone meanwhile. What cannot be read is passed over, with all that is in it,
// and told at the end.
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

// Stored returns how many bytes there are in a client's directory, and how many of these are of files that have not come whole. What it
// cannot look at does not count, and is told.
func Stored(dir string) (bytes, unfinished uint64, err error) {
	err = walk(dir, func(path string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		bytes += uint64(info.Size())
		if object.IsPartial(filepath.Base(filepath.Dir(filepath.Dir(path)))) {
			unfinished += uint64(info.Size())
		}
		return nil
	})
	return bytes, unfinished, err
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
	// Bytes come in any order: full segments at the end may not be committed yet.
	return all[:max(0, len(all)-surelyCommitted)], nil
}

// keptAt tells when a file came by its time of change on this machine: its modification time is its source's.
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
