package sink_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// lay puts a file below a client's directory.
func lay(t *testing.T, dir, path string, size int) {
	t.Helper()
	at := filepath.Join(dir, path)
	must(t, os.MkdirAll(filepath.Dir(at), 0o700))
	must(t, os.WriteFile(at, make([]byte, size), 0o600))
}

// there returns what is below a directory.
func there(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	slices.Sort(all)
	return all
}

func wantThere(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := there(t, dir); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}

// Without a bound everything stays. Whatever is too old is removed; of a client that has too many bytes, as much as has to be, the
// oldest first.
func TestRetention(t *testing.T) {
	dir := memory(t)
	for i := range 4 {
		lay(t, dir, fmt.Sprintf("d%d/f", i), 100)
	}
	now := time.Now()
	for _, one := range []struct {
		sink.Retention
		now   time.Time
		files int
		want  []string
	}{
		{sink.Retention{}, now.Add(1000 * time.Hour), 0, []string{"d0/f", "d1/f", "d2/f", "d3/f"}},
		{sink.Retention{Age: time.Hour, Bytes: 400}, now, 0, []string{"d0/f", "d1/f", "d2/f", "d3/f"}},
		{sink.Retention{Age: time.Hour, Bytes: 399}, now, 1, []string{"d1/f", "d2/f", "d3/f"}},
		{sink.Retention{Bytes: 300}, now, 0, []string{"d1/f", "d2/f", "d3/f"}},
		{sink.Retention{Bytes: 100}, now, 2, []string{"d3/f"}},
		{sink.Retention{Age: time.Hour}, now.Add(59 * time.Minute), 0, []string{"d3/f"}},
		{sink.Retention{Age: time.Hour}, now.Add(61 * time.Minute), 1, nil},
	} {
		files, bytes, err := one.Retain(dir, one.now)
		must(t, err)
		if files != one.files || bytes != uint64(100*one.files) {
			t.Errorf("%+v: %d files of %d bytes are removed, want %d", one.Retention, files, bytes, one.files)
		}
		wantThere(t, dir, one.want...)
	}
}

// Of files that came in any order and have any size, the oldest are removed, and no more of them than has to be.
func TestTheOldestGo(t *testing.T) {
	const seed, files = 60, 40
	dir, random := memory(t), rand.New(rand.NewPCG(seed, 3))
	var sizes []int // of the files that are there, the oldest first
	for i := range files {
		sizes = append(sizes, random.IntN(1000))
		lay(t, dir, fmt.Sprintf("d%d/f%02d", random.IntN(5), i), sizes[i])
		awaitTick(t, dir)
	}
	for bytes := files * 500; bytes > 0; bytes -= 1000 {
		_, _, err := sink.Retention{Bytes: uint64(bytes)}.Retain(dir, time.Now())
		must(t, err)
		for sumOf(sizes) > bytes {
			sizes = sizes[1:]
		}
		var names []string
		for _, path := range there(t, dir) {
			names = append(names, path[len("d0/f"):])
		}
		slices.Sort(names)
		var want []string
		for i := range sizes {
			want = append(want, fmt.Sprintf("%02d", files-len(sizes)+i))
		}
		if !slices.Equal(names, want) {
			t.Fatalf("with %d bytes %v are there, want %v", bytes, names, want)
		}
	}
}

func sumOf(sizes []int) (sum int) {
	for _, size := range sizes {
		sum += size
	}
	return sum
}

// awaitTick waits until the file system's clock has ticked: what comes after that is younger.
func awaitTick(t *testing.T, dir string) {
	t.Helper()
	clock := filepath.Join(dir, "clock")
	changed := func() time.Time {
		must(t, os.WriteFile(clock, nil, 0o600))
		info, err := os.Stat(clock)
		must(t, err)
		return info.ModTime()
	}
	for began := changed(); !changed().After(began); <-time.After(time.Millisecond) {
	}
	must(t, os.Remove(clock))
}

// If an upload takes the place of a file after that was looked at and before it is removed, the upload stays: its client was told that
// it is durable. If the file is gone by then, that is no error.
func TestRetentionLeavesWhatHasComeMeanwhile(t *testing.T) {
	dir, content := memory(t), random(8, 100)
	at := filepath.Join(dir, "alice/f")
	lay(t, dir, "alice/f", len(content))
	replace := func() {
		to := open(t, dir, fileSpec("f", content))
		write(t, to, content, 0)
		must(t, to.Landed(uint64(len(content))))
		_, err := to.Finish(uint64(len(content)), rootOf(content))
		must(t, err)
		must(t, to.Close())
	}
	wants := func(want bool, meanwhile func()) {
		t.Helper()
		if removed, err := sink.RemoveAfter(at, meanwhile); removed != want || err != nil {
			t.Errorf("removed: %t, %v", removed, err)
		}
	}
	wants(false, replace)
	letGo := sink.Hold(at)
	wants(false, func() {})
	letGo()
	if got, err := os.ReadFile(at); err != nil || string(got) != string(content) {
		t.Errorf("the upload is not there: %v", err)
	}
	wants(true, func() {})
	lay(t, dir, "alice/f", 1)
	wants(false, func() { must(t, os.Remove(at)) })
}

// nobody is a user without privileges.
const nobody = 65534

// asNobody does something without the privilege to look into everybody's directories.
func asNobody(t *testing.T, dir string, do func()) {
	t.Helper()
	if os.Getuid() == 0 {
		must(t, os.Chown(dir, nobody, nobody))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(nobody))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	do()
}

// A directory that cannot be looked into keeps nothing else from being removed, before or after it, nor what was abandoned, nor from being
// counted. It is named in the error.
func TestRetentionPassesOverWhatCannotBeRead(t *testing.T) {
	dir := memory(t)
	asNobody(t, dir, func() {
		for _, path := range []string{"a/f", "b/f", "c/f"} {
			lay(t, dir, path, 100)
		}
		closed := filepath.Join(dir, "a")
		must(t, os.Chmod(closed, 0))
		defer func() { must(t, os.Chmod(closed, 0o700)) }()
		if bytes, _, err := sink.Stored(dir); bytes != 200 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%d bytes are counted, want 200: %v", bytes, err)
		}
		wants := func(r sink.Retention, now time.Time, want int) {
			t.Helper()
			files, _, err := r.Retain(dir, now)
			if files != want || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%+v: %d files are removed, want %d: %v", r, files, want, err)
			}
		}
		wants(sink.Retention{Bytes: 100}, time.Now(), 1)
		wants(sink.Retention{Age: time.Hour}, time.Now().Add(2*time.Hour), 1)
		if err := sink.Sweep(dir, object.Abandoned); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("what was abandoned is looked for: %v", err)
		}
	})
	wantThere(t, dir, "a/f")
}

// Held files are neither removed nor counted: no newer ones are removed for them.
func TestRetentionLeavesWhatIsHeld(t *testing.T) {
	dir := memory(t)
	for i := range 4 {
		lay(t, dir, fmt.Sprintf("f%d", i), 100)
	}
	letGo := sink.Hold(filepath.Join(dir, "f0"))
	for _, want := range [][]string{{"f0", "f2", "f3"}, {"f2", "f3"}} {
		_, _, err := sink.Retention{Bytes: 200}.Retain(dir, time.Now())
		must(t, err)
		wantThere(t, dir, want...)
		letGo()
	}
}

// The part of an upload that nobody goes on with stays for a week.
func TestAbandonedUploadsGoWithTheirAge(t *testing.T) {
	dir := memory(t)
	content := random(7, 5000)
	to := open(t, dir, fileSpec("f", content))
	write(t, to, content, 0)
	must(t, to.Landed(uint64(len(content))))
	must(t, to.Close())
	var partial []string
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		partial = append(partial, path)
		return err
	}))
	before := there(t, dir)
	if len(before) == 0 {
		t.Fatal("nothing is there of the upload")
	}
	const day = 24 * time.Hour
	for _, one := range []struct {
		age  time.Duration
		want []string
	}{{6 * day, before}, {30 * day, nil}} {
		since := time.Now().Add(-one.age)
		for _, path := range partial {
			must(t, os.Chtimes(path, since, since))
		}
		must(t, sink.Sweep(filepath.Join(dir, "alice"), object.Abandoned))
		wantThere(t, dir, one.want...)
	}
}

// Full segments of a stream are removed except for the last five. The segment that is being written and the record stay, and the stream
// goes on where it was.
func TestRetentionOfStreams(t *testing.T) {
	sink.Segments(t, segment)
	dir := memory(t)
	content := random(5, 8*segment+10)
	to := open(t, dir, streamSpec("log"))
	write(t, to, content, 0)
	must(t, to.Landed(uint64(len(content))))
	must(t, to.Close())
	files, _, err := sink.Retention{Age: time.Hour}.Retain(filepath.Join(dir, "alice"), time.Now().Add(2*time.Hour))
	must(t, err)
	if files != 3 {
		t.Errorf("%d segments are removed of 8 full ones, want 3", files)
	}
	if got := read(t, dir); string(got[3*segment:]) != string(content[3*segment:]) {
		t.Error("what stays is not what came")
	}
	again := open(t, dir, streamSpec("log"))
	if again.Offset() != uint64(len(content)) {
		t.Errorf("it goes on at %d, want %d", again.Offset(), len(content))
	}
	must(t, again.Close())
}

// The part of an upload that goes on is never removed for its age or its size.
func TestRetentionLeavesWhatComes(t *testing.T) {
	dir, content := memory(t), random(6, 5000)
	to := open(t, dir, fileSpec("f", content))
	write(t, to, content, 0)
	files, _, err := sink.Retention{Age: time.Hour, Bytes: 1}.Retain(filepath.Join(dir, "alice"), time.Now().Add(2*time.Hour))
	if files != 0 || err != nil {
		t.Errorf("%d files are removed, %v", files, err)
	}
	must(t, to.Landed(uint64(len(content))))
	_, err = to.Finish(uint64(len(content)), rootOf(content))
	must(t, err)
	must(t, to.Close())
	if got, err := os.ReadFile(filepath.Join(dir, "alice/f")); err != nil || string(got) != string(content) {
		t.Errorf("the upload has not come whole: %v", err)
	}
}
