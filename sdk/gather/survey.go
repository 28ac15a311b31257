package gather

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/sdk"
)

// problemsMost is how many files that cannot be uploaded are named.
const problemsMost = 20

// found is a file of a tree.
type found struct {
	path   string // below the tree
	length uint64
}

// survey is what is in a tree.
type survey struct {
	dir      string
	to       string // its path at the gatherer
	files    []found
	dirs     []found // directories; after all were visited, those with nothing in them to upload
	problems []error
}

// surveyTree returns what is in a tree, or all that keeps it from being uploaded to a path. It ends early when ctx is done.
func surveyTree(ctx context.Context, dir, to string) (*survey, error) {
	s := &survey{dir: dir, to: to}
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.visit(ctx, at, entry, err)
	})
	if err != nil {
		return nil, err
	}
	s.keepEmpty()
	if len(s.problems) == 0 {
		return s, nil
	}
	if more := len(s.problems) - problemsMost; more > 0 {
		s.problems = append(s.problems[:problemsMost], fmt.Errorf("and %d more", more))
	}
	return nil, &sdk.Error{Code: sdk.InvalidArgument, Reason: "NOT_UPLOADABLE", Message: fmt.Sprintf("nothing was uploaded of %s:\n%v", dir, errors.Join(s.problems...))}
}

// visit takes a file or directory. A directory that cannot be read is visited again, with an error.
func (s *survey) visit(ctx context.Context, at string, entry fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && at != s.dir:
		return nil // it was removed meanwhile
	case err != nil:
		return s.problem(entry, err)
	case at == s.dir && entry.IsDir():
		return nil
	case entry.IsDir() && object.IsPartial(entry.Name()):
		return fs.SkipDir // pull leaves parts of objects in it
	case entry.IsDir():
		if err := object.CheckName(entry.Name()); err != nil {
			return s.problem(entry, fmt.Errorf("%s: %w", at, err))
		}
		below, err := filepath.Rel(s.dir, at)
		s.dirs = append(s.dirs, found{path: below})
		return err
	}
	return s.take(ctx, at, entry)
}

// keepEmpty forgets directories that are made anyway for what is in them, and checks the others. Of a tree with nothing in it, the tree
// itself is left.
func (s *survey) keepEmpty() {
	if len(s.files)+len(s.dirs) == 0 {
		s.dirs = []found{{path: "."}}
	}
	filled := make(map[string]bool)
	for _, one := range slices.Concat(s.files, s.dirs) {
		if one.path != "." {
			filled[filepath.Dir(one.path)] = true
		}
	}
	s.dirs = slices.DeleteFunc(s.dirs, func(one found) bool { return filled[one.path] })
	for _, one := range s.dirs {
		if err := gathered.CheckPath(path.Join(s.to, filepath.ToSlash(one.path)), false); err != nil {
			s.problems = append(s.problems, fmt.Errorf("%s: %w", filepath.Join(s.dir, one.path), err))
		}
	}
}

// take takes anything but a directory, if it can be uploaded.
func (s *survey) take(ctx context.Context, at string, entry fs.DirEntry) error {
	source, err := object.Open(ctx, at)
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
	if err != nil {
		return err
	}
	if err := gathered.CheckPath(path.Join(s.to, filepath.ToSlash(below)), false); err != nil {
		return s.problem(entry, fmt.Errorf("%s: %w", at, err))
	}
	s.files = append(s.files, found{below, source.Info().Length})
	return nil
}

func (s *survey) problem(entry fs.DirEntry, err error) error {
	s.problems = append(s.problems, err)
	if entry != nil && entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
