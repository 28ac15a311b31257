package send

import (
	"bytes"
	"testing"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
)

// hollow is a source that is zeros but for its last byte.
type hollow struct{ length uint64 }

func (h hollow) Info() object.Info { return object.Info{Name: "hollow", Length: h.length} }
func (h hollow) Head() uint64      { return 0 }
func (h hollow) Changed() error    { return nil }

func (h hollow) Holes() ([]object.Hole, error) {
	return []object.Hole{{First: 0, End: h.length - 1}}, nil
}

func (h hollow) ReadAt(p []byte, offset uint64) error {
	clear(p)
	if end := offset + uint64(len(p)); end == h.length {
		p[len(p)-1] = 1
	}
	return nil
}

// The block behind a long run of zeros is there before all of them are hashed: members are asked meanwhile. The root is that of all.
func TestBlockBehindZerosDoesNotWaitForTheirHash(t *testing.T) {
	const length = 512<<20 + 1
	shape, err := algo.ShapeOf(length, 1472)
	if err != nil {
		t.Fatal(err)
	}
	source := hollow{length}
	holes, err := source.Holes()
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(source, shape, holes, func() {})
	last := shape.Blocks() - 1
	data, err := r.block(last)
	if err != nil || data[shape.Size(last)-1] != 1 {
		t.Fatalf("the last block ends with %d: %v", data[shape.Size(last)-1], err)
	}
	if r.hashed > last/2 {
		t.Errorf("%d of %d blocks of zeros were hashed first", r.hashed, last)
	}
	for range shape.Blocks() + 1 {
		done, err := r.hashOn(shape.Blocks())
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
	}
	var want digest.Hash
	for range length >> 20 {
		_, _ = want.Write(make([]byte, 1<<20))
	}
	_, _ = want.Write([]byte{1})
	if got, want := r.hash.Sum(), want.Sum(); !bytes.Equal(got[:], want[:]) {
		t.Errorf("the root is %x, want %x", got, want)
	}
}
