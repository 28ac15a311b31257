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

// Abandoned is how long a partial waits for a landing that goes on with it.
const Abandoned = 7 * 24 * time.Hour

// Sweep removes the partials in a directory that no landing has touched for so
// long, and returns how many. Those that are landing it leaves alone.
func Sweep(dir string, olderThan time.Duration) (removed int, err error) {
	return SweepIn(context.Background(), dir, olderThan)
}

// SweepIn is Sweep with a pulse in ctx that beats with what it does.
func SweepIn(ctx context.Context, dir string, olderThan time.Duration) (removed int, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	top, err := newFolder(root)
	if err != nil {
		return 0, err
	}
	defer func() { _ = top.close() }()
	all, err := top.below(reserved)
	if err != nil {
		return 0, ignoreMissing(err)
	}
	defer func() { _ = all.close() }()
	tags, err := all.handle.ReadDir(-1)
	before := time.Now().Add(-olderThan)
	for _, found := range tags {
		swept, sweepErr := sweep(all, found.Name(), before, pulse.Of(ctx))
		if sweepErr != nil {
			err = errors.Join(err, fmt.Errorf("sweep partial %s: %w", found.Name(), sweepErr))
		}
		if swept {
			removed++
		}
	}
	top.tidy()
	return removed, err
}

// sweep removes one partial, if it is old and nobody has locked it.
func sweep(all folder, tag string, before time.Time, beats *pulse.Pulse) (bool, error) {
	home, err := all.below(tag)
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer func() { _ = home.close() }()
	touched, err := lastTouched(home)
	if err != nil || touched.After(before) {
		return false, err
	}
	file, err := lockJournal(home)
	if errors.Is(err, ErrBusy) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p := &partial{all: all, home: home, tag: tag, journal: journal{file: file}, pulse: beats}
	defer func() { _ = p.journal.close() }()
	err = p.removeContent()
	return err == nil, err
}

// lastTouched returns when a landing has last claimed something.
func lastTouched(home folder) (time.Time, error) {
	info, err := home.Lstat(journalName)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = home.Lstat(".")
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
