package object

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// resume takes what earlier landings have claimed, as far as it still is what it
// was, and throws away the rest.
func (l *Landing) resume(ctx context.Context) (*layout, error) {
	claims, err := l.partial.journal.claims(l.info.Length)
	if err != nil {
		return nil, err
	}
	if len(claims) > 0 {
		if err := l.checkUnread(claims[len(claims)-1].offset); err != nil {
			return nil, err
		}
		layout, good, err := l.verify(ctx, claims)
		if err != nil {
			return nil, err
		}
		if good > 0 {
			l.claimed = claims[good-1]
			l.resumed = l.claimed.offset
			return layout, l.partial.journal.keep(good)
		}
	}
	return l.reset()
}

// reset begins with nothing.
func (l *Landing) reset() (*layout, error) {
	if err := errors.Join(l.closeTree(), l.partial.empty()); err != nil {
		return nil, fmt.Errorf("empty partial: %w", err)
	}
	l.progress.tally = tally{}
	l.claimed, l.resumed, l.made, l.durable = claim{}, 0, 0, 0
	if l.info.Kind == Directory {
		return &layout{head: headSize, end: headSize}, nil
	}
	l.tree = l.partial.home.Root
	return fileLayout(contentName, l.info), nil
}

// verify hashes what is claimed. It returns how many claims hold, and has the tally
// go on where the last of them ends.
func (l *Landing) verify(ctx context.Context, claims []claim) (known *layout, good int, err error) {
	known, err = l.recall()
	if err != nil {
		return nil, 0, notThere(err)
	}
	landed := newRehash(cursor{open: l.openLanded}, l.pulse)
	defer func() { _ = landed.close() }() // it only reads
	for good < len(claims) {
		if err := landed.advanceTo(ctx, known, claims[good].offset); err != nil {
			if err := notThere(err); err != nil {
				return nil, 0, err
			}
			break
		}
		if landed.root() != claims[good].root {
			break
		}
		l.progress.tally = landed.tally
		good++
	}
	if good == 0 || claims[good-1].offset < known.head { // a head counts whole
		return known, 0, nil
	}
	return known, good, nil
}

// advanceTo hashes up to an offset.
func (r *rehash) advanceTo(ctx context.Context, known *layout, offset uint64) error {
	for r.offset < offset {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.advance(known, offset); err != nil {
			return err
		}
	}
	return nil
}

// recall returns the layout that an earlier landing knew.
func (l *Landing) recall() (*layout, error) {
	if l.info.Kind == File {
		l.tree = l.partial.home.Root
		return fileLayout(contentName, l.info), nil
	}
	known, err := layoutOf(l.readHead, l.info.Length)
	if err != nil {
		return nil, err
	}
	if err := l.makeTree(); err != nil {
		return nil, err
	}
	return known, l.unlock(known)
}

// unlock lets the owner into directories that had their modes already, or are of a tree that was replaced when all ended. Those that are not
// there yet had none.
func (l *Landing) unlock(known *layout) error {
	if err := l.tree.Chmod(".", landingDirectory); err != nil {
		return err
	}
	for i := range known.entries {
		e := &known.entries[i]
		l.pulse.Beat()
		if e.kind != Directory {
			continue
		}
		there, err := l.tree.Lstat(e.path)
		if err == nil && there.IsDir() && there.Mode()&landingDirectory != landingDirectory {
			err = l.tree.Chmod(e.path, landingDirectory)
		}
		if ignoreMissing(err) != nil {
			return err
		}
	}
	return nil
}

// cut throws away what an earlier landing wrote and did not claim. Otherwise each file loses it when it is begun.
func (l *Landing) cut(known *layout) error {
	for i := range known.entries {
		e := &known.entries[i]
		l.pulse.Beat()
		if e.kind != File || e.end() <= l.resumed {
			continue
		}
		if err := l.cutFile(e); err != nil {
			return fmt.Errorf("cut off what was not claimed: %w", err)
		}
	}
	return nil
}

func (l *Landing) cutFile(e *entry) error {
	if e.start >= l.resumed {
		return l.tree.RemoveAll(e.path)
	}
	file, err := l.reopen(e)
	if err != nil {
		return err
	}
	return file.Close()
}

// notThere drops an error that says that what was claimed is not there, or is
// something else, and returns one that says nothing about that.
func notThere(err error) error {
	for _, other := range []error{
		context.Canceled, context.DeadlineExceeded, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT,
	} {
		if errors.Is(err, other) {
			return err
		}
	}
	return nil
}
