package send

import (
	"fmt"
	"slices"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
)

// recent is how many blocks are held in memory for repairs.
const recent = 64

// reader reads blocks, each once as a rule, and hashes them while they are in hand.
type reader struct {
	source  Source
	shape   algo.Shape
	zeros   []algo.Extent
	blocks  map[uint32][]byte
	order   []uint32
	hashed  uint32 // blocks before it are hashed
	hash    digest.Hash
	nothing []byte // zeros
}

func newReader(source Source, shape algo.Shape, holes []object.Hole) *reader {
	r := &reader{source: source, shape: shape, blocks: map[uint32][]byte{}}
	for _, hole := range holes {
		e := algo.Extent{First: uint32((hole.First + shape.Block() - 1) / shape.Block()), End: uint32(hole.End / shape.Block())}
		if hole.End == shape.Length {
			e.End = shape.Blocks()
		}
		last := len(r.zeros) - 1
		switch {
		case e.First >= e.End:
		case last >= 0 && r.zeros[last].End == e.First:
			r.zeros[last].End = e.End
		default:
			r.zeros = append(r.zeros, e)
		}
	}
	return r
}

// block returns a block's bytes, with zeros after the last up to whole packets.
func (r *reader) block(block uint32) ([]byte, error) {
	if data, has := r.blocks[block]; has {
		return data, nil
	}
	var data []byte
	if len(r.order) >= recent {
		oldest := r.order[0]
		r.order = r.order[1:]
		data = r.blocks[oldest]
		delete(r.blocks, oldest)
	} else {
		data = make([]byte, r.shape.Block())
	}
	size := r.shape.Size(block)
	if err := r.source.ReadAt(data[:size], uint64(block)*r.shape.Block()); err != nil {
		return nil, fmt.Errorf("read block %d: %w", block, err)
	}
	clear(data[size:])
	r.blocks[block] = data
	r.order = append(r.order, block)
	for began := time.Now(); r.hashed < block && r.isZero(r.hashed) && time.Since(began) < hashSpan; { // members wait for polls
		r.hashZeros()
	}
	if block == r.hashed {
		_, _ = r.hash.Write(data[:size])
		r.hashed++
	}
	return data, nil
}

// hashOn hashes what comes before a block and was not read: what receivers had already, and zeros.
// It returns whether all before the block is hashed; it takes one block at a time.
func (r *reader) hashOn(before uint32) (done bool, err error) {
	if r.hashed >= before {
		return true, nil
	}
	if r.isZero(r.hashed) {
		r.hashZeros()
		return r.hashed >= before, nil
	}
	if data, has := r.blocks[r.hashed]; has {
		_, _ = r.hash.Write(data[:r.shape.Size(r.hashed)])
		r.hashed++
		return r.hashed >= before, nil
	}
	_, err = r.block(r.hashed)
	return r.hashed >= before, err
}

func (r *reader) hashZeros() {
	if r.nothing == nil {
		r.nothing = make([]byte, r.shape.Block())
	}
	_, _ = r.hash.Write(r.nothing[:r.shape.Size(r.hashed)])
	r.hashed++
}

func (r *reader) isZero(block uint32) bool {
	_, is := slices.BinarySearchFunc(r.zeros, block, func(e algo.Extent, block uint32) int {
		switch {
		case e.End <= block:
			return -1
		case e.First > block:
			return 1
		}
		return 0
	})
	return is
}
