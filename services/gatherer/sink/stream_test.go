package sink_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

const segment = 1000

// read returns what is in a stream's segments.
func read(t failing, dir string) (content []byte) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "alice/log.stream"))
	must(t, err)
	for _, entry := range entries {
		if entry.Name() == sink.CommittedName {
			continue
		}
		at, err := strconv.ParseInt(entry.Name(), 10, 64)
		must(t, err)
		text, err := os.ReadFile(filepath.Join(dir, "alice/log.stream", entry.Name()))
		must(t, err)
		content = append(content, make([]byte, max(0, int(at)+len(text)-len(content)))...)
		copy(content[at:], text)
	}
	return content
}

func copyOf(t testing.TB, dir string) string {
	t.Helper()
	to := memory(t)
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// memory returns a directory in memory: how busy the disk is makes no difference.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "groupcast-sink-") //nolint:usetesting // the test framework chooses the disk
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A stream is the bytes of its segments, each of which has its size, wherever pieces end.
func TestStreamIsItsSegments(t *testing.T) {
	sink.Segments(t, segment)
	dir, content := memory(t), random(3, 10*segment)
	for _, upTo := range []uint64{1, segment - 1, segment, segment + 1, 2 * segment, 5*segment + 7, 10 * segment} {
		to := open(t, dir, streamSpec("log"))
		from := to.Offset()
		write(t, to, content[from:upTo], from)
		must(t, to.Landed(upTo))
		_, err := to.Finish(upTo, rootOf(content[from:upTo]))
		must(t, err)
		if placed := to.Placed(); placed != nil {
			t.Errorf("%+v of a stream is taken to be whole", placed)
		}
		must(t, to.Close())
		if got := read(t, dir); !bytes.Equal(got, content[:upTo]) {
			t.Fatalf("up to %d: %d bytes, or other ones", upTo, len(got))
		}
	}
}

// If what came is not what was sent, that is told at the end.
func TestStreamThatIsDamaged(t *testing.T) {
	to := open(t, t.TempDir(), streamSpec("log"))
	defer to.Close()
	write(t, to, []byte("abc"), 0)
	must(t, to.Landed(3))
	for length, root := range map[uint64]object.Root{3: rootOf([]byte("abd")), 4: rootOf([]byte("abc"))} {
		if _, err := to.Finish(length, root); !errors.Is(err, object.ErrDamaged) {
			t.Errorf("%d: %v, want it damaged", length, err)
		}
	}
}

// Whatever a power cut leaves of the record that is being written, the stream goes on where one of the last two commits left it, and
// what comes next goes behind that.
func TestTornRecordCostsOneCommit(t *testing.T) {
	sink.Segments(t, segment)
	dir, content := memory(t), random(4, 3*segment)
	var commits []uint64
	for _, upTo := range []uint64{700, 1700, 2600} {
		to := open(t, dir, streamSpec("log"))
		write(t, to, content[to.Offset():upTo], to.Offset())
		must(t, to.Landed(upTo))
		must(t, to.Close())
		commits = append(commits, upTo)
	}
	for name, spoil := range map[string]func([]byte){
		"nothing": func([]byte) {},
		"first":   func(b []byte) { b[3] ^= 0xff },
		"second":  func(b []byte) { b[4096+5] ^= 0xff },
		"cut off": func(b []byte) { clear(b[4096+6:]) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, dir)
			file := filepath.Join(dir, "alice/log.stream", sink.CommittedName)
			record, err := os.ReadFile(file)
			must(t, err)
			spoil(record)
			must(t, os.WriteFile(file, record, 0o600))
			to := open(t, dir, streamSpec("log"))
			defer to.Close()
			if at := to.Offset(); at != commits[1] && at != commits[2] {
				t.Errorf("it goes on at %d, want one of %v", at, commits[1:])
			}
			if got := read(t, dir); !bytes.Equal(got, content[:to.Offset()]) {
				t.Errorf("%d bytes are there, or other ones, want %d", len(got), to.Offset())
			}
		})
	}
}

// A first commit that was torn does not count: nobody was told of it.
func TestTornFirstRecord(t *testing.T) {
	dir := memory(t)
	must(t, open(t, dir, streamSpec("log")).Close())
	file := filepath.Join(dir, "alice/log.stream", sink.CommittedName)
	must(t, os.WriteFile(file, append(make([]byte, 4096), 1, 2, 3), 0o600))
	to := open(t, dir, streamSpec("log"))
	defer to.Close()
	if to.Offset() != 0 {
		t.Errorf("it goes on at %d", to.Offset())
	}
}

// What the documents have an operator call prints how far a stream is safe: before the first commit, and after those into either record.
func TestCommittedIsReadAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/gathering.md")
	must(t, err)
	command := regexp.MustCompile(`(?m)^    (for at in .*NAME\.stream/committed.*)$`).FindSubmatch(text)
	if command == nil {
		t.Fatal("the documents have no command")
	}
	dir := memory(t)
	for _, upTo := range []uint64{0, 300, 70_000, 70_001} {
		to := open(t, dir, streamSpec("log"))
		write(t, to, make([]byte, upTo-to.Offset()), to.Offset())
		must(t, to.Landed(upTo))
		must(t, to.Close())
		shell := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(string(command[1]), "NAME", "log"))
		shell.Dir = filepath.Join(dir, "alice")
		printed, err := shell.Output()
		must(t, err)
		var one, other uint64
		if _, err := fmt.Sscan(string(printed), &one, &other); err != nil || max(one, other) != upTo {
			t.Errorf("with %d committed it prints %q: %v", upTo, printed, err)
		}
	}
}

// A stream whose records are damaged or gone, or whose committed bytes are, is not begun anew, however often it is tried: it would
// silently lose what it said that it has.
func TestLostCommitIsNoBeginning(t *testing.T) {
	sink.Segments(t, segment)
	dir := memory(t)
	for upTo := uint64(600); upTo < 6000; upTo += 600 {
		to := open(t, dir, streamSpec("log"))
		write(t, to, make([]byte, upTo-to.Offset()), to.Offset())
		must(t, to.Landed(upTo))
		must(t, to.Close())
	}
	for what, spoil := range map[string]func(dir string) error{
		"records": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, sink.CommittedName), bytes.Repeat([]byte{7}, 8192), 0o600)
		},
		"missing": func(dir string) error { return os.Remove(filepath.Join(dir, sink.CommittedName)) },
		"empty":   func(dir string) error { return os.Truncate(filepath.Join(dir, sink.CommittedName), 0) },
		"zeros": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, sink.CommittedName), make([]byte, 8192), 0o600)
		},
		"segment":   func(dir string) error { return os.Remove(filepath.Join(dir, name(5000))) },
		"its bytes": func(dir string) error { return os.Truncate(filepath.Join(dir, name(5000)), 10) },
	} {
		dir := copyOf(t, dir)
		must(t, spoil(filepath.Join(dir, "alice/log.stream")))
		before := read(t, dir)
		for range 2 {
			if _, err := sink.Open(t.Context(), dir, streamSpec("log")); !errors.Is(err, object.ErrDamaged) {
				t.Errorf("%s: %v, want it damaged", what, err)
			}
		}
		if !bytes.Equal(read(t, dir), before) {
			t.Errorf("%s: what is there is not what was", what)
		}
	}
}

// A short stream whose record is gone is not begun anew, either, although nothing tells whether its bytes were committed.
func TestLostRecordOfAShortStream(t *testing.T) {
	for what, spoil := range map[string]func(file string) error{
		"missing": os.Remove,
		"zeros":   func(file string) error { return os.WriteFile(file, make([]byte, 8192), 0o600) },
	} {
		dir := memory(t)
		to := open(t, dir, streamSpec("log"))
		write(t, to, []byte("abc"), 0)
		must(t, errors.Join(to.Landed(3), to.Close(), spoil(filepath.Join(dir, "alice/log.stream", sink.CommittedName))))
		if _, err := sink.Open(t.Context(), dir, streamSpec("log")); !errors.Is(err, object.ErrDamaged) {
			t.Errorf("%s: %v, want it damaged", what, err)
		}
	}
}

// Of a stream that was removed while it is open, or whose last segment was, no more is said to be on disk. It can be begun anew.
func TestRemovedStreamIsNotCommitted(t *testing.T) {
	for _, removed := range []string{"alice", "alice/log.stream", "alice/log.stream/" + name(0), "alice/log.stream/" + sink.CommittedName} {
		dir := memory(t)
		to := open(t, dir, streamSpec("log"))
		write(t, to, []byte("abc"), 0)
		must(t, to.Landed(3))
		_, err := to.Commit()
		must(t, err)
		must(t, os.RemoveAll(filepath.Join(dir, removed)))
		write(t, to, []byte("def"), 3)
		must(t, to.Landed(6))
		if upTo, err := to.Commit(); upTo != 3 || !errors.Is(err, object.ErrDamaged) {
			t.Errorf("without %s %d bytes are committed: %v, want it damaged", removed, upTo, err)
		}
		if err := to.Close(); !errors.Is(err, object.ErrDamaged) {
			t.Errorf("without %s it is closed: %v", removed, err)
		}
		must(t, os.RemoveAll(filepath.Join(dir, "alice")))
		again := open(t, dir, streamSpec("log"))
		if again.Offset() != 0 {
			t.Errorf("it begins at %d", again.Offset())
		}
		must(t, again.Close())
	}
}

// What an earlier version leaves that was killed before its first commit is a beginning: it wrote no record before that.
func TestBeginningOfAnEarlierVersion(t *testing.T) {
	dir := memory(t)
	lay(t, dir, "alice/log.stream/"+name(0), 100)
	lay(t, dir, "alice/log.stream/"+sink.CommittedName, 0)
	to := open(t, dir, streamSpec("log"))
	if to.Offset() != 0 || len(read(t, dir)) != 0 {
		t.Errorf("it begins at %d, and %d bytes are there", to.Offset(), len(read(t, dir)))
	}
	must(t, to.Close())
}

// The first record is on disk before there is a segment: whatever the power is cut in, a new stream begins.
func TestNewStreamOutlivesPowerCut(t *testing.T) {
	disk := testdisk.New(t, "64M")
	to := open(t, disk.Dir, streamSpec("log"))
	defer to.Close()
	write(t, to, []byte("abc"), 0)
	segment, err := os.Open(filepath.Join(disk.Dir, "alice/log.stream", name(0)))
	must(t, err)
	must(t, errors.Join(segment.Sync(), segment.Close())) // as the kernel does now and then
	left, done := disk.Cut(t)
	defer done()
	after := open(t, left, streamSpec("log"))
	if after.Offset() != 0 {
		t.Errorf("it goes on at %d", after.Offset())
	}
	must(t, after.Close())
}

// Whatever comes, in any order, and however often the power is cut or the process is killed: what was committed is there, it is the
// beginning of the stream, and nothing else comes after it.
func TestStreamOutlivesCuts(t *testing.T) {
	sink.Segments(t, segment)
	content := random(5, 1<<16)
	rapid.Check(t, func(r *rapid.T) {
		dir, committed := memory(t), uint64(0)
		to := open(t, dir, streamSpec("log"))
		landed := uint64(0)
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			switch step := rapid.SampledFrom([]string{"write", "ahead", "close", "kill", "cut"}).Draw(r, "step"); step {
			case "write":
				upTo := min(landed+uint64(rapid.IntRange(1, 2500).Draw(r, "bytes")), uint64(len(content)))
				write(r, to, content[landed:upTo], landed)
				landed = upTo
				must(r, to.Landed(landed))
				continue
			case "ahead": // by another connection, behind a gap
				from := landed + uint64(rapid.IntRange(1, 4000).Draw(r, "gap"))
				if upTo := from + 300; upTo < uint64(len(content)) {
					write(r, to, content[from:upTo], from)
				}
				continue
			case "close":
				committed = landed
			default: // what was written after the last commit may be there, or parts of it
				before := dir
				dir = copyOf(t, before)
				if step == "cut" {
					lose(r, dir, committed)
				}
			}
			must(r, to.Close())
			to = open(t, dir, streamSpec("log"))
			landed = to.Offset()
			if got := read(r, dir); landed != committed || !bytes.Equal(got, content[:landed]) {
				r.Fatalf("%d bytes are committed, %d are said to be, and %d are there, or other ones", committed, landed, len(got))
			}
		}
		must(r, to.Close())
	})
}

// Commits go on while more lands: each has what had landed by then, and all is there in the end.
func TestCommitsBesideWhatLands(t *testing.T) {
	sink.Segments(t, segment)
	dir, content := memory(t), random(52, 40*segment)
	to := open(t, dir, streamSpec("log"))
	landed, last := make(chan uint64, len(content)), uint64(0)
	var committing sync.WaitGroup
	committing.Go(func() {
		for upTo := range landed {
			committed, err := to.Commit()
			if err != nil || committed < upTo || committed < last {
				t.Errorf("%d bytes are committed of %d, and were %d: %v", committed, upTo, last, err)
			}
			last = committed
		}
	})
	for at := 0; at < len(content); {
		upTo := min(at+segment/3, len(content))
		write(t, to, content[at:upTo], uint64(at))
		must(t, to.Landed(uint64(upTo)))
		landed <- uint64(upTo)
		at = upTo
	}
	close(landed)
	committing.Wait()
	_, err := to.Finish(uint64(len(content)), rootOf(content))
	must(t, errors.Join(err, to.Close()))
	if !bytes.Equal(read(t, dir), content) {
		t.Error("what is there is not what came")
	}
}

// The power is cut now and then. What a stream said that it has committed is on the disk, with the names of its segments, though nothing
// else syncs that disk.
func TestStreamOutlivesPowerCuts(t *testing.T) {
	const cuts, seed = 12, 50
	disk := testdisk.New(t, "64M")
	sink.Segments(t, 1<<20)
	content, random := random(seed, 16<<20), rand.New(rand.NewPCG(seed, 2))
	to := open(t, disk.Dir, streamSpec("log"))
	defer to.Close()
	landed := uint64(0)
	for i := range cuts {
		committed := uint64(0)
		for committed == 0 || random.IntN(3) > 0 {
			upTo := min(landed+1+uint64(random.IntN(400_000)), uint64(len(content)))
			write(t, to, content[landed:upTo], landed)
			landed = upTo
			must(t, to.Landed(landed))
			time.Sleep(time.Duration(random.IntN(250)) * time.Millisecond) // by when it may be due
			if due := to.Due(); due.IsZero() || time.Now().Before(due) {
				continue
			}
			var err error
			committed, err = to.Commit()
			must(t, err)
		}
		left, done := disk.Cut(t)
		after := open(t, left, streamSpec("log"))
		got := read(t, left)
		if after.Offset() < committed || !bytes.Equal(got[:committed], content[:committed]) {
			t.Errorf("at cut %d %d bytes were committed, and %d of %d are there, or others", i, committed, after.Offset(), len(got))
		}
		must(t, after.Close())
		done()
	}
	t.Logf("%d bytes in %d cuts", landed, cuts)
}

// A record that was written and not synced, as by a process that was killed in between, counts when the stream is opened again: it is
// on disk before anybody is told of it.
func TestRecordThatWasNotSyncedOutlivesPowerCuts(t *testing.T) {
	disk, content := testdisk.New(t, "64M"), random(51, 3000)
	to := open(t, disk.Dir, streamSpec("log"))
	write(t, to, content[:1000], 0)
	must(t, to.Landed(1000))
	must(t, to.Close())
	dir := filepath.Join(disk.Dir, "alice/log.stream")
	must(t, appendTo(filepath.Join(dir, name(0)), content[1000:]))
	for slot := range 2 { // whichever is the older
		record, at := sink.Record(slot, 2000+uint64(slot)*1000)
		file, err := os.OpenFile(filepath.Join(dir, sink.CommittedName), os.O_WRONLY, 0)
		must(t, err)
		_, err = file.WriteAt(record, at)
		must(t, errors.Join(err, file.Close()))
		to = open(t, disk.Dir, streamSpec("log"))
		offset := to.Offset()
		must(t, to.Close())
		left, done := disk.Cut(t)
		after := open(t, left, streamSpec("log"))
		if after.Offset() != offset || !bytes.Equal(read(t, left), content[:offset]) {
			t.Errorf("%d bytes were said to be committed, and after a power cut %d are, or other ones", offset, after.Offset())
		}
		must(t, after.Close())
		done()
		must(t, appendTo(filepath.Join(dir, name(0)), content[offset:])) // what was cut off
	}
}

// appendTo adds to a file, and syncs it.
func appendTo(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// lose removes segments that were never synced.
func lose(t *rapid.T, dir string, committed uint64) {
	for at := (committed + segment - 1) / segment * segment; at < 1<<17; at += segment {
		file := filepath.Join(dir, "alice/log.stream", name(at))
		if _, err := os.Stat(file); err == nil && rapid.Bool().Draw(t, "lost") {
			must(t, os.Remove(file))
		}
	}
}

func name(offset uint64) string {
	digits := strconv.FormatUint(offset, 10)
	return "00000000000000000000"[len(digits):] + digits
}
