package object_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/groupcast/groupcast/internal/object"
)

// Content is bound to its offset: pieces may land in any order.
func TestPiecesLandInAnyOrder(t *testing.T) {
	const size, pieces = 1 << 16, 24
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, size*pieces)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	clear(content[size*7 : size*12])
	clear(content[size*22:])
	dir := t.TempDir()
	l, err := object.Land(t.Context(), dir, object.Info{Name: "f", Kind: object.File, Length: uint64(len(content)), Mode: 0o644})
	if err != nil {
		t.Fatal(err)
	}
	ahead := map[int]bool{}
	isZero := func(i int) bool { return i >= 7 && i < 12 || i >= 22 }
	for _, i := range random.Perm(pieces) {
		next := int(l.Offset() / size)
		switch {
		case isZero(i):
			ahead[i] = true
		case i == next:
			if _, err := l.Write(content[i*size : (i+1)*size]); err != nil {
				t.Fatal(err)
			}
		default:
			if taken, err := l.Ahead(uint64(i*size), content[i*size:(i+1)*size]); err != nil || !taken {
				t.Fatalf("piece %d ahead of %d: %v, %v", i, next, taken, err)
			}
			ahead[i] = true
		}
		for next = int(l.Offset() / size); ahead[next]; next++ {
			take := l.Adopt
			if isZero(next) {
				take = l.Zeros
			}
			if err := take(size); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Complete(uint64(len(content)), object.Root(blake3.Sum256(content)), true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "f"))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("what landed differs: %v", err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "f"), &stat); err != nil || stat.Blocks*512 > size*(pieces-6) {
		t.Errorf("the file has %d bytes on disk, of which %d are zeros: %v", stat.Blocks*512, size*7, err)
	}
}

// What landed ahead is not claimed: a later landing asks for it again.
func TestAheadIsNotKept(t *testing.T) {
	dir, content := t.TempDir(), bytes.Repeat([]byte("content."), 1000)
	info := object.Info{Name: "f", Kind: object.File, Length: uint64(len(content)), Mode: 0o644}
	l, err := object.Land(t.Context(), dir, info)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(content[:1000]); err != nil {
		t.Fatal(err)
	}
	if taken, err := l.Ahead(5000, []byte("other content")); err != nil || !taken {
		t.Fatal(taken, err)
	}
	if _, err := l.Ahead(10, content[10:20]); err == nil {
		t.Error("what has landed was written again")
	}
	if _, err := l.Ahead(info.Length-1, content[:2]); err == nil {
		t.Error("bytes beyond the end were taken")
	}
	if err := l.Keep(); err != nil {
		t.Fatal(err)
	}
	if l, err = object.Land(t.Context(), dir, info); err != nil {
		t.Fatal(err)
	}
	if l.Offset() != 1000 {
		t.Errorf("%d bytes were kept", l.Offset())
	}
	if _, err := l.Write(content[1000:]); err != nil {
		t.Fatal(err)
	}
	if err := l.Complete(info.Length, object.Root(blake3.Sum256(content)), false); err != nil {
		t.Error(err)
	}
}
