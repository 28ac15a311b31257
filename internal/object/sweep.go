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
	before := time.Now().Add(-olderThan)
	return sweepAll(dir, pulse.Of(ctx), func(_ string, home folder) (bool, error) {
		touched, err := lastTouched(home)
		return err == nil && !touched.After(before), err
	})
}

// sweepAll removes the partials in a directory that are due, if nobody has locked them.
func sweepAll(dir string, beats *pulse.Pulse, isDue func(tag string, home folder) (bool, error)) (removed int, err error) {
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
	for _, found := range tags {
		swept, sweepErr := sweep(all, found.Name(), isDue, beats)
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

// sweep removes one partial, if it is due and nobody has locked it.
func sweep(all folder, tag string, isDue func(tag string, home folder) (bool, error), beats *pulse.Pulse) (bool, error) {
	home, err := all.below(tag)
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer func() { _ = home.close() }()
	if due, err := isDue(tag, home); err != nil || !due {
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
