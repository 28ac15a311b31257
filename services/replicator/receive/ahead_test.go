package receive

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// Blocks come in any order, and are taken out in theirs, each as what it came as; runs that meet are one.
func TestRunsAreBlocksInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const blocks = 60
		kinds := rapid.SliceOfN(rapid.SampledFrom([]where{0, onDisk, zeros}), blocks, blocks).Draw(t, "kinds")
		var r runs
		want := 0
		for block, kind := range kinds {
			if kind != 0 && (block == 0 || kinds[block-1] != kind) {
				want++
			}
		}
		for _, at := range rapid.Permutation(pieces(kinds)).Draw(t, "pieces") {
			r.add(at)
		}
		if len(r) != want {
			t.Fatalf("%v is %d runs, want %d", r, len(r), want)
		}
		for block := range uint32(blocks) {
			kind, does := r.begins(block)
			if does != (kinds[block] != 0) || kind != kinds[block] {
				t.Fatalf("block %d is %v, %v in %v, want %v", block, kind, does, r, kinds[block])
			}
			if does {
				r.drop()
			}
		}
	})
}

// pieces is blocks in runs of up to three.
func pieces(kinds []where) (all []run) {
	for block := 0; block < len(kinds); block++ {
		one := run{uint32(block), uint32(block + 1), kinds[block]}
		for one.where != 0 && int(one.end) < len(kinds) && kinds[one.end] == one.where && one.end-one.first < 3 {
			one.end++
			block++
		}
		if one.where != 0 {
			all = append(all, one)
		}
	}
	return all
}

// slowly is a landing that takes its time.
type slowly struct {
	Landing
	each   time.Duration // for what lands at once
	offset uint64
}

func (l *slowly) Offset() uint64 { return l.offset }

func (l *slowly) Zeros(count uint64) error {
	time.Sleep(l.each)
	l.offset += count
	return nil
}

// A run of zeros is one datagram, and landing it may take any time, for which a replica goes on to answer polls. What is behind something
// that is missing takes as little memory.
func TestLongRunOfZerosLandsByAndBy(t *testing.T) { synctest.Test(t, longRunOfZerosLandsByAndBy) }

func longRunOfZerosLandsByAndBy(t *testing.T) {
	const length = 4 << 30
	r, disk := receiving(t, length), &slowly{each: 2 * time.Millisecond}
	r.landing, r.blocks = disk, newBlocks(r.shape, disk, &r.stats)
	box, number := r.heard.Secret.Group(), uint64(0)
	say := func(first, count uint32) {
		t.Helper()
		began := time.Now()
		r.take(box.Seal(nil, wire.Head{Kind: wire.Zero, Block: first, Number: number}, wire.AppendZero(nil, count)), r.heard.Sender)
		number++
		if took := time.Since(began); took > 0 {
			t.Errorf("%d blocks of zeros were landed for %v before anything else was heard", count, took)
		}
	}
	say(1, r.shape.Blocks()-1)
	if len(r.blocks.ahead) != 1 || disk.offset > 0 {
		t.Errorf("all but the first block are %d runs; %d bytes have landed", len(r.blocks.ahead), disk.offset)
	}
	say(0, 1)
	began := time.Now()
	for poll := uint32(1); r.rules.State() == wire.Receiving; poll++ {
		r.rules.Polled(wire.Polled{Poll: poll, Passed: r.shape.Blocks(), Members: 1, Every: 1}, number, time.Now())
		number++
		before := time.Now()
		r.catchUp()
		if took := time.Since(before); took == 0 || took > 40*time.Millisecond {
			t.Fatalf("after %v nothing was heard for %v", time.Since(began), took)
		}
		if _, ok := r.rules.Report(time.Now()); !ok {
			t.Fatalf("after %v a poll is not answered", time.Since(began))
		}
	}
	if r.rules.State() != wire.Landed || disk.offset != length || len(r.blocks.ahead) > 0 {
		t.Errorf("%v: %d bytes have landed, %v are left", r.rules.State(), disk.offset, r.blocks.ahead)
	}
	if took := time.Since(began); took < time.Minute {
		t.Errorf("it took %v", took)
	}
}
