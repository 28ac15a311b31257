package sink_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/gathered"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

func rootOf(content []byte) object.Root {
	var hash digest.Hash
	_, _ = hash.Write(content) // it never fails
	return hash.Sum()
}

func random(seed uint64, size int) []byte {
	source, content := rand.New(rand.NewPCG(seed, 1)), make([]byte, size)
	for i := range content {
		content[i] = byte(source.Uint32())
	}
	return content
}

func streamSpec(path string) sink.Spec {
	return sink.Spec{Client: "alice", Path: path, Stream: true, Info: object.Info{Name: filepath.Base(path), Kind: object.File}}
}

func fileSpec(path string, content []byte) sink.Spec {
	return sink.Spec{Client: "alice", Path: path, Info: object.Info{
		Name: filepath.Base(path), Kind: object.File, Length: uint64(len(content)), Mode: 0o640, Time: time.Unix(1_700_000_000, 0),
	}}
}

func open(t testing.TB, dir string, spec sink.Spec) sink.Sink {
	t.Helper()
	to, err := sink.Open(t.Context(), dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

type failing interface {
	Helper()
	Fatal(args ...any)
}

func must(t failing, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes where the sink says that bytes go.
func write(t failing, to sink.Sink, content []byte, at uint64) {
	t.Helper()
	for len(content) > 0 {
		place, most, err := to.Place(at)
		must(t, err)
		part := content[:min(int64(len(content)), most)]
		_, err = place.File.WriteAt(part, place.At)
		must(t, err)
		content, at = content[len(part):], at+uint64(len(part))
	}
}

// What an upload is called leads nowhere but below its client's directory, and into no stream.
func TestPathsThatAreRefused(t *testing.T) {
	for _, path := range []string{
		"", "/", "..", "../x", "a/../b", "a//b", "a/", "/etc/passwd", ".", "a\x00b", strings.Repeat("d/", 40) + "f", strings.Repeat("n", 300),
		".groupcast-partial", ".groupcast-partial/x", "log.stream/committed", "log.stream", "a/log.stream", "log.stream/00000000000000000000", "a\xff",
	} {
		if _, err := sink.Open(t.Context(), t.TempDir(), fileSpec(path, nil)); err == nil {
			t.Errorf("%q was opened", path)
		} else if !errors.Is(err, gathered.ErrPath) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// Bytes of a file come in any order; it appears when it is whole, and not before.
func TestFileAppearsWhole(t *testing.T) {
	dir, content := t.TempDir(), random(1, 300_000)
	spec := fileSpec("a/b/c.bin", content)
	to := open(t, dir, spec)
	write(t, to, content[200_000:], 200_000)
	write(t, to, content[:200_000], 0)
	name := filepath.Join(dir, "alice/a/b/c.bin")
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there before it is whole: %v", err)
	}
	must(t, to.Landed(uint64(len(content))))
	path, err := to.Finish(uint64(len(content)), rootOf(content))
	must(t, err)
	must(t, to.Close())
	if got, err := os.ReadFile(path); err != nil || path != name || !bytes.Equal(got, content) {
		t.Errorf("%s: %v, %d bytes", path, err, len(got))
	}
	if placed := to.Placed(); !slices.Equal(placed, []sink.Placed{{Path: "a/b/c.bin", File: name}}) {
		t.Errorf("%+v has appeared", placed)
	}
	found, err := sink.Existing(t.Context(), dir, spec, fileSpec("a/b/none", content), spec)
	if err != nil || found[0] == nil || *found[0] != rootOf(content) || found[1] != nil || *found[2] != *found[0] {
		t.Errorf("what is there: %v %v", found, err)
	}
}

// A file without bytes is one, too.
func TestFileWithoutBytes(t *testing.T) {
	to := open(t, t.TempDir(), fileSpec("empty", nil))
	path, err := to.Finish(0, rootOf(nil))
	must(t, err)
	must(t, to.Close())
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("%v %v", info, err)
	}
}

// What has landed of a file is kept when its sink is closed, and is not asked for again. If the bytes are not what was sent, nothing
// appears, and all is asked for again.
func TestFileGoesOnOrBeginsAnew(t *testing.T) {
	dir, content := t.TempDir(), random(2, 300_000)
	spec := fileSpec("it", content)
	to := open(t, dir, spec)
	write(t, to, content[:100_000], 0)
	must(t, to.Landed(100_000))
	must(t, to.Close())
	to = open(t, dir, spec)
	if to.Offset() != 100_000 {
		t.Errorf("it goes on at %d, want 100000", to.Offset())
	}
	write(t, to, content[1:200_001], 100_000)
	must(t, to.Landed(300_000))
	if _, err := to.Finish(300_000, rootOf(content)); !errors.Is(err, object.ErrDamaged) {
		t.Errorf("%v, want it damaged", err)
	}
	must(t, to.Close())
	to = open(t, dir, spec)
	if to.Offset() != 0 {
		t.Errorf("it begins at %d, want 0", to.Offset())
	}
	must(t, to.Close())
}

// Only one sink has a path at a time.
func TestOneSinkOfAPath(t *testing.T) {
	dir := t.TempDir()
	for _, spec := range []sink.Spec{streamSpec("s"), fileSpec("f", make([]byte, 10))} {
		to := open(t, dir, spec)
		if _, err := sink.Open(t.Context(), dir, spec); !errors.Is(err, object.ErrBusy) {
			t.Errorf("%s: %v, want it busy", spec.Path, err)
		}
		must(t, to.Close())
		must(t, open(t, dir, spec).Close())
	}
}

// An upload below the path of a file is refused for its name, however far below it is: that is no failure of the disk.
func TestBelowAFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "alice"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "alice/f"), []byte("one"), 0o600))
	for _, spec := range []sink.Spec{fileSpec("f/x", []byte("two")), fileSpec("f/x/y", []byte("two")), streamSpec("f/x")} {
		if _, err := sink.Open(t.Context(), dir, spec); !object.IsRefused(err) {
			t.Errorf("%s is opened, or fails: %v", spec.Path, err)
		}
		if found, err := sink.Existing(t.Context(), dir, spec); err == nil && found[0] != nil || err != nil && !object.IsRefused(err) {
			t.Errorf("%s is looked for: %v, %v", spec.Path, found, err)
		}
	}
}

// A directory that could not be made durable, or whose maker was killed before that, is made durable by the next upload before anything
// goes below it. Syncing a directory takes an open file, making one does not: where no file can be opened, only the sync fails.
func TestDirectoryThatIsThereIsMadeDurable(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		withoutFiles(t, func() {
			if _, err := sink.Open(t.Context(), dir, streamSpec("log")); !errors.Is(err, unix.EMFILE) {
				t.Errorf("%v, want that no file can be opened", err)
			}
		})
		below, err := os.ReadDir(filepath.Join(dir, "alice"))
		if err != nil || len(below) > 0 {
			t.Errorf("below a directory that is not durable is %v (%v)", below, err)
		}
	}
	must(t, open(t, dir, streamSpec("log")).Close())
}

// A file that is said to be there already outlives a power cut, with the directories that it is in, even if whoever put it there has
// synced nothing, as a process that was killed.
func TestWhatIsThereIsMadeDurable(t *testing.T) {
	disk, content := testdisk.New(t, "64M"), random(9, 300_000)
	must(t, os.MkdirAll(filepath.Join(disk.Dir, "alice/a/b"), 0o700))
	must(t, os.WriteFile(filepath.Join(disk.Dir, "alice/a/b/f"), content, 0o600))
	found, err := sink.Existing(t.Context(), disk.Dir, fileSpec("a/b/f", content))
	if err != nil || found[0] == nil || *found[0] != rootOf(content) {
		t.Fatalf("what is there: %v, %v", found, err)
	}
	left, done := disk.Cut(t)
	defer done()
	if got, err := os.ReadFile(filepath.Join(left, "alice/a/b/f")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("after a power cut: %d bytes, %v", len(got), err)
	}
}

// withoutFiles does something while this process can open none.
func withoutFiles(t *testing.T, do func()) {
	t.Helper()
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	do()
}
