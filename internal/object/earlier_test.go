package object_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/object"
)

// block is longer than the smallest piece, and no multiple of it.
func block(of byte, pieces float64) string {
	return strings.Repeat(string([]byte{of, of + 1, of + 2}), int(pieces*(64<<10)/3))
}

func openHashed(t *testing.T, path string) *object.Source {
	t.Helper()
	var read, all uint64
	source, err := object.OpenHashed(t.Context(), path, func(now, of uint64) {
		if now <= read {
			t.Errorf("%d bytes are read after %d", now, read)
		}
		read, all = now, of
	})
	if err != nil {
		t.Fatal(err)
	}
	if read != all {
		t.Errorf("%d bytes of %d are read", read, all)
	}
	t.Cleanup(func() { source.Close() })
	return source
}

// takeLacking lands what an earlier directory does not have, and takes over the rest. It returns how much had to come.
func takeLacking(t *testing.T, source *object.Source, landing *object.Landing) (came uint64) {
	t.Helper()
	if err := deliver(source, landing, landing.Head(), whole); err != nil {
		t.Fatal(err)
	}
	if err := deliver(source, landing, landing.Head(), whole); err != nil { // now it is known how long it is
		t.Fatal(err)
	}
	earlier, err := landing.Earlier(t.Context())
	if err != nil || earlier == nil {
		t.Fatalf("the earlier directory: %v %v", earlier, err)
	}
	defer earlier.Close()
	if err := earlier.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	length := source.Info().Length
	for landing.Offset() < length {
		before := landing.Offset()
		from, _ := earlier.Next(before)
		if err := deliver(source, landing, from, whole); err != nil {
			t.Fatal(err)
		}
		came += landing.Offset() - before
		if err := earlier.Take(t.Context(), landing, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	return came
}

// Of a directory that is there in an earlier version, only what is new has to come: files that are, and pieces that changed in others.
// What the new version has no more is gone then.
func TestOnlyChangesCome(t *testing.T) {
	before := map[string]string{
		"it/same": block('a', 3.5), "it/d/same": "tiny", "it/grown": block('b', 2), "it/shrunk": block('c', 4), "it/edited": block('d', 5),
		"it/gone": block('e', 1), "it/directory/then": "x", "it/file": "y", "it/empty": "",
	}
	after := map[string]string{
		"it/same": block('a', 3.5), "it/d/same": "tiny", "it/grown": block('b', 2) + block('n', 1), "it/shrunk": block('c', 1.5), "it/edited": block('d', 5),
		"it/new": block('f', 1), "it/directory": "a file now", "it/file/now": "a directory", "it/empty": "",
	}
	edited := []byte(after["it/edited"])
	copy(edited[100<<10:], "another")
	after["it/edited"] = string(edited)
	from, to := t.TempDir(), t.TempDir()
	plant(t, to, before)
	plant(t, from, after)
	source := openHashed(t, filepath.Join(from, "it"))
	landing := land(t, to, source.Info())
	came := takeLacking(t, source, landing)
	const lacking = (64 + 2*64 + 64 + 64) << 10 // of the edited, the grown, the shrunk and the new file, in whole pieces
	if came > lacking {
		t.Errorf("%d bytes of %d came, want at most %d", came, source.Info().Length, lacking)
	}
	if err := landing.Complete(source.Info().Length, rootOf(t, source), true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
		t.Errorf("-sent +landed:\n%s", diff)
	}
}

// What was renamed need not come, nor what is in a directory that was, nor what took the place of something longer or shorter; of what
// was changed as well, pieces come. Of files that begin alike, that with the most alike path is compared.
func TestRenamedFilesDoNotCome(t *testing.T) {
	alike := block('a', 3)
	before := map[string]string{
		"it/v1/model": block('m', 6.5), "it/v1/d/tiny": "tiny", "it/v1/d/edited": block('e', 4), "it/v1/epoch-1": alike + "1", "it/v1/epoch-2": alike + "2",
		"it/log": block('l', 2), "it/log.1": block('k', 3), "it/is a directory/now": block('p', 1), "it/stays": block('s', 3), "it/other": block('x', 3),
	}
	edited := []byte(before["it/v1/d/edited"])
	copy(edited[100<<10:], "another")
	after := map[string]string{
		"it/v2/model": before["it/v1/model"], "it/v2/d/tiny": "tiny", "it/v2/d/edited": string(edited), "it/v2/epoch-1": alike + "1", "it/v2/epoch-2": alike + "2",
		"it/log": "", "it/log.1": before["it/log"], "it/log.2": before["it/log.1"], "it/is a directory": before["it/is a directory/now"],
		"it/stays": before["it/stays"], "it/new": block('n', 3),
	}
	from, to := t.TempDir(), t.TempDir()
	plant(t, to, before)
	plant(t, from, after)
	if err := os.Symlink("other", filepath.Join(to, "it/new")); err != nil { // that nothing is taken from
		t.Fatal(err)
	}
	source := openHashed(t, filepath.Join(from, "it"))
	landing := land(t, to, source.Info())
	const lacking = (64 + 3*64) << 10 // of the edited and the new one, in whole pieces
	if came := takeLacking(t, source, landing); came > lacking {
		t.Errorf("%d bytes of %d came, want at most %d", came, source.Info().Length, lacking)
	}
	if err := landing.Complete(source.Info().Length, rootOf(t, source), true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
		t.Errorf("-sent +landed:\n%s", diff)
	}
}

// compared begins to land a directory where the same is already, and compares the two.
func compared(t *testing.T, to string, files map[string]string) (*object.Source, *object.Landing, *object.Earlier) {
	t.Helper()
	from := t.TempDir()
	plant(t, to, files)
	plant(t, from, files)
	source := openHashed(t, filepath.Join(from, "it"))
	landing := land(t, to, source.Info())
	if err := errors.Join(deliver(source, landing, landing.Head(), whole), deliver(source, landing, landing.Head(), whole)); err != nil {
		t.Fatal(err)
	}
	earlier, err := landing.Earlier(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = earlier.Close() })
	if err := earlier.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return source, landing, earlier
}

// What changes after it was compared is not taken over: it has to come.
func TestWhatChangesAfterItWasComparedComes(t *testing.T) {
	to, files := t.TempDir(), map[string]string{"it/a": block('a', 6), "it/b": block('b', 6)}
	source, landing, earlier := compared(t, to, files)
	begin, end := earlier.Next(landing.Offset())
	if begin != landing.Head() || end != source.Info().Length {
		t.Errorf("there is everything from %d to %d, want from %d to %d", begin, end, landing.Head(), source.Info().Length)
	}
	if err := os.WriteFile(filepath.Join(to, "it/b"), []byte(block('x', 6)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := earlier.Take(t.Context(), landing, func() {}); err != nil {
		t.Fatal(err)
	}
	if want := landing.Head() + uint64(len(files["it/a"])); landing.Offset() != want {
		t.Errorf("%d bytes were taken over, want %d", landing.Offset(), want)
	}
	if begin, _ := earlier.Next(landing.Offset()); begin != source.Info().Length {
		t.Errorf("something is to be taken over from %d on", begin)
	}
	if err := deliver(source, landing, source.Info().Length, whole); err != nil {
		t.Fatal(err)
	}
	if err := landing.Complete(source.Info().Length, rootOf(t, source), false); err != nil {
		t.Error(err)
	}
}

// Of a long run not all has to come because of one piece that changes after it was compared; of a directory that is gone, all does soon.
func TestWhatChangesCostsNoMoreThanItsPart(t *testing.T) {
	const mebibyte = 1 << 20
	to := t.TempDir()
	source, landing, earlier := compared(t, to, map[string]string{"it/a": block('a', 16), "it/b": block('b', 512)})
	end := source.Info().Length
	if err := os.Remove(filepath.Join(to, "it/b")); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []uint64{4 * mebibyte, 8 * mebibyte, 16 * mebibyte} {
		if err := earlier.Take(t.Context(), landing, func() {}); err != nil {
			t.Fatal(err)
		}
		stopped := landing.Offset()
		if begin, until := earlier.Next(stopped); begin != stopped+lost || until != end {
			t.Fatalf("after %d there is something from %d to %d, want from %d to %d", stopped, begin, until, stopped+lost, end)
		}
		if err := deliver(source, landing, stopped+lost, whole); err != nil {
			t.Fatal(err)
		}
	}
	if err := earlier.Take(t.Context(), landing, func() {}); err != nil {
		t.Fatal(err)
	}
	if begin, _ := earlier.Next(landing.Offset()); begin != end {
		t.Errorf("there is something from %d on, though all is gone", begin)
	}
}

// A directory that is there already is found by its root, with hashes, too; what is as long and not the same is not.
func TestHashedDirectoryIsFound(t *testing.T) {
	for name, change := range map[string]func(string) error{
		"the same":        func(string) error { return nil },
		"another mode":    func(it string) error { return os.Chmod(filepath.Join(it, "a"), 0o600) },
		"other content":   func(it string) error { return os.WriteFile(filepath.Join(it, "d/b"), []byte("c"), 0o644) },
		"a file too many": func(it string) error { return os.WriteFile(filepath.Join(it, "z"), nil, 0o644) },
	} {
		from, to := t.TempDir(), t.TempDir()
		files := map[string]string{"it/a": block('a', 2), "it/d/b": "b", "it/empty": ""}
		plant(t, to, files)
		plant(t, from, files)
		if err := change(filepath.Join(to, "it")); err != nil {
			t.Fatal(err)
		}
		source := openHashed(t, filepath.Join(from, "it"))
		root, there, err := object.Existing(t.Context(), to, source.Info())
		if err != nil || (there && root == rootOf(t, source)) != (name == "the same") {
			t.Errorf("%s: %v (there: %t, %v), want that of what is sent, %v, only for the same", name, root, there, err, rootOf(t, source))
		}
	}
}

// What a member's user has put there beside, or nobody may read, keeps nothing else from being taken over.
func TestWhatCannotBeComparedComes(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	files := map[string]string{"it/a": block('a', 4), "it/b": block('b', 2), "it/c": block('c', 4)}
	plant(t, to, files)
	plant(t, from, files)
	it := filepath.Join(to, "it")
	if err := errors.Join(os.Symlink("a", filepath.Join(it, "link")), os.Remove(filepath.Join(it, "b")), os.Symlink("a", filepath.Join(it, "b"))); err != nil {
		t.Fatal(err)
	}
	source := openHashed(t, filepath.Join(from, "it"))
	landing := land(t, to, source.Info())
	if came, want := takeLacking(t, source, landing), uint64(len(files["it/b"])); came != want {
		t.Errorf("%d bytes came, want the %d of what is a link", came, want)
	}
	if err := landing.Complete(source.Info().Length, rootOf(t, source), false); err != nil {
		t.Error(err)
	}
}

// However many files there are, a piece is small enough to be held in memory, and there are not too many hashes.
func TestPiecesAreBounded(t *testing.T) {
	many := slices.Repeat([]uint64{1 << 10}, 140_000)
	for name, test := range map[string]struct {
		sizes      []uint64
		mostHashes uint64
	}{
		"many small ones, and a large one": {append(many, 64<<30), 3 * 32 * 140_000},
		"a large one":                      {[]uint64{64 << 30}, 4 << 20},
		"a tiny one":                       {[]uint64{1}, 32},
		"none":                             {nil, 0},
		"as many as a table has room for":  {slices.Repeat([]uint64{100 << 10}, 600_000), object.MaxTable - 600_000*(16+40)},
	} {
		piece, hashes := object.PiecesFor(test.sizes, strings.Repeat("p", 40))
		if piece < 64<<10 || piece > 16<<20 || hashes > test.mostHashes {
			t.Errorf("%s: pieces of %d bytes, %d bytes of hashes; want 64 KiB to 16 MiB, %d bytes at most", name, piece, hashes, test.mostHashes)
		}
	}
}

// Where there is nothing, or it is not known yet what comes, nothing is compared. Only a directory can be.
func TestNothingToCompare(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, map[string]string{"it/a": "a"})
	source := openHashed(t, filepath.Join(from, "it"))
	landing := land(t, to, source.Info())
	for _, upTo := range []uint64{0, source.Info().Length} {
		if err := deliver(source, landing, upTo, whole); err != nil {
			t.Fatal(err)
		}
		if earlier, err := landing.Earlier(t.Context()); err != nil || earlier != nil {
			t.Errorf("with %d bytes: %v %v, want nothing", upTo, earlier, err)
		}
	}
	if err := landing.Complete(source.Info().Length, rootOf(t, source), false); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "it")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := object.OpenHashed(t.Context(), file, func(uint64, uint64) {}); err == nil || !strings.Contains(err.Error(), "only what is in a directory is compared") {
		t.Errorf("a file: %v", err)
	}
}

// A head with hashes says how large pieces are, and has one hash for each.
func TestHeadWithHashes(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"it/a": block('a', 2.5), "it/b": "", "it/c": "c"})
	source := openHashed(t, filepath.Join(dir, "it"))
	head := headOf(t, source)
	if len(head) != 16+3*17+(3+1)*32 {
		t.Fatalf("a head of %d bytes", len(head))
	}
	if head[4] != 2 || head[5] != 16 {
		t.Errorf("version %d, pieces of 2^%d bytes: want version 2, and 2^16", head[4], head[5])
	}
	sum := object.Sum([]byte(block('a', 2.5)[:64<<10]))
	if !bytes.Equal(head[16+17:][:32], sum[:]) {
		t.Error("the first hash is not that of the first piece")
	}
	length := source.Info().Length
	for name, spoil := range map[string]func([]byte){
		"pieces of 1 byte":     func(head []byte) { head[5] = 0 },
		"pieces of 2^25 bytes": func(head []byte) { head[5] = 25 },
		"smaller pieces":       func(head []byte) { head[5] = 15 },
		"no hashes":            func(head []byte) { head[4], head[5] = 1, 0 },
		"another version":      func(head []byte) { head[4] = 3 },
		"flags":                func(head []byte) { head[6] = 1 },
		"2^64-1 bytes":         func(head []byte) { copy(head[24:], "\xff\xff\xff\xff\xff\xff\xff\xff") },
	} {
		spoiled := bytes.Clone(head)
		spoil(spoiled)
		if _, err := object.ParseHead(spoiled, length); !errors.Is(err, object.ErrTable) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	for size := range len(head) {
		if _, err := object.ParseHead(head[:size], length); !errors.Is(err, object.ErrTable) {
			t.Errorf("the first %d bytes: %v, want it refused", size, err)
		}
	}
}

func headOf(t *testing.T, source *object.Source) []byte {
	t.Helper()
	reader := source.NewReader()
	defer reader.Close()
	file, n, err := reader.Section(0)
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, n)
	if _, err := file.Read(head); err != nil {
		t.Fatal(err)
	}
	return head
}
