package object_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/object"
)

func dir(path string) object.Entry {
	return object.Entry{Path: path, Kind: object.Directory, Mode: 0o755}
}

func file(path string, size uint64) object.Entry {
	return object.Entry{Path: path, Kind: object.File, Mode: 0o644, Size: size}
}

// lengthOf returns the length of the object that these entries are the table of.
func lengthOf(head []byte, entries ...object.Entry) uint64 {
	length := uint64(len(head))
	for _, e := range entries {
		length += e.Size
	}
	return length
}

// The bytes of version 1 do not change: they make up roots that others know.
func TestBytesOfVersion1(t *testing.T) {
	entries := []object.Entry{dir("a"), file("a/b", 258), file("a-b", 0)}
	got := object.AppendHead(nil, entries...)
	want := "GCDT\x01\x00\x00\x00" + "\x00\x00\x00\x03" + "\x00\x00\x00\x37" +
		"\x02\x00\x01\xed\x00\x01\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "a" +
		"\x01\x00\x01\xa4\x00\x03\x00\x00" + "\x00\x00\x00\x00\x00\x00\x01\x02" + "a/b" +
		"\x01\x00\x01\xa4\x00\x03\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "a-b"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	parsed, err := object.ParseHead(got, lengthOf(got, entries...))
	if diff := cmp.Diff(entries, parsed); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// C56: sizes and counts that cannot be, and tables that do not make up the
// announced length, are refused before anything is allocated for them.
func TestC56AbsurdTables(t *testing.T) {
	good := []object.Entry{dir("a"), file("a/b", 10), file("c", 5)}
	spoil := func(at int, with ...byte) []byte {
		head := object.AppendHead(nil, good...)
		copy(head[at:], with)
		return head
	}
	long := func(paths ...string) (entries []object.Entry) {
		for _, path := range paths {
			entries = append(entries, file(path, 0))
		}
		return entries
	}
	for name, head := range map[string][]byte{
		"nothing":              {},
		"half an opening":      object.AppendHead(nil)[:8],
		"another magic":        spoil(0, 'X'),
		"another version":      spoil(4, 2),
		"flags":                spoil(5, 1),
		"2^32-1 entries":       spoil(8, 0xff, 0xff, 0xff, 0xff),
		"10^6+1 entries":       spoil(8, 0, 0x0f, 0x42, 0x41),
		"10^6 entries, small":  spoil(8, 0, 0x0f, 0x42, 0x40),
		"one entry more":       spoil(11, 4),
		"one entry less":       spoil(11, 2),
		"no entries":           spoil(11, 0),
		"a table of 2^32-1":    spoil(12, 0xff, 0xff, 0xff, 0xff),
		"a table over 64 MiB":  spoil(12, 4, 0, 0, 1),
		"a shorter table":      spoil(15, 1),
		"kind 0":               spoil(16, 0),
		"kind 3":               spoil(16, 3),
		"a flag in an entry":   spoil(17, 1),
		"setuid":               spoil(18, 0x09),
		"a path beyond":        spoil(20, 0xff, 0xff),
		"a directory of bytes": spoil(31, 1),
		"2^63 bytes":           spoil(16+17+8, 0x80, 0, 0, 0, 0, 0, 0, 0),
		"2^64-1 bytes":         spoil(16+17+8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"a byte too many":      append(object.AppendHead(nil, good...), 0),
		"a hole":               object.AppendHead(nil, dir("a"), file("a/b", 10), file("c", 4)),
		"an overlap":           object.AppendHead(nil, dir("a"), file("a/b", 10), file("c", 6)),
		"sizes that wrap":      object.AppendHead(nil, file("a", math.MaxUint64), file("c", 16)),
		"not sorted":           object.AppendHead(nil, file("c", 5), dir("a"), file("a/b", 10)),
		"twice":                object.AppendHead(nil, file("c", 5), file("c", 10)),
		"twice a directory":    object.AppendHead(nil, dir("a"), dir("a"), file("c", 15)),
		"a file as a parent":   object.AppendHead(nil, file("a", 5), file("a/b", 10)),
		"no parent":            object.AppendHead(nil, file("a/b", 15)),
		"a parent left":        object.AppendHead(nil, dir("a"), file("a-b", 5), file("a/b", 10)),
		"a grandparent":        object.AppendHead(nil, dir("a"), file("a/b/c", 15)),
		"case twins":           object.AppendHead(nil, file("A", 5), file("a", 10)),
		"case twins below":     object.AppendHead(nil, dir("A"), file("A/x", 5), dir("a"), file("a/x", 10)),
		"Unicode twins":        object.AppendHead(nil, file("u\u0308", 5), file("\u00fc", 10)),
		"twins in both":        object.AppendHead(nil, file("U\u0308", 5), file("\u00fc", 10)),
		"long s":               object.AppendHead(nil, file("s", 5), file("\u017f", 10)),
		"sharp s":              object.AppendHead(nil, file("ss", 5), file("\u00df", 10)),
		"Kelvin":               object.AppendHead(nil, file("k", 5), file("\u212a", 10)),
		"too many bytes":       object.AppendHead(nil, long(strings.Repeat("a/", 2048)+"a")...),
	} {
		const length = 16 + 17 + 19 + 17 + 15
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := object.ParseHead(head, length)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, object.ErrTable) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, used)
		}
	}
	for size := range len(object.AppendHead(nil, good...)) {
		if _, err := object.ParseHead(object.AppendHead(nil, good...)[:size], 100); !errors.Is(err, object.ErrTable) {
			t.Errorf("the first %d bytes: %v, want it refused", size, err)
		}
	}
}

// C56: a landing refuses such a table as soon as it has seen enough of it, and
// what was announced before the first byte as well.
func TestC56AbsurdAnnouncements(t *testing.T) {
	for name, info := range map[string]object.Info{
		"2^63 bytes":        {Name: "n", Kind: object.File, Length: 1 << 63},
		"no room for head":  {Name: "n", Kind: object.Directory, Length: 15},
		"kind 0":            {Name: "n"},
		"kind 3":            {Name: "n", Kind: 3},
		"setuid":            {Name: "n", Kind: object.File, Mode: fs.ModeSetuid | 0o755},
		"a name that leads": {Name: "../n", Kind: object.File},
		"more than a disk":  {Name: "n", Kind: object.File, Length: 1 << 60},
		"a tree over disks": {Name: "n", Kind: object.Directory, Length: object.MaxLength},
	} {
		to := t.TempDir()
		if _, err := object.Land(t.Context(), to, info); err == nil {
			t.Errorf("%s was not refused", name)
		}
		if left := tree(t, to); len(left) != 1 {
			t.Errorf("%s left %v", name, left)
		}
	}
	huge := object.AppendHead(nil)
	binary.BigEndian.PutUint32(huge[8:], math.MaxUint32)
	landing := land(t, t.TempDir(), object.Info{Name: "n", Kind: object.Directory, Length: 1 << 20})
	if err := put(landing, huge); !errors.Is(err, object.ErrTable) {
		t.Errorf("2^32-1 entries: %v, want it refused", err)
	}
	if err := put(landing, []byte{0}); !errors.Is(err, object.ErrTable) {
		t.Errorf("it goes on after a table was refused: %v", err)
	}
}

// put lets bytes land.
func put(landing *object.Landing, content []byte) error {
	_, err := landing.Write(content)
	return err
}

// Whatever is accepted is the one table of its tree, within bounds.
func FuzzTable(f *testing.F) {
	for _, entries := range [][]object.Entry{
		nil,
		{file("a", 3)},
		{dir("a"), file("a/b", 258), file("a-b", 0)},
		{dir("ü"), dir("ü/x"), file("ü/x/y", 1<<40)},
		{file("../a", 1)},
		{file("a", math.MaxUint64)},
		{file("A", 0), file("a", 0)},
	} {
		head := object.AppendHead(nil, entries...)
		f.Add(head, lengthOf(head, entries...))
	}
	hashes := "GCDT\x02\x0c\x00\x00" + "\x00\x00\x00\x01" + "\x00\x00\x00\x51" +
		"\x01\x00\x01\xa4\x00\x01\x00\x00" + "\x00\x00\x00\x00\x00\x00\x10\x01" + "a" + strings.Repeat("#", 2*32)
	f.Add([]byte(hashes), uint64(len(hashes)+0x1001))
	f.Fuzz(func(t *testing.T, head []byte, length uint64) {
		length %= object.MaxLength + 1
		entries, err := object.ParseHead(head, length)
		if err != nil {
			if !errors.Is(err, object.ErrTable) {
				t.Fatalf("%v: want ErrTable", err)
			}
			return
		}
		if again := object.HeadAgain(head, length); !bytes.Equal(head, again) {
			t.Fatalf("another table has the same tree:\n%q\n%q", head, again)
		}
		if total := lengthOf(head, entries...); total != length {
			t.Fatalf("%d bytes of %d", total, length)
		}
		at := uint64(len(head))
		for i, start := range object.Layout(head, length) {
			if start != at {
				t.Fatalf("%q begins at %d, want %d", entries[i].Path, start, at)
			}
			at += entries[i].Size
		}
	})
}

// Whatever is in a journal, of a crash or of somebody's making, what it claims grows, is of the object, and was written whole.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(nil), uint64(1))
	f.Add(object.AppendClaims(1, 2, 3), uint64(3))
	f.Add(object.AppendClaims(1, 9, 3), uint64(9))
	f.Add(object.AppendClaims(7, 8)[:70], uint64(9))
	f.Fuzz(func(t *testing.T, content []byte, length uint64) {
		last, claims := uint64(0), object.ClaimsIn(t, content, length)
		for i, upTo := range claims {
			if upTo > length || i > 0 && upTo <= last {
				t.Fatalf("of %d bytes it claims %v", length, claims)
			}
			last = upTo
		}
		if whole := len(content) / len(object.AppendClaims(0)[8:]); len(claims) > whole {
			t.Fatalf("%d claims in %d bytes", len(claims), len(content))
		}
	})
}
