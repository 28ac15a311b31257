package receive

import (
	"fmt"

	"github.com/klauspost/reedsolomon"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	// mostOpen is how many bytes blocks that are open at once may have, and mostHeld how many whole ones
	// that are held in memory because others before them are not there; more are written ahead.
	mostOpen = 48 << 20
	mostHeld = 6 << 20
)

// blocksIn is how many blocks have so many bytes.
func blocksIn(bytes uint64, shape algo.Shape) int { return max(int(bytes/shape.Block()), 2) }

// blocks is the bytes of what has come and has not landed.
type blocks struct {
	shape   algo.Shape
	landing Landing
	stats   *Stats
	open    map[uint32]*open
	held    map[uint32][]byte // whole, behind next
	ahead   runs              // the same, in no memory
	next    uint32            // the block that lands next
	free    [][]byte
	scratch []byte
	parity  [][]byte // unused shards
	coders  map[[2]int]reedsolomon.Encoder
}

// open is a block that is not whole.
type open struct {
	data   []byte
	parity map[int][]byte
}

func newBlocks(shape algo.Shape, landing Landing, stats *Stats) *blocks {
	b := &blocks{
		shape: shape, landing: landing, stats: stats, open: map[uint32]*open{}, held: map[uint32][]byte{},
		scratch: make([]byte, shape.Packet), coders: map[[2]int]reedsolomon.Encoder{},
	}
	b.next = b.have()
	return b
}

// have is how many whole blocks have landed.
func (b *blocks) have() uint32 {
	if b.landing.Offset() == b.shape.Length {
		return b.shape.Blocks()
	}
	return uint32(b.landing.Offset() / b.shape.Block())
}

// length is how many bytes a packet has; a shard of parity is as long as the longest.
func (b *blocks) length(block uint32, index int) int {
	if index >= wire.PacketsPerBlock {
		return b.shape.Packet
	}
	return min(b.shape.Packet, b.shape.Size(block)-index*b.shape.Packet)
}

// isOpen reports whether there is memory for a packet without a block more. Parity is no block's before it is kept.
func (b *blocks) isOpen(block uint32, index int) bool {
	return index >= wire.PacketsPerBlock || b.open[block] != nil
}

// place returns memory for a packet, of which the block keeps what keep says.
func (b *blocks) place(block uint32, index int) []byte {
	if index >= wire.PacketsPerBlock {
		if n := len(b.parity); n > 0 {
			return b.parity[n-1]
		}
		b.parity = append(b.parity, make([]byte, b.shape.Packet))
		return b.parity[0]
	}
	data := b.block(block).data
	return data[index*b.shape.Packet : (index+1)*b.shape.Packet : (index+1)*b.shape.Packet]
}

func (b *blocks) block(block uint32) *open {
	one := b.open[block]
	if one == nil {
		one = &open{data: b.take()}
		b.open[block] = one
	}
	return one
}

func (b *blocks) take() []byte {
	if n := len(b.free); n > 0 {
		data := b.free[n-1]
		b.free = b.free[:n-1]
		return data
	}
	return make([]byte, b.shape.Block())
}

// keep notes that what was put where place said is real.
func (b *blocks) keep(block uint32, index int, at []byte) {
	if index < wire.PacketsPerBlock {
		return
	}
	one := b.block(block)
	if one.parity == nil {
		one.parity = map[int][]byte{}
	}
	one.parity[index-wire.PacketsPerBlock] = at
	b.parity = b.parity[:len(b.parity)-1]
}

// rebuild makes the missing packets of a block from its parity.
func (b *blocks) rebuild(block uint32, missing uint64) error {
	one, count := b.open[block], b.shape.Packets(block)
	most := 0
	for index := range one.parity {
		most = max(most, index+1)
	}
	parity := algo.CodeOf(most)
	coder, err := b.coder(count, parity)
	if err != nil {
		return err
	}
	shards := make([][]byte, count+parity)
	for i := range count {
		at := i * b.shape.Packet
		shards[i] = one.data[at : at+b.shape.Packet : at+b.shape.Packet]
		if missing&(1<<i) != 0 {
			shards[i] = shards[i][:0]
		}
	}
	if last := b.shape.Size(block); missing&(1<<(count-1)) == 0 {
		clear(one.data[last : count*b.shape.Packet])
	}
	for index, shard := range one.parity {
		shards[count+index] = shard
	}
	if err := coder.ReconstructData(shards); err != nil {
		return fmt.Errorf("rebuild block %d: %w", block, err)
	}
	return nil
}

func (b *blocks) coder(data, parity int) (reedsolomon.Encoder, error) {
	coder := b.coders[[2]int{data, parity}]
	if coder != nil {
		return coder, nil
	}
	// Its cache would keep what belongs to each pattern of losses for as long as the replica goes on.
	coder, err := reedsolomon.New(data, parity, reedsolomon.WithMaxGoroutines(1), reedsolomon.WithInversionCache(false))
	if err != nil {
		return nil, fmt.Errorf("code of %d and %d shards: %w", data, parity, err)
	}
	b.coders[[2]int{data, parity}] = coder
	return coder, nil
}

// close takes a block out of those that are not whole.
func (b *blocks) close(block uint32) []byte {
	one := b.open[block]
	delete(b.open, block)
	for _, shard := range one.parity {
		b.parity = append(b.parity, shard)
	}
	return one.data
}

// land lands a whole block if it is next, or keeps it until it is.
func (b *blocks) land(block uint32) (taken bool, err error) {
	data := b.close(block)
	size := b.shape.Size(block)
	if block == b.next {
		if _, err := b.landing.Write(data[b.into(block):size]); err != nil {
			return false, err
		}
		b.next++
		b.free = append(b.free, data)
		return true, nil
	}
	if len(b.held) < blocksIn(mostHeld, b.shape) {
		b.held[block] = data
		return true, nil
	}
	b.free = append(b.free, data)
	taken, err = b.landing.Ahead(uint64(block)*b.shape.Block(), data[:size])
	if taken {
		b.ahead.add(run{block, block + 1, onDisk})
		b.stats.Spilled++
	}
	return taken, err
}

// into is where in its first block a landing goes on that was interrupted.
func (b *blocks) into(block uint32) int {
	return int(b.landing.Offset() - uint64(block)*b.shape.Block())
}

// zeros notes that blocks that were not there are zeros. They land by and by: there may be any number of them.
func (b *blocks) zeros(first, end uint32) {
	for block := range b.open {
		if first <= block && block < end {
			b.free = append(b.free, b.close(block))
		}
	}
	b.ahead.add(run{first, end, zeros})
}

// isBehind reports whether the block that lands next is there already.
func (b *blocks) isBehind() bool {
	_, isAhead := b.ahead.begins(b.next)
	return isAhead || b.held[b.next] != nil
}

// landNext lands the block that is next and is there already, and returns how many bytes it has.
func (b *blocks) landNext() (bytes int, err error) {
	size := b.shape.Size(b.next)
	if data := b.held[b.next]; data != nil {
		_, err = b.landing.Write(data[b.into(b.next):size])
		b.free = append(b.free, data)
		delete(b.held, b.next)
	} else {
		take, left := b.landing.Adopt, uint64(size-b.into(b.next))
		if where, _ := b.ahead.begins(b.next); where == zeros {
			take = b.landing.Zeros
		}
		err = take(left)
		b.ahead.drop()
	}
	b.next++
	return size, err
}
