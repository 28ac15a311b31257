package datagram

import (
	"fmt"
	"time"

	"github.com/klauspost/reedsolomon"

	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

// Code says how much parity a stream has: Parity shards for every Data datagrams.
type Code struct{ Data, Parity int }

// IsNone reports whether there is no parity.
func (c Code) IsNone() bool { return c.Parity == 0 }

// Validate returns what is wrong with a code.
func (c Code) Validate() error {
	if c == (Code{}) || c.Data >= 1 && c.Parity >= 1 && c.Data <= wire.MaxCount && c.Parity <= wire.MaxCount {
		return nil
	}
	return fmt.Errorf("parity of %d+%d: want 1 to %d datagrams, and 1 to %d of parity", c.Data, c.Parity, wire.MaxCount, wire.MaxCount)
}

// coders are Reed-Solomon codes by the number of datagrams that they protect, as windows may be short.
type coders struct {
	parity int
	made   map[int]reedsolomon.Encoder
}

func newCoders(parity int) coders {
	return coders{parity: parity, made: make(map[int]reedsolomon.Encoder)}
}

func (c coders) of(count int) reedsolomon.Encoder {
	coder, has := c.made[count]
	if !has {
		var err error
		// What a code costs is too little to be spread over processors. Its cache would keep what belongs to each pattern of losses for ever.
		if coder, err = reedsolomon.New(count, c.parity, reedsolomon.WithMaxGoroutines(1), reedsolomon.WithInversionCache(false)); err != nil {
			panic("datagram: " + err.Error()) // the code was validated
		}
		c.made[count] = coder
	}
	return coder
}

// Shard is a datagram of parity.
type Shard struct {
	First uint64
	Count int
	Index int
	Block []byte
}

// Header returns the header under which the shard travels.
func (s Shard) Header() wire.Header {
	return wire.Header{Kind: wire.Parity, Sequence: s.First, Count: uint8(s.Count), Index: uint16(s.Index)}
}

// Encoder makes the parity of what a stream's sender sends. A window ends when it is full, or when
// its first datagram has waited for a given time: late parity is of no use.
type Encoder struct {
	code   Code
	span   time.Duration
	coders coders

	first  uint64
	due    time.Time
	blocks [][]byte // of the window so far
	size   int      // of the longest block
}

// NewEncoder returns an encoder whose windows last at most a span.
func NewEncoder(code Code, span time.Duration) *Encoder {
	return &Encoder{code: code, span: span, coders: newCoders(code.Parity)}
}

// Add takes a datagram, in order, and returns the parity of a window if it fills one.
func (e *Encoder) Add(sequence, sent uint64, payload []byte, now time.Time) []Shard {
	if len(e.blocks) == 0 {
		e.first, e.due = sequence, now.Add(e.span)
	}
	e.blocks = append(e.blocks, wire.AppendBlock(make([]byte, 0, wire.BlockSize(wire.MaxPayload)), sent, payload, 0))
	e.size = max(e.size, wire.BlockSize(len(payload)))
	if len(e.blocks) < e.code.Data {
		return nil
	}
	return e.Flush()
}

// Due returns when the window has to end; zero if there is no window.
func (e *Encoder) Due() time.Time {
	if len(e.blocks) == 0 {
		return time.Time{}
	}
	return e.due
}

// Flush ends the window and returns its parity.
func (e *Encoder) Flush() []Shard {
	count := len(e.blocks)
	if count == 0 {
		return nil
	}
	shards := encode(e.coders, e.blocks, e.size)
	made := make([]Shard, e.code.Parity)
	for i := range made {
		made[i] = Shard{First: e.first, Count: count, Index: i, Block: shards[i]}
	}
	e.blocks, e.size = e.blocks[:0], 0
	return made
}

// encode returns the parity of blocks.
func encode(coders coders, blocks [][]byte, size int) [][]byte {
	all := make([][]byte, len(blocks)+coders.parity)
	for i, block := range blocks {
		all[i] = fill(block, size)
	}
	for i := len(blocks); i < len(all); i++ {
		all[i] = make([]byte, size)
	}
	if err := coders.of(len(blocks)).Encode(all); err != nil {
		panic("datagram: " + err.Error()) // all are of one size
	}
	return all[len(blocks):]
}

// fill returns a block extended to a size with zeros.
func fill(block []byte, size int) []byte {
	if cap(block) < size {
		return append(make([]byte, 0, size), block...)[:size]
	}
	had := len(block)
	block = block[:size]
	clear(block[min(had, size):])
	return block
}
