package gather

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/sdk"
)

// UploadTree uploads all plain files below a directory, each for itself and under its
// path in it. each, if it is set, hears of every file that is finished. If there is anything that
// cannot be uploaded, as symbolic links, all of that is named and nothing is sent. A file that
// fails later, since it changes, keeps none after it from being uploaded: the errors are joined.
func (c *Client) UploadTree(ctx context.Context, dir string, options FileOptions, each func(Uploaded)) error {
	if options.Path == "" {
		options.Path = filepath.Base(filepath.Clean(dir))
	}
	files, err := surveyTree(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range files {
		uploaded, err := c.uploadOf(ctx, dir, file, options)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // it was removed since
		case err == nil && each != nil:
			each(uploaded)
		case err != nil:
			failed = append(failed, err)
		}
		if _, final := c.standing(); err != nil && (final != nil || ctx.Err() != nil) {
			break // none after it would fare better
		}
	}
	return errors.Join(failed...)
}

// uploadOf uploads a file of a tree.
func (c *Client) uploadOf(ctx context.Context, dir, file string, options FileOptions) (Uploaded, error) {
	at := filepath.Join(dir, file)
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return Uploaded{}, err
	}
	options.Path = path.Join(options.Path, filepath.ToSlash(file))
	return c.Upload(ctx, at, options)
}

// problemsMost is how much that cannot be uploaded is named.
const problemsMost = 20

// survey is what is in a tree.
type survey struct {
	dir      string
	files    []string // their paths below it
	problems []error
}

// surveyTree returns the files of a tree, or all that is in the way of uploading it.
func surveyTree(dir string) ([]string, error) {
	s := &survey{dir: dir}
	if err := filepath.WalkDir(dir, s.visit); err != nil {
		return nil, err
	}
	if len(s.problems) == 0 {
		return s.files, nil
	}
	if more := len(s.problems) - problemsMost; more > 0 {
		s.problems = append(s.problems[:problemsMost], fmt.Errorf("and %d more", more))
	}
	return nil, &sdk.Error{Code: sdk.InvalidArgument, Reason: "NOT_UPLOADABLE", Message: fmt.Sprintf("nothing was uploaded of %s:\n%v", dir, errors.Join(s.problems...))}
}

// visit takes a file or directory. One that cannot be read is visited again, with an error.
func (s *survey) visit(at string, entry fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && at != s.dir:
		return nil // it was removed since
	case err != nil:
		return s.problem(entry, err)
	case at == s.dir && entry.IsDir():
		return nil
	case entry.IsDir() && object.IsPartial(entry.Name()):
		return fs.SkipDir // it has what was not received whole
	case entry.IsDir():
		if err := object.CheckName(entry.Name()); err != nil {
			return s.problem(entry, fmt.Errorf("%q: %w", at, err))
		}
		return nil
	}
	return s.take(at, entry)
}

// take takes what is no directory, if it can be uploaded.
func (s *survey) take(at string, entry fs.DirEntry) error {
	source, err := object.Open(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.problem(entry, err)
	}
	if err := source.Close(); err != nil {
		return err
	}
	below, err := filepath.Rel(s.dir, at)
	s.files = append(s.files, below)
	return err
}

func (s *survey) problem(entry fs.DirEntry, err error) error {
	s.problems = append(s.problems, err)
	if entry != nil && entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
