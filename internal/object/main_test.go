package object_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
)

func TestMain(m *testing.M) {
	unix.Umask(0o022) // modes are part of roots
	if os.Getenv(receiverVariable) != "" {
		receive()
		return
	}
	goleak.VerifyTestMain(m)
}

// open opens a source until the test ends.
func open(t testing.TB, path string) *object.Source {
	t.Helper()
	source, err := object.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return source
}

func rootOf(t testing.TB, source *object.Source) object.Root {
	t.Helper()
	root, err := source.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// land begins a landing that is removed when the test ends, if it has not ended.
func land(t testing.TB, dir string, info object.Info) *object.Landing {
	t.Helper()
	landing, err := object.Land(t.Context(), dir, info)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = landing.Remove() })
	return landing
}

// deliver moves bytes from where the landing is up to an offset, in pieces of
// sizes that next chooses.
func deliver(source *object.Source, landing *object.Landing, upTo uint64, next func(most int64) int64) error {
	reader := source.NewReader()
	defer reader.Close()
	for offset := landing.Offset(); offset < upTo; {
		from, readable, err := reader.Section(offset)
		if err != nil {
			return err
		}
		n := next(min(readable, int64(upTo-offset)))
		if _, err := io.CopyN(landing, from, n); err != nil {
			return err
		}
		offset += uint64(n)
	}
	return nil
}

// deliverAhead does the same, but every other piece lands before the one in front of it, where it can.
func deliverAhead(source *object.Source, landing *object.Landing, upTo uint64, next func(most int64) int64) error {
	reader := source.NewReader()
	defer reader.Close()
	read := func(offset, count uint64) ([]byte, error) {
		p := make([]byte, 0, count)
		for len(p) < cap(p) {
			from, readable, err := reader.Section(offset + uint64(len(p)))
			if err != nil {
				return nil, err
			}
			part := p[len(p):min(cap(p), len(p)+int(readable))]
			if _, err := io.ReadFull(from, part); err != nil {
				return nil, err
			}
			p = p[:len(p)+len(part)]
		}
		return p, nil
	}
	for offset := landing.Offset(); offset < upTo; offset = landing.Offset() {
		first := uint64(next(int64(upTo - offset)))
		second := uint64(next(int64(upTo - offset - first)))
		now, err := read(offset, first)
		if err != nil {
			return err
		}
		later, err := read(offset+first, second)
		if err != nil {
			return err
		}
		taken, err := landing.Ahead(offset+first, later)
		if err != nil {
			return err
		}
		if _, err := landing.Write(now); err != nil {
			return err
		}
		if !taken {
			continue
		}
		if err := landing.Adopt(second); err != nil {
			return err
		}
	}
	return nil
}

func whole(most int64) int64 { return most }

// plant makes a tree: paths that end in a slash are directories.
func plant(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		full := filepath.Join(dir, path)
		if path[len(path)-1] == '/' {
			if err := os.MkdirAll(full, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree returns all below a path: its mode and content.
func tree(t testing.TB, path string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(path, at)
		found[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			found[name] += " " + string(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
