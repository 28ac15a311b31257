package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/sdk"
)

// Files of a tree are uploaded several at a time, so that none waits for the round trips and the disk of another: as many as have
// underWay bytes together, where each counts as at least leastWeight. Large files go one after the other: they would only share the
// link.
const (
	underWay    = 8 << 20
	leastWeight = 512 << 10
)

// part is a file of a tree, or a bundle of small ones.
type part []found

// weight is how many bytes a part counts as.
func (p part) weight() int64 {
	var bytes uint64
	for _, file := range p {
		bytes += file.length
	}
	return int64(min(max(bytes, leastWeight), underWay))
}

// UploadTree uploads all plain files below a directory, each under its path in that directory, and makes the empty directories. each,
// if it is not nil, is called with every finished file, one call at a time; the progress is that of all files together. If anything
// cannot be uploaded, such as a symbolic link, or a name that no upload can have, all of that is named, and nothing is sent. If a file
// fails later, because it changes, the others are uploaded all the same, and the errors are joined.
func (c *Client) UploadTree(ctx context.Context, dir string, options FileOptions, each func(Uploaded)) error {
	if options.Path == "" {
		named, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("find the name of %s: %w", dir, err)
		}
		options.Path = filepath.Base(named)
	}
	if is, err := os.Stat(dir); err == nil && !is.IsDir() { // the survey says whatever else is wrong with it
		return &sdk.Error{Code: sdk.InvalidArgument, Message: dir + " is no directory: upload it as Upload does"}
	}
	survey, err := surveyTree(ctx, dir, options.Path)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	t := &tree{client: c, dir: dir, options: options, each: each, files: survey.files, empty: survey.dirs, refused: math.MaxUint64, sent: make(map[string]uint64), stuck: make(map[string]string)}
	for _, file := range t.files {
		t.length += file.length
	}
	return t.upload(ctx)
}

// tree is a directory whose files are uploaded.
type tree struct {
	client  *Client
	dir     string
	options FileOptions
	each    func(Uploaded)
	files   []found
	empty   []found     // directories
	length  uint64      // of all files
	apart   atomic.Bool // the gatherer knows of no bundles

	mu         sync.Mutex
	refused    uint64 // no file of so many bytes has room
	unwritable bool   // nothing can be written at the gatherer
	untried    int    // files that were not tried for one of these two reasons
	filesDone  int
	done       uint64            // bytes of the finished files
	sent       map[string]uint64 // bytes of files that are under way, by their paths
	stuck      map[string]string // why nothing of such a file gets through
}

func (t *tree) upload(ctx context.Context) error {
	defer t.show(true)
	room := semaphore.NewWeighted(underWay)
	parts := partsOf(t.files)
	failed := make([]error, len(parts))
	var uploading sync.WaitGroup
	for i, part := range parts {
		weight := part.weight()
		if room.Acquire(ctx, weight) != nil || t.over(ctx) != nil {
			break // the others would fare no better
		}
		uploading.Go(func() {
			defer room.Release(weight)
			failed[i] = t.uploadPart(ctx, part)
		})
	}
	uploading.Wait()
	switch over := t.over(ctx); {
	case over == nil:
		failed = append(failed, t.makeEmpty(ctx))
	case t.filesDone < len(t.files) || len(t.empty) > 0:
		failed = append(failed, over)
	}
	switch {
	case t.unwritable && t.untried > 0:
		failed = append(failed, fmt.Errorf("%d files more were not uploaded for that", t.untried))
	case t.untried > 0:
		failed = append(failed, fmt.Errorf("%d files more, as large or larger, were not tried", t.untried))
	}
	return errors.Join(failed...)
}

// uploadPart uploads the files of a part, together if that is possible.
func (t *tree) uploadPart(ctx context.Context, part part) error {
	if len(part) > 1 && !t.apart.Load() {
		part = t.uploadBundle(ctx, part)
	}
	failed := make([]error, len(part))
	var uploading errgroup.Group
	uploading.SetLimit(int(part.weight() / leastWeight))
	for i, file := range part {
		uploading.Go(func() error {
			if t.over(ctx) == nil && !t.hasNoRoom(file) {
				failed[i] = t.uploadOne(ctx, file)
			}
			return nil
		})
	}
	_ = uploading.Wait()
	return errors.Join(failed...)
}

// over returns why nothing can be uploaded any more; nil if it can.
func (t *tree) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return t.client.whyEnded(ctx)
	}
	_, final := t.client.standing()
	return final
}

// hasNoRoom reports whether a file need not be tried: one that was no larger was refused, or nothing can be written at all.
func (t *tree) hasNoRoom(file found) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if file.length < t.refused && !t.unwritable {
		return false
	}
	t.untried++
	return true
}

// uploadOne uploads a file. If it was removed or renamed since it was found, that is an error.
func (t *tree) uploadOne(ctx context.Context, file found) error {
	at := filepath.Join(t.dir, file.path)
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return &sdk.Error{Code: sdk.Conflict, Reason: "SOURCE_CHANGED", Message: at + " was there and is gone: it is not uploaded"}
	}
	options := FileOptions{Path: path.Join(t.options.Path, filepath.ToSlash(file.path)), Progress: t.progress}
	uploaded, err := t.client.Upload(ctx, at, options)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(options.Path)
	if err != nil {
		return t.failed(file, err)
	}
	t.finished(file, uploaded)
	return nil
}

// failed notes if other files would fare no better than one that failed, and returns what to tell of it. The tree is locked.
func (t *tree) failed(file found, err error) error {
	var known *sdk.Error
	switch errors.As(err, &known); {
	case known == nil:
	case known.Reason == "STORED_TOO_MUCH":
		t.refused = min(t.refused, file.length)
	case known.Reason == "STORE_UNWRITABLE" && t.unwritable: // another one that was tried at the same time has told it
		t.untried++
		return nil
	case known.Reason == "STORE_UNWRITABLE":
		t.unwritable = true
	}
	return err
}

// finished notes that a file was uploaded, with the tree locked.
func (t *tree) finished(file found, uploaded Uploaded) {
	t.done += uploaded.Bytes
	t.length += uploaded.Bytes - file.length // it may have grown since it was found, or shrunk
	t.filesDone++
	if t.each != nil {
		t.each(uploaded)
	}
}

// progress tells how the tree stands, from how one of its files does.
func (t *tree) progress(one Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[one.Path], t.stuck[one.Path] = one.Sent, one.Stuck
	if one.Ended = false; t.options.Progress != nil {
		t.options.Progress(t.stands(one))
	}
}

// awaitSession waits for a session other than one that has ended, and meanwhile tells why there is none.
func (t *tree) awaitSession(ctx context.Context, ended string) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	var showing sync.WaitGroup
	defer showing.Wait()
	defer stop()
	showing.Go(func() {
		for pause.For(ctx, showInterval) {
			t.show(false)
		}
	})
	return t.client.awaitSession(ctx, ended)
}

// show tells how the tree stands while no file is under way: at the end, or before any could begin.
func (t *tree) show(ended bool) {
	if t.options.Progress == nil {
		return
	}
	now, _ := t.client.progress() // the caller tells the error
	now.Ended = ended
	t.mu.Lock()
	defer t.mu.Unlock()
	t.options.Progress(t.stands(now))
}

// stands makes a file's progress that of the tree, with the tree locked.
func (t *tree) stands(one Progress) Progress {
	one.Path, one.Files, one.FilesDone = t.options.Path, len(t.files), t.filesDone
	one.Sent, one.Length = t.done, t.length
	for _, sent := range t.sent {
		one.Sent += sent
	}
	one.Sent, one.Stuck = min(one.Sent, one.Length), t.allStuck()
	return one
}

// allStuck returns why nothing of the tree gets through; empty if something may, with the tree locked.
func (t *tree) allStuck() (why string) {
	for _, one := range t.stuck {
		if one == "" {
			return ""
		}
		why = max(why, one) // any of them, but the same each time
	}
	return why
}

// forget forgets a file that is no longer under way, with the tree locked.
func (t *tree) forget(path string) {
	delete(t.sent, path)
	delete(t.stuck, path)
}
