package send

import (
	"fmt"
	"slices"
	"time"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	"github.com/groupcast/groupcast/internal/digest"
	"github.com/groupcast/groupcast/internal/object"
)

const (
	// recentBytes is how many bytes of blocks are held in memory for repairs: what is sent within a tenth of a second at 1 Gbit/s.
	recentBytes = 16 << 20
	// readAhead is how many blocks are read at once that follow what was read last.
	readAhead = 4
	// readPatience is how long nothing else is done while a block is read, as by a disk that turns.
	readPatience = 20 * time.Millisecond
)

// reader reads blocks, each once as a rule, and hashes them while they are in hand. A source may stand for long, as a disk that
// spins up, or a server that is started anew: reading is waited for beside all else.
type reader struct {
	source  Source
	shape   algo.Shape
	zeros   []algo.Extent
	blocks  map[uint32][]byte
	order   []uint32
	end     uint32   // of what was read last
	reading *reading // what is read now; nil if nothing is
	wake    func()   // called when something has been read
	hashed  uint32   // blocks before it are hashed
	hash    digest.Hash
	nothing []byte // zeros
}

// reading is that blocks are read, one after the other.
type reading struct {
	first  uint32
	blocks [][]byte
	isSlow bool // it has been waited for
	done   chan error
}

func newReader(source Source, shape algo.Shape, holes []object.Hole, wake func()) *reader {
	r := &reader{source: source, shape: shape, blocks: map[uint32][]byte{}, wake: wake}
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

// block returns a block's bytes, with zeros after the last up to whole packets, however long it takes to read them.
func (r *reader) block(block uint32) ([]byte, error) {
	for !r.has(block) {
		r.begin(block)
		if err := r.take(<-r.reading.done); err != nil {
			return nil, err
		}
	}
	return r.blocks[block], nil
}

func (r *reader) has(block uint32) bool { return r.blocks[block] != nil }

// fetch has a block be read. It waits for the source no longer than readPatience; wake is called when the block is there after all.
func (r *reader) fetch(block uint32) error {
	for !r.has(block) {
		r.begin(block)
		patience := readPatience
		if r.reading.isSlow {
			patience = 0
		}
		select {
		case err := <-r.reading.done:
			if err := r.take(err); err != nil {
				return err
			}
		case <-time.After(patience):
			r.reading.isSlow = true
			return nil
		}
	}
	return nil
}

// stands reports whether what is read has not come for a while.
func (r *reader) stands() bool { return r.reading != nil && r.reading.isSlow }

// begin begins to read a block, and those that follow if it goes on from where it was; unless something is read already.
func (r *reader) begin(block uint32) {
	if r.reading != nil {
		return
	}
	most := uint32(1)
	if block == r.end {
		most = min(readAhead, r.shape.Blocks()-block)
	}
	next := &reading{first: block, done: make(chan error, 1)}
	for b := block; b < block+most && !r.has(b) && (b == block || !r.isZero(b)); b++ {
		next.blocks = append(next.blocks, r.buffer())
	}
	r.reading = next
	go func() {
		next.done <- r.read(next)
		r.wake()
	}()
}

// buffer returns room for a block: that of the one that was read first, if enough are held.
func (r *reader) buffer() []byte {
	if uint64(len(r.order)+1)*r.shape.Block() <= recentBytes || len(r.order) < readAhead {
		return make([]byte, r.shape.Block())
	}
	oldest := r.order[0]
	r.order = r.order[1:]
	data := r.blocks[oldest]
	delete(r.blocks, oldest)
	return data
}

func (r *reader) read(blocks *reading) error {
	for i, data := range blocks.blocks {
		block := blocks.first + uint32(i)
		size := r.shape.Size(block)
		if err := r.source.ReadAt(data[:size], uint64(block)*r.shape.Block()); err != nil {
			return fmt.Errorf("read block %d: %w", block, err)
		}
		clear(data[size:])
	}
	return nil
}

// take takes over what has been read.
func (r *reader) take(err error) error {
	came := r.reading
	r.reading = nil
	if err != nil {
		return err
	}
	for i, data := range came.blocks {
		block := came.first + uint32(i)
		r.blocks[block], r.order, r.end = data, append(r.order, block), block+1
		for began := time.Now(); r.hashed < block && r.isZero(r.hashed) && time.Since(began) < hashSpan; { // members wait for polls
			r.hashZeros()
		}
		if block == r.hashed {
			_, _ = r.hash.Write(data[:r.shape.Size(block)])
			r.hashed++
		}
	}
	return nil
}

// close returns once the source is not read any more.
func (r *reader) close() {
	if r.reading != nil {
		_ = r.take(<-r.reading.done)
	}
}

// hashOn hashes what comes before a block and was not read: what receivers had already, and zeros.
// It returns whether all before the block is hashed; it takes one block at a time, and none while the source stands.
func (r *reader) hashOn(before uint32) (done bool, err error) {
	switch {
	case r.hashed >= before:
	case r.isZero(r.hashed):
		r.hashZeros()
	case r.has(r.hashed):
		_, _ = r.hash.Write(r.blocks[r.hashed][:r.shape.Size(r.hashed)])
		r.hashed++
	default:
		err = r.fetch(r.hashed) // which hashes it
	}
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
