package fast_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// pass has a sender send all from a block on to one that gets all of it. It returns the blocks that were said to be zeros, and how long
// the decisions took.
func pass(t *testing.T, blocks, first uint32, zeros []fast.Extent) (said []uint32, took time.Duration) {
	t.Helper()
	shape, err := fast.ShapeOf(uint64(blocks)*92_160, datagram)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	s, err := fast.NewSender(fast.Settings{Shape: shape, Zeros: zeros, Ceiling: 1.25e9, Window: 1000, Patience: time.Second, First: first}, now)
	if err != nil {
		t.Fatal(err)
	}
	s.Join(now)
	began := time.Now()
	for s.Passed() < shape.Blocks() {
		switch d := s.Next(now, 44); d.Do {
		case fast.Wait:
			now = now.Add(time.Millisecond)
		case fast.SendPoll:
			now = now.Add(100 * time.Microsecond)
			if err := s.Report(0, wire.Reported{Poll: d.Poll.Poll, Seen: d.Number + 1, Received: d.Number + 1, Frontier: d.Poll.Passed}, now); err != nil {
				t.Fatal(err)
			}
		case fast.SendZero:
			for block := d.Block; block < d.Block+uint32(d.Count); block++ {
				said = append(said, block)
			}
		case fast.SendData:
			if d.Mask == 0 {
				t.Fatalf("nothing is sent: %+v", d)
			}
		}
	}
	return said, time.Since(began)
}

// Blocks of zeros, wherever they are, are said to be that, and no others are.
func TestZerosAreSaidWhereTheyAre(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		const blocks = 200
		var zeros []fast.Extent
		var want []uint32
		for block := uint32(random.IntN(3)); block < blocks; {
			end := min(block+1+uint32(random.IntN(4)), blocks)
			zeros = append(zeros, fast.Extent{First: block, End: end})
			for ; block < end; block++ {
				want = append(want, block)
			}
			block += 1 + uint32(random.IntN(20))
		}
		if said, _ := pass(t, blocks, 0, zeros); !slices.Equal(said, want) {
			t.Errorf("seed %d: of %v it is said that %v are", seed, zeros, said)
		}
	}
}

// Where the holes of a source are as many as may be, what is decided takes no longer for it.
func TestManyHolesTakeNoTime(t *testing.T) {
	const blocks, first = 1 << 17, 1<<17 - 1<<13
	var zeros []fast.Extent
	for block := uint32(0); block < blocks; block += 2 {
		zeros = append(zeros, fast.Extent{First: block, End: block + 1})
	}
	many, none := time.Hour, time.Hour
	for range 3 {
		_, took := pass(t, blocks, first, zeros)
		many = min(many, took)
		_, took = pass(t, blocks, first, nil)
		none = min(none, took)
	}
	t.Logf("%v with %d, %v with none", many, len(zeros), none)
	if many > 10*none {
		t.Errorf("with %d it takes %v, with none %v", len(zeros), many, none)
	}
}
