package sink_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// bundle opens a sink for some files, of these contents, and brings it their bytes.
func bundle(t *testing.T, dir, at string, files map[string]string) (to sink.Sink, length uint64, root object.Root) {
	t.Helper()
	from := t.TempDir()
	var paths []string
	for name, content := range files {
		must(t, os.MkdirAll(filepath.Join(from, path.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(from, name), []byte(content), 0o640))
		paths = append(paths, name)
	}
	source, err := object.Some(from, "some", paths)
	must(t, err)
	return landed(t, dir, at, source)
}

// The files of a bundle appear under their own paths once it is whole, in place of what was there. The bundle itself never appears.
func TestBundleIsItsFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "alice/a/b"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "alice/a/b/two"), []byte("earlier"), 0o600))
	to, length, root := bundle(t, dir, "a/bundle-1", map[string]string{"one": "first", "b/two": "second", "b/empty": ""})
	if _, err := os.Stat(filepath.Join(dir, "alice/a/one")); err == nil {
		t.Error("a file is there before the bundle is whole")
	}
	below, err := to.Finish(length, root)
	must(t, err)
	must(t, to.Close())
	if want := filepath.Join(dir, "alice/a"); below != want {
		t.Errorf("its files are below %s, want %s", below, want)
	}
	for name, content := range map[string]string{"a/one": "first", "a/b/two": "second", "a/b/empty": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, "alice", name)); err != nil || string(got) != content {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if placed := to.Placed(); len(placed) != 3 || placed[0].Path != "a/b/empty" {
		t.Errorf("placed %v", placed)
	}
	for _, left := range []string{"alice/a/bundle-1", "alice/.groupcast-partial"} {
		if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}

// landed brings the bytes of a source to a sink.
func landed(t *testing.T, dir, at string, source *object.Source) (to sink.Sink, length uint64, root object.Root) {
	t.Helper()
	defer source.Close()
	content := make([]byte, source.Info().Length)
	reader := source.NewReader()
	defer reader.Close()
	must(t, reader.ReadAt(content, 0))
	spec := fileSpec(at, content)
	spec.Bundle = true
	to = open(t, dir, spec)
	write(t, to, content, 0)
	must(t, to.Landed(uint64(len(content))))
	return to, uint64(len(content)), rootOf(content)
}

// A bundle that is too long, or has too many files, is refused before anything of it comes or appears: its table would be in the
// gatherer's memory.
func TestBundlesHaveABound(t *testing.T) {
	dir := t.TempDir()
	spec := fileSpec("a/bundle-1", nil)
	spec.Bundle, spec.Info.Length = true, gathered.BundleBytes+1
	if _, err := sink.Open(t.Context(), dir, spec); !errors.Is(err, gathered.ErrBundle) {
		t.Errorf("%d bytes: %v", spec.Info.Length, err)
	}
	paths := make([]string, gathered.BundleItems+1)
	for i := range paths {
		paths[i] = fmt.Sprintf("%05d", i)
	}
	source, err := object.Directories("some", paths)
	must(t, err)
	to, length, root := landed(t, dir, "a/bundle-2", source)
	if _, err := to.Finish(length, root); !errors.Is(err, gathered.ErrBundle) {
		t.Errorf("%d directories: %v", len(paths), err)
	}
	must(t, to.Close())
	wantThere(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "alice/a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directories are made: %v", err)
	}
}

// A bundle that is all table is refused before its table is in memory: of the gatherer's memory, it costs a little.
func TestTableIsBoundedBeforeItIsRead(t *testing.T) {
	const entries, most = 200_000, 2 << 20
	head := append([]byte("GCDT"), 1, 0, 0, 0)
	head = binary.BigEndian.AppendUint32(head, entries)
	head = binary.BigEndian.AppendUint32(head, 17*entries)
	content := append(head, make([]byte, 17*entries)...)
	spec := fileSpec("a/bundle-1", content)
	spec.Bundle = true
	to, length, root := open(t, t.TempDir(), spec), uint64(len(content)), rootOf(content)
	write(t, to, content, 0)
	must(t, to.Landed(length))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := to.Finish(length, root)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, gathered.ErrBundle) {
		t.Errorf("%d directories: %v", entries, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("to refuse a table of %d bytes took %d bytes of memory, want at most %d", length, took, most)
	}
	must(t, to.Close())
}

// Empty directories of a bundle are made; a bundle of nothing at all makes the directory that it goes into. No command runs for them.
// If a file has the name of one, the bundle is refused.
func TestBundleOfDirectories(t *testing.T) {
	dir := t.TempDir()
	for at, paths := range map[string][]string{"a/bundle-1": {"none", "deep/er/none", "deep/none"}, "bare/bundle-2": nil} {
		for range 2 { // that it is there already is no error
			source, err := object.Directories("some", paths)
			must(t, err)
			to, length, root := landed(t, dir, at, source)
			_, err = to.Finish(length, root)
			must(t, err)
			if placed := to.Placed(); len(placed) > 0 {
				t.Errorf("placed %v, which are no files", placed)
			}
			must(t, to.Close())
		}
	}
	for _, want := range []string{"a/none", "a/deep/er/none", "a/deep/none", "bare"} {
		if left, err := os.ReadDir(filepath.Join(dir, "alice", want)); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", want, left, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "alice/a/file"), []byte("kept"), 0o600))
	source, err := object.Directories("some", []string{"file"})
	must(t, err)
	to, length, root := landed(t, dir, "a/bundle-3", source)
	if _, err := to.Finish(length, root); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("%v, want a file's name refused", err)
	}
	must(t, to.Close())
}

// A bundle with a path that no file may have is refused as a whole, and nothing of it is kept; so is one that is damaged.
func TestBundlesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	to, length, root := bundle(t, dir, "a/bundle-1", map[string]string{"one": "first", "log.stream/committed": "forged"})
	if _, err := to.Finish(length, root); !errors.Is(err, gathered.ErrPath) {
		t.Errorf("%v, want its path refused", err)
	}
	must(t, to.Close())
	to, length, root = bundle(t, dir, "a/bundle-2", map[string]string{"two": "second"})
	root[0]++
	if _, err := to.Finish(length, root); !errors.Is(err, object.ErrDamaged) {
		t.Errorf("%v, want it damaged", err)
	}
	must(t, to.Close())
	spec := fileSpec("a/bundle-3", []byte("this is no directory's head"))
	spec.Bundle = true
	to = open(t, dir, spec)
	write(t, to, []byte("this is no directory's head"), 0)
	must(t, to.Landed(27))
	if _, err := to.Finish(27, rootOf([]byte("this is no directory's head"))); !errors.Is(err, gathered.ErrPath) {
		t.Errorf("%v, want it refused", err)
	}
	must(t, to.Close())
	if left, err := filepath.Glob(filepath.Join(dir, "alice/*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "alice/.groupcast-partial")); err == nil {
		t.Error("something of them is kept")
	}
}

// An upload that is said to be both a stream and a bundle is refused: its bytes would have no place.
func TestBundleIsNoStream(t *testing.T) {
	dir, spec := t.TempDir(), streamSpec("s")
	spec.Bundle = true
	if _, err := sink.Open(t.Context(), dir, spec); !errors.Is(err, gathered.ErrPath) {
		t.Errorf("%v, want it refused", err)
	}
}

// If some files of a bundle cannot appear, as a directory has that name, the sink tells which have.
func TestBundleThatAppearsInPart(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "alice/a/taken/below"), 0o700))
	to, length, root := bundle(t, dir, "a/bundle-1", map[string]string{"one": "first", "taken": "none", "two": "second"})
	if _, err := to.Finish(length, root); !object.IsRefused(err) {
		t.Errorf("%v, want its name refused", err)
	}
	want := []sink.Placed{{Path: "a/one", File: filepath.Join(dir, "alice/a/one")}, {Path: "a/two", File: filepath.Join(dir, "alice/a/two")}}
	if placed := to.Placed(); !slices.Equal(placed, want) {
		t.Errorf("placed %v, want %v", placed, want)
	}
	must(t, to.Close())
}

// Placing a file takes a thread while the disk does not answer. Those of many bundles are bounded: a process that has 10,000 threads ends.
func TestBundlesOnAHungDiskTakeFewThreads(t *testing.T) {
	const bundles, files = 60, 16
	disk, from := testdisk.New(t, "256m"), t.TempDir()
	var names []string
	for i := range files {
		names = append(names, fmt.Sprint("file-", i))
		must(t, os.WriteFile(filepath.Join(from, names[i]), []byte(names[i]), 0o600))
	}
	finish := make([]func() error, bundles)
	for i := range finish {
		source, err := object.Some(from, "some", names)
		must(t, err)
		to, length, root := landed(t, disk.Dir, fmt.Sprintf("d%d/bundle-%d", i, i), source)
		finish[i] = func() error {
			_, err := to.Finish(length, root)
			return errors.Join(err, to.Close())
		}
	}
	before, thaw := threads(t), testdisk.Freeze(t, disk.Dir)
	var finishing errgroup.Group
	for _, one := range finish {
		finishing.Go(one)
	}
	time.Sleep(2 * time.Second)
	if took := threads(t) - before; took > 300 {
		t.Errorf("%d bundles of %d files take %d threads", bundles, files, took)
	}
	thaw()
	must(t, finishing.Wait())
}

// So are those of many uploads.
func TestUploadsOnAHungDiskTakeFewThreads(t *testing.T) {
	const uploads = 400
	disk, content := testdisk.New(t, "256m"), []byte("content")
	all := make([]sink.Sink, uploads)
	for i := range all {
		spec := fileSpec("file", content)
		spec.Client = fmt.Sprint("client-", i)
		all[i] = open(t, disk.Dir, spec)
		write(t, all[i], content, 0)
		must(t, all[i].Landed(uint64(len(content))))
	}
	before, thaw := threads(t), testdisk.Freeze(t, disk.Dir)
	var finishing errgroup.Group
	for _, to := range all {
		finishing.Go(func() error {
			_, err := to.Finish(uint64(len(content)), rootOf(content))
			return errors.Join(err, to.Close())
		})
	}
	time.Sleep(2 * time.Second)
	if took := threads(t) - before; took > 200 {
		t.Errorf("%d uploads take %d threads", uploads, took)
	}
	thaw()
	must(t, finishing.Wait())
}

// threads returns how many threads the process has.
func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(all)
}
