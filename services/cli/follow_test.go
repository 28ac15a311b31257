package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// log is a file that is followed in this process.
type log struct {
	*testing.T
	name, state string
	told        []string
	hasty       bool // files may be born in one tick of the file system's clock
}

func newLog(t *testing.T) *log {
	return &log{T: t, name: filepath.Join(t.TempDir(), "app.log"), state: filepath.Join(t.TempDir(), "state.json")}
}

func (l *log) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// write makes a file, under the name and a suffix.
func (l *log) write(suffix, text string) {
	l.Helper()
	to, err := os.OpenFile(l.name+suffix, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	l.must(err)
	_, err = to.WriteString(text)
	l.must(err)
	l.must(to.Close())
	if !l.hasty {
		l.awaitTick()
	}
}

// awaitTick waits until the file system's clock has ticked: what is written next is born later.
func (l *log) awaitTick() {
	l.Helper()
	now := l.clock()
	for end := time.Now().Add(10 * time.Second); l.clock() <= now; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			l.Fatal("the file system's clock stands still")
		}
	}
}

// clock returns when a file that is made now is born.
func (l *log) clock() int64 {
	l.Helper()
	file, err := os.CreateTemp(filepath.Dir(l.state), "clock")
	l.must(err)
	made, _, err := identify(file)
	l.must(errors.Join(err, file.Close(), os.Remove(file.Name())))
	return made.Born
}

func (l *log) rename(from, to string) {
	l.Helper()
	l.must(os.Rename(l.name+from, l.name+to))
}

// follow follows the file from an offset of the stream on, until so much has come.
func (l *log) follow(offset uint64) *following {
	l.Helper()
	say := func(line string) { l.told = append(l.told, line) }
	book, err := openBook(l.state, bookOf{File: l.name, Stream: "app.log"}, say)
	l.must(err)
	f, err := follow(l.Context(), l.name, offset, book, say)
	l.must(err)
	return f
}

// want reads until all of a text has come, and makes sure that it is that text, and that nothing comes after it.
func (l *log) want(f *following, text string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 20*time.Second)
	defer cancel()
	f.ctx = ctx
	got, buffer := "", make([]byte, 1000)
	for len(got) < len(text) {
		n, err := f.Read(buffer)
		if got += string(buffer[:n]); err != nil {
			l.Fatalf("%q has come, want %q: %v", got, text, err)
		}
	}
	if got != text {
		l.Fatalf("%q has come, want %q", got, text)
	}
}

func (l *log) wantTold(texts ...string) {
	l.Helper()
	if len(l.told) != len(texts) {
		l.Fatalf("told %q, want %d lines", l.told, len(texts))
	}
	for i, text := range texts {
		if !strings.Contains(l.told[i], text) {
			l.Errorf("told %q, want %q in it", l.told[i], text)
		}
	}
	l.told = nil
}

// A program goes on writing to a file for a moment after that was renamed; and a file may have had the name
// between two looks. Copies of what was read before are not taken for such files.
func TestFollowMissesNothingOfARotation(t *testing.T) {
	l := newLog(t)
	l.write("", "one ")
	f := l.follow(0)
	l.want(f, "one ")
	l.write("-20261122", "a copy of what was read ")
	l.write("", "two ")
	l.rename("", ".2")
	l.write(".2", "late ")
	l.write("", "three ")
	l.rename("", ".1")
	l.write(".note", "no log ")
	l.write("", "four ")
	l.want(f, "two late three four ")
	l.wantTold()
}

// A name may be a link to a file elsewhere, which is rotated there. What was never seen of that is found by the file's own name, and the
// file that was read is found while nothing has that name.
func TestFollowMissesNothingBehindALink(t *testing.T) {
	l, own := newLog(t), newLog(t)
	own.name = filepath.Join(filepath.Dir(own.name), "0.log")
	l.must(errors.Join(os.Mkdir(filepath.Join(filepath.Dir(l.name), "containers"), 0o700), os.Symlink(own.name, l.name)))
	l.name = filepath.Join(filepath.Dir(l.name), "containers", "x.log")
	l.must(os.Symlink("../app.log", l.name)) // which is a link, too
	own.write("", "one ")
	f := l.follow(0)
	l.want(f, "one ")
	l.must(f.close())
	own.write("", "late ")
	own.rename("", ".20261122-100000")
	own.write("", "two ")
	own.rename("", ".20261122-110000")
	own.write("", "three ")
	f = l.follow(4)
	l.want(f, "late two three ")
	l.must(f.close())
	own.write("", "later ")
	own.rename("", ".20261122-120000")
	f = l.follow(4 + 15)
	l.want(f, "later ")
	own.write("", "four ")
	l.want(f, "four ")
	l.wantTold()
}

// A file that is cut in place is read from its beginning, even if it has more than before when it is looked at again.
func TestFollowOfWhatIsCutAndGrows(t *testing.T) {
	l := newLog(t)
	l.write("", "one ")
	f := l.follow(0)
	l.want(f, "one ")
	l.readToItsEnd(f)
	l.must(os.Truncate(l.name, 0))
	l.write("", "two three four ")
	l.want(f, "two three four ")
	l.readToItsEnd(f)
	l.must(os.Truncate(l.name, 0))
	l.write("", "five ")
	l.want(f, "five ")
	l.wantTold()
}

// readToItsEnd has the reader find that nothing more is in the file.
func (l *log) readToItsEnd(f *following) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	cancel()
	f.ctx = ctx
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		l.Fatalf("%d more bytes have come, %v", n, err)
	}
}

// Files that are rotated faster than the file system's clock ticks are read, too.
func TestFollowOverHastyRotations(t *testing.T) {
	l := newLog(t)
	l.write("", "one ")
	f := l.follow(0)
	l.want(f, "one ")
	l.hasty = true
	l.rename("", ".2")
	l.write("", "two ")
	l.rename("", ".1")
	l.write("", "three ")
	l.want(f, "two three ")
	l.wantTold()
}

// A gatherer that has lost some of a stream gets what there is, and the user is told.
func TestFollowOfWhatTheGathererHasLost(t *testing.T) {
	l := newLog(t)
	l.write("", "0123456789")
	l.want(l.follow(0), "0123456789")
	l.rename("", ".1")
	l.write("", "abcdef")
	f := l.follow(10)
	l.want(f, "abcdef")
	l.must(f.close())
	l.want(l.follow(12), "cdef") // what ended before is forgotten
	l.wantTold()
	l.want(l.follow(4), "abcdef")
	l.wantTold("up to 10 B is not remembered")
	l.want(l.follow(5), "bcdef") // the stream has moved
	l.wantTold()
}

// A file that is cut while what the gatherer has lost of it is read again, as to free a disk, is lost from there on, which the user is told.
// Those that had the name after it are read.
func TestFollowOfWhatIsCutWhileItIsReadAgain(t *testing.T) {
	l := newLog(t)
	l.write("", "0123456789")
	l.want(l.follow(0), "0123456789")
	l.rename("", ".1")
	l.write("", "abcdef")
	l.want(l.follow(9), "9abcdef")
	l.rename(".1", ".2")
	l.rename("", ".1")
	l.write("", "ghi")
	l.wantTold()
	f := l.follow(4)
	l.must(os.Truncate(l.name+".2", 0))
	l.want(f, "abcdefghi")
	l.wantTold("is gone or was cut")
}

// Files of which all is on the gatherer's disk are forgotten while following goes on, however often there is a rotation.
func TestFollowForgetsWhatIsStored(t *testing.T) {
	l := newLog(t)
	l.write("", "0")
	f := l.follow(0)
	l.want(f, "0")
	l.hasty = true
	for range 3 {
		f.book.stored.Store(f.offset)
		l.rename("", ".1")
		l.write("", "0123456789")
		l.want(f, "0123456789")
	}
	if n := len(f.book.pieces); n > 2 {
		t.Errorf("%d files are remembered, of which all but the last are stored", n)
	}
	at := f.offset - 3
	l.must(f.close())
	l.want(l.follow(at), "789")
	l.wantTold()
}

// Following can be begun while nothing has the name, as just after a rotation, if a file is known that had it: its rest is read first. A
// name that nothing ever had is a mistake.
func TestFollowBeginsWithoutTheName(t *testing.T) {
	l := newLog(t)
	u := &upload{follow: true, path: "app.log", state: l.state}
	missing := func() error {
		_, err := u.openBook("alice", l.name, func(string) {})
		return cmp.Or(u.check(l.name), err)
	}
	if err := missing(); exitStatus(err) != exitUsage {
		t.Errorf("what was never there: %v", err)
	}
	l.write("", "one ")
	f := l.follow(0)
	l.want(f, "one ")
	l.must(f.close())
	l.write("", "late ")
	l.rename("", ".1")
	l.must(missing())
	f = l.follow(4)
	l.want(f, "late ")
	l.write("", "two ")
	l.want(f, "two ")
	l.wantTold()
}

// A book that was kept for one file is not taken for that of another, and one that cannot be read is made anew.
func TestFollowStateIsOfOneFile(t *testing.T) {
	l := newLog(t)
	l.write("", "0123456789")
	l.want(l.follow(0), "0123456789")
	_, err := openBook(l.state, bookOf{File: "other", Stream: "app.log"}, func(string) {})
	if exitStatus(err) != exitUsage {
		t.Errorf("the state of another file: %v", err)
	}
	alice := bookOf{File: l.name, Stream: "app.log", Client: "alice"}
	for _, gatherer := range []string{"g", "other", "g"} { // an earlier version has said neither whose it is nor where
		book, err := openBook(l.state, alice, func(string) {})
		l.must(err)
		if err := book.is(gatherer); exitStatus(err) == exitUsage != (gatherer == "other") {
			t.Errorf("the state of a stream at g, for one at %s: %v", gatherer, err)
		}
		book.write()
	}
	_, err = openBook(l.state, bookOf{File: l.name, Stream: "app.log", Client: "bob"}, func(string) {})
	if exitStatus(err) != exitUsage {
		t.Errorf("the state of another client: %v", err)
	}
	l.must(os.WriteFile(l.state, []byte("{"), 0o600))
	l.want(l.follow(3), "3456789")
	l.wantTold("cannot be read, and is made anew")
}

// A file that has lost its end, as by a power cut, goes on after what is unchanged. Only what came after the newest mark that it still
// has is uploaded again, and what was added where the lost bytes were is not skipped. A file of which only the first bytes are the same
// was cut.
func TestFollowOfWhatHasLostItsEnd(t *testing.T) {
	text := strings.Repeat("line\n", 200)
	for what, tt := range map[string]struct {
		read   []string // to its end each time
		stored int      // bytes of that
		now    string   // what the file has, when it is followed again,
		want   string   // and what comes of that
		told   string
	}{
		"a little":              {[]string{text}, 1000, text[:900], "", "100 B that are at the gatherer, up to byte 1000"},
		"all behind a mark":     {[]string{text, "a\nb\n"}, 1004, text + "a\n", "a\n", "4 B that are at the gatherer, up to byte 1004"},
		"others came":           {[]string{text, "lost\n"}, 1005, text + "new0\nnew1\n", "new0\nnew1\n", "5 B that are"},
		"what was not uploaded": {[]string{text, "lost\n"}, 1000, text + "new\n", "new\n", ""},
		"nothing":               {[]string{text, "a\n"}, 1002, text + "a\nnew\n", "new\n", ""},
		"nearly all":            {[]string{text[:500], text[500:]}, 1000, text[:300] + strings.Repeat("other\n", 50), text[:300] + strings.Repeat("other\n", 50), "was cut"},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLog(t)
			l.write("", "")
			f := l.follow(0)
			for _, part := range tt.read {
				l.write("", part)
				l.want(f, part)
				f.marked = time.Time{}
				l.readToItsEnd(f)
			}
			l.must(f.close())
			l.must(os.Truncate(l.name, 0))
			l.write("", tt.now)
			l.told = nil
			f = l.follow(uint64(tt.stored))
			l.want(f, tt.want)
			l.write("", "more\n")
			l.want(f, "more\n")
			if told := strings.Join(l.told, "\n"); !strings.Contains(told, tt.told) || (told == "") != (tt.told == "") {
				t.Errorf("told %q, want %q in it", told, tt.told)
			}
			l.must(f.close())
			l.told = nil
			l.want(l.follow(uint64(tt.stored+len(tt.want))), "more\n") // the stream has moved
			l.wantTold()
		})
	}
}

// reboot has the machine be started anew since the book was written.
func (l *log) reboot() {
	l.Helper()
	text, err := os.ReadFile(l.state)
	l.must(err)
	other := strings.Replace(string(text), boot(), "another", 1)
	if other == string(text) {
		l.Fatalf("%s does not say in which boot it was written", text)
	}
	l.must(os.WriteFile(l.state, []byte(other), 0o600))
}

// After a power cut a file may be longer than what was read of it, and have other bytes there: it goes on after the newest mark. Marks are
// made now and then, whether or not the end of the file is seen. What was read before an orderly end is not read again.
func TestFollowAfterAPowerCut(t *testing.T) {
	text := strings.Repeat("line\n", 200)
	for what, tt := range map[string]struct {
		read  []string
		ended bool   // in order, and not by the power cut
		now   string // what the file has, when it is followed again,
		want  string // and what comes of that
		told  string
	}{
		"lost what came after a mark": {[]string{text, "lost\n"}, false, text + "new0\nnew1\n", "new0\nnew1\n", "5 B that are at the gatherer, up to byte 1005"},
		"lost nothing":                {[]string{text, "kept\n"}, false, text + "kept\nnew\n", "kept\nnew\n", "5 B that are at the gatherer"},
		"ended in order":              {[]string{text, "kept\n"}, true, text + "kept\nnew\n", "new\n", ""},
		"lost nearly all":             {[]string{text}, false, text[:300] + strings.Repeat("other\n", 50), text[256:300] + strings.Repeat("other\n", 50), "744 B that are at the gatherer"},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLog(t)
			l.write("", "")
			f := l.follow(0)
			for _, part := range tt.read {
				l.write("", part)
				l.want(f, part)
				f.book.remember(f.file, int64(f.offset))
			}
			if tt.ended {
				l.readToItsEnd(f)
			}
			offset := f.offset
			l.must(f.close())
			l.reboot()
			l.must(os.Truncate(l.name, 0))
			l.write("", tt.now)
			f = l.follow(offset)
			l.want(f, tt.want)
			if told := strings.Join(l.told, "\n"); !strings.Contains(told, tt.told) || (told == "") != (tt.told == "") {
				t.Errorf("told %q, want %q in it", told, tt.told)
			}
			l.must(f.close())
		})
	}
}

func TestRotatedNames(t *testing.T) {
	for name, want := range map[string]bool{
		"app.log.1": true, "app.log-20261122": true, "app-2026-11-22.log": true, "app.1.log": true, "app.log.2026-11-22T10:00:00": true,
		"app.log": false, "app.log.1.gz": false, "app.log.bak": false, "application.log": false, "app.log.": false, "app1.log": false,
	} {
		if rotated("app.log", name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}
