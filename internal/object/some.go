package object

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// anything is seen of a directory of which only some files are sent: what else becomes of it does not matter.
var anything identity

// Some opens some of the files below a directory, by their paths in it, as one object: a directory that has
// them alone.
func Some(dir, name string, paths []string) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, bare(err))
	}
	source := newSource()
	source.root = root
	if err := source.openSome(name, paths); err != nil {
		return nil, fmt.Errorf("open files of %s: %w", dir, errors.Join(err, source.Close()))
	}
	return source, nil
}

func (s *Source) openSome(name string, paths []string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	survey := &survey{root: s.root}
	for _, path := range slices.SortedFunc(slices.Values(paths), compare) {
		if err := survey.add(path); err != nil {
			return err
		}
	}
	return s.adopt(survey, name, landingDirectory)
}

// Directories returns an object that has the directories with these paths, and nothing that is in them.
func Directories(name string, paths []string) (*Source, error) {
	survey := new(survey)
	for _, path := range slices.SortedFunc(slices.Values(paths), compare) {
		survey.addDirectory(path)
	}
	source := newSource()
	if err := source.adopt(survey, name, landingDirectory); err != nil {
		return nil, errors.Join(fmt.Errorf("directories of %s: %w", name, err), source.Close())
	}
	return source, nil
}

// addDirectory takes a directory, unless it has it, and those that it is in.
func (s *survey) addDirectory(path string) {
	var all []string
	for up := path; up != "" && !slices.ContainsFunc(s.entries, func(e entry) bool { return e.path == up }); up = parent(up) {
		all = append(all, up)
	}
	for _, up := range slices.Backward(all) {
		s.found(entry{path: up, kind: Directory, mode: landingDirectory}, anything, false)
	}
}

// add takes a file, and the directories that it is in.
func (s *survey) add(path string) error {
	s.addDirectory(parent(path))
	file, info, err := openPlain(s.root, path, os.O_RDONLY)
	if err != nil {
		return err
	}
	if info.ModTime().After(s.newest) {
		s.newest = info.ModTime()
	}
	s.found(entry{path: path, kind: File, mode: info.Mode().Perm(), size: uint64(info.Size())}, identify(info), isSparse(info))
	return file.Close()
}
