package receive

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/klauspost/reedsolomon"

	algo "github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// nowhere is a landing of which nothing is looked at.
type nowhere struct{ Landing }

func (nowhere) Offset() uint64 { return 0 }

func receiving(t *testing.T, length uint64) *replica {
	t.Helper()
	shape, err := algo.ShapeOf(length, 1472)
	if err != nil {
		t.Fatal(err)
	}
	secret := wire.NewSecret(make([]byte, 32), wire.Salt{1})
	r := &replica{landing: nowhere{}, shape: shape}
	r.heard.Secret, r.heard.key = secret, make([]byte, 32)
	r.heard.keys = newKeys(Config{Key: r.heard.key})
	r.ring = newRing(r.heard)
	r.blocks = newBlocks(shape, r.landing, &r.stats)
	r.rules = algo.NewReceiver(shape, 0, blocksIn(mostOpen, shape))
	r.welcomed = true
	return r
}

// A receiver that has no key takes no memory: not with packets of as many blocks as there are, and not with those of others' sessions.
func TestForgedPacketsTakeNoMemory(t *testing.T) {
	r := receiving(t, 4<<30)
	datagram := make([]byte, 1472)
	datagram[0] = byte(wire.Data)
	for _, session := range []uint32{r.heard.Secret.Session(), 7} {
		binary.BigEndian.PutUint32(datagram[2:], session)
		for block := range uint32(8000) {
			binary.BigEndian.PutUint32(datagram[6:], block)
			r.take(datagram, netip.AddrPort{})
		}
	}
	if len(r.blocks.open) > 0 || len(r.blocks.free) > 0 {
		t.Errorf("%d blocks are open, and %d free", len(r.blocks.open), len(r.blocks.free))
	}
	if r.stats.Forged != 8000 {
		t.Errorf("%d of 8000 packets of this session count as forged", r.stats.Forged)
	}
}

// Every shard of parity that a sender may send repairs a block, however many packets that has.
func TestAnyParityRepairs(t *testing.T) {
	const parities = wire.MaxShards - wire.PacketsPerBlock
	random := rand.New(rand.NewPCG(1, 1))
	for _, count := range []int{1, 2, 10, wire.PacketsPerBlock} {
		for index := range parities {
			shape := algo.Shape{Length: uint64(count) * 1440, Packet: 1440}
			b := newBlocks(shape, nowhere{}, &Stats{})
			shards := make([][]byte, count+parities)
			for i := range shards {
				shards[i] = make([]byte, shape.Packet)
				for j := 0; i < count && j < len(shards[i]); j += 8 {
					binary.BigEndian.PutUint64(shards[i][j:], random.Uint64())
				}
			}
			coder, err := reedsolomon.New(count, parities)
			if err != nil {
				t.Fatal(err)
			}
			if err := coder.Encode(shards); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				if place := b.place(0, i); i > 0 {
					copy(place, shards[i])
				}
			}
			at := b.place(0, wire.PacketsPerBlock+index)
			copy(at, shards[count+index])
			b.keep(0, wire.PacketsPerBlock+index, at)
			if err := b.rebuild(0, 1); err != nil || !bytes.Equal(b.open[0].data[:shape.Packet], shards[0]) {
				t.Fatalf("shard %d of a block of %d packets repairs nothing: %v", index, count, err)
			}
		}
	}
}

// What was computed for one pattern of losses is not kept: there may be as many as blocks.
func TestRebuildKeepsNoPatterns(t *testing.T) {
	const blocks, parity = 2000, 16
	shape := algo.Shape{Length: blocks * wire.PacketsPerBlock * 8, Packet: 8}
	b := newBlocks(shape, nowhere{}, &Stats{})
	random := rand.New(rand.NewPCG(1, 1))
	heap := func() int64 {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		runtime.KeepAlive(b)
		return int64(memory.HeapAlloc)
	}
	before := heap()
	for range blocks {
		var missing uint64
		for _, i := range random.Perm(wire.PacketsPerBlock)[:parity] {
			missing |= 1 << i
		}
		for i := range wire.PacketsPerBlock {
			b.place(0, i)
		}
		for i := range parity {
			at := b.place(0, wire.PacketsPerBlock+i)
			b.keep(0, wire.PacketsPerBlock+i, at)
		}
		if err := b.rebuild(0, missing); err != nil {
			t.Fatal(err)
		}
		b.free = append(b.free, b.close(0))
	}
	if grew := heap() - before; grew > 1<<20 {
		t.Errorf("%d blocks leave %d bytes behind", blocks, grew)
	}
}
