package fast

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/groupcast/groupcast/internal/algo/datagram"
	"github.com/groupcast/groupcast/internal/algo/moment"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

const (
	// reorder is how many packets may overtake one before it counts as lost, and for
	// how long it may be awaited.
	reorder     = 64
	reorderTime = 10 * time.Millisecond
	// maxAsked is how many whole blocks are asked for at once.
	maxAsked = 4096
	// mostParts is of how many blocks parts are asked for in one report, which has room for whole ones, too.
	mostParts = wire.MaxWants * 3 / 4
	// keepTelling is how often a member says that it is done until it is heard.
	keepTelling = 20 * time.Millisecond
)

// Receiver decides what a member takes, and when it reports.
type Receiver struct {
	shape    Shape
	id       ID
	most     int // blocks that may be open
	done     []uint64
	frontier uint32
	open     map[uint32]*gather
	asked    map[uint32]time.Time

	seen     datagram.Seen
	received uint64
	taken    uint64 // packets and shards that were of use, or would have been if there had been room
	last     wire.Polled
	lastAt   time.Time
	then     uint64    // received when that came: more may have come since
	pending  []passing // polls that may still be overtaking packets
	ripe     uint32    // what is missing before it is lost

	reportAt time.Time // zero if nobody asked
	wantAt   time.Time // zero if nothing is missing
	state    wire.State
	reason   wire.Reason
	root     [wire.RootSize]byte
}

type passing struct {
	passed uint32
	number uint64
	at     time.Time
}

// gather is what has come of a block that is not whole.
type gather struct {
	data   uint64
	parity [parities / 64]uint64
	count  int
	asked  time.Time
}

// NewReceiver returns a receiver that has the blocks before one, and holds at most so many that
// are not whole.
func NewReceiver(shape Shape, have uint32, most int) *Receiver {
	r := &Receiver{
		shape: shape, most: most, done: make([]uint64, (uint64(shape.Blocks())+63)/64),
		open: map[uint32]*gather{}, asked: map[uint32]time.Time{},
	}
	for block := range have {
		r.done[block/64] |= 1 << (block % 64)
	}
	r.advance()
	return r
}

// Welcome tells the member its number.
func (r *Receiver) Welcome(id ID) { r.id = id }

// Frontier is the first block that is not there.
func (r *Receiver) Frontier() uint32 { return r.frontier }

// State returns how far it is.
func (r *Receiver) State() wire.State { return r.state }

// Has reports whether a block is there.
func (r *Receiver) Has(block uint32) bool { return r.done[block/64]&(1<<(block%64)) != 0 }

// Wants reports whether a packet or shard is of use. It can be asked of what is not
// authenticated.
func (r *Receiver) Wants(block uint32, index int) bool {
	if r.state != wire.Receiving || block >= r.shape.Blocks() || r.Has(block) {
		return false
	}
	if index < wire.PacketsPerBlock && index >= r.shape.Packets(block) {
		return false
	}
	g := r.open[block]
	if g == nil {
		return len(r.open) < r.most
	}
	return !g.has(index)
}

func (g *gather) has(index int) bool {
	if index < wire.PacketsPerBlock {
		return g.data&(1<<index) != 0
	}
	index -= wire.PacketsPerBlock
	return g.parity[index/64]&(1<<(index%64)) != 0
}

// Came notes the number of an authenticated datagram to the group; it reports whether it came
// for the first time.
func (r *Receiver) Came(number uint64) bool {
	first := r.seen.Note(number)
	if first {
		r.received++
	}
	return first
}

// Took notes a packet or shard that was taken, and reports whether the block can be made whole now.
func (r *Receiver) Took(block uint32, index int) (whole bool) {
	g := r.open[block]
	if g == nil {
		g = &gather{}
		r.open[block] = g
	}
	r.taken++
	if index < wire.PacketsPerBlock {
		g.data |= 1 << index
	} else {
		g.parity[(index-wire.PacketsPerBlock)/64] |= 1 << ((index - wire.PacketsPerBlock) % 64)
	}
	g.count++
	return g.count >= r.shape.Packets(block)
}

// Refused notes an authenticated packet or shard that was not wanted: of a block that is missing, that says that such get here.
func (r *Receiver) Refused(block uint32) {
	if r.state == wire.Receiving && block < r.shape.Blocks() && !r.Has(block) && r.open[block] == nil {
		r.taken++
	}
}

// Missing returns which packets of an open block have to be made from parity.
func (r *Receiver) Missing(block uint32) uint64 { return r.shape.all(block) &^ r.open[block].data }

// Whole notes that a block is there.
func (r *Receiver) Whole(block uint32) {
	delete(r.open, block)
	delete(r.asked, block)
	r.done[block/64] |= 1 << (block % 64)
	r.advance()
}

// Gap returns the first blocks in a row that are not there, of those from one on and before another; none if from is to.
func (r *Receiver) Gap(first, end uint32) (from, to uint32) {
	for from = first; from < end && r.Has(from); from++ {
		if r.done[from/64] == ^uint64(0) {
			from |= 63 // all of these are there
		}
	}
	from = min(from, end)
	for to = from; to < end && !r.Has(to); to++ {
		if r.done[to/64] == 0 {
			to |= 63 // none of them is
		}
	}
	return from, min(to, end)
}

// Fill notes that blocks in a row are there, of which none was.
func (r *Receiver) Fill(first, end uint32) {
	maps.DeleteFunc(r.open, func(block uint32, _ *gather) bool { return first <= block && block < end })
	maps.DeleteFunc(r.asked, func(block uint32, _ time.Time) bool { return first <= block && block < end })
	for block := first; block < end; block++ {
		r.done[block/64] |= 1 << (block % 64)
	}
	r.advance()
}

// Drop forgets what has come of a block: there is no room for it.
func (r *Receiver) Drop(block uint32) { delete(r.open, block) }

func (r *Receiver) advance() {
	for r.frontier < r.shape.Blocks() && r.Has(r.frontier) {
		if r.frontier%64 == 0 && r.done[r.frontier/64] == ^uint64(0) {
			r.frontier += 64
			continue
		}
		r.frontier++
	}
	r.frontier = min(r.frontier, r.shape.Blocks())
}

// Enter changes the state, and has it reported.
func (r *Receiver) Enter(state wire.State, reason wire.Reason, root [wire.RootSize]byte, now time.Time) {
	r.state, r.reason, r.root = state, reason, root
	r.reportAt = now
}

// Tell has the sender told how this member stands at once.
func (r *Receiver) Tell(now time.Time) { r.reportAt = now }

// Polled takes a poll that was opened, and when it came to this machine: how long it waited there
// for its reader is no delay of the network.
func (r *Receiver) Polled(p wire.Polled, number uint64, now time.Time) {
	if p.Poll <= r.last.Poll {
		return
	}
	r.last, r.lastAt, r.then = p, now, r.received
	if p.Passed > r.shape.Blocks() {
		return
	}
	r.pending = append(r.pending, passing{p.Passed, number, now})
	r.ripen(now)
	if uint16(r.id) == p.Slowest || uint16(r.id)%p.Every == p.Turn || r.isTelling() && r.reportAt.IsZero() {
		r.reportAt = now
	}
	if r.state == wire.Receiving && r.frontier < p.Passed && r.wantAt.IsZero() {
		r.wantAt = now.Add(reorderTime + r.slot())
		if r.frontier < r.ripe {
			r.wantAt = now.Add(r.slot())
		}
	}
}

// slot is how long this member waits before it asks for something, so that others that miss the
// same need not ask: each poll has another order.
func (r *Receiver) slot() time.Duration {
	return r.last.Slot * time.Duration((uint32(r.id)+r.last.Poll)%max(uint32(r.last.Members), 1))
}

// ripen finds out what is lost, not only late.
func (r *Receiver) ripen(now time.Time) {
	kept := r.pending[:0]
	for _, p := range r.pending {
		if p.number+reorder <= r.seen.Next() || now.Sub(p.at) >= reorderTime {
			r.ripe = max(r.ripe, p.passed)
		} else {
			kept = append(kept, p)
		}
	}
	r.pending = kept
}

// Due is when Report has something to say; zero if it is not known.
func (r *Receiver) Due() time.Time { return moment.Soonest(r.reportAt, r.wantAt) }

// Report returns what to tell the sender now, if anything.
func (r *Receiver) Report(now time.Time) (report wire.Reported, ok bool) {
	due := !r.reportAt.IsZero() && !now.Before(r.reportAt)
	var wants []wire.Want
	if !r.wantAt.IsZero() && !now.Before(r.wantAt) {
		r.wantAt = time.Time{}
		r.ripen(now)
		if wants = r.wants(now); len(wants) >= mostParts { // there may be more
			r.wantAt = now.Add(max(r.last.Slot, time.Millisecond))
		}
	}
	if !due && len(wants) == 0 {
		return wire.Reported{}, false
	}
	if r.reportAt = (time.Time{}); r.isTelling() {
		r.reportAt = now.Add(max(keepTelling, r.last.Hold))
	}
	return wire.Reported{
		Poll: r.last.Poll, Held: now.Sub(r.lastAt), Seen: r.seen.Next(), Received: r.then,
		Frontier: r.frontier, State: r.state, Reason: r.reason, Taken: tellTaken(r.taken), Root: r.root, Wants: wants,
	}, true
}

// tellTaken is a count as a report has it: never zero.
func tellTaken(count uint64) uint16 { return uint16(1 + count%math.MaxUint16) }

// isTelling reports whether it says again and again how it is, until that is answered. Before the
// root is known nobody can answer one that has landed: polls ask it.
func (r *Receiver) isTelling() bool {
	switch r.state {
	case wire.Landed:
		return r.last.Root != [wire.RootSize]byte{}
	case wire.Complete, wire.Failed:
		return true
	}
	return false
}

// wants is what is lost and was not asked for of late.
func (r *Receiver) wants(now time.Time) []wire.Want {
	if r.state != wire.Receiving {
		return nil
	}
	parts := r.parts(now)
	if len(r.open) > r.most*7/8 { // there is no room for what was lost of whole ones
		return parts
	}
	return r.wholes(parts, now)
}

// parts is what is lost of blocks of which something is there. There is room for so many only: however much is missing before them, they are
// asked for.
func (r *Receiver) parts(now time.Time) (wants []wire.Want) {
	for _, block := range slices.Sorted(maps.Keys(r.open)) {
		g := r.open[block]
		need := r.shape.Packets(block) - g.count
		switch {
		case block >= r.ripe || len(wants) == mostParts:
			return wants
		case need <= 0 || now.Sub(g.asked) < r.last.Hold: // it is landing, or was asked for
			continue
		}
		g.asked = now
		wants = append(wants, wire.Want{Block: block, Need: uint8(need), Missing: r.Missing(block)})
	}
	return wants
}

// wholes adds the blocks of which nothing is there.
func (r *Receiver) wholes(wants []wire.Want, now time.Time) []wire.Want {
	asked := 0
	for block := r.frontier; block < r.ripe && len(wants) < wire.MaxWants && asked < maxAsked; block++ {
		if r.done[block/64] == ^uint64(0) {
			block |= 63 // all of these are there
			continue
		}
		if r.Has(block) || r.open[block] != nil {
			continue
		}
		asked++
		if now.Sub(r.asked[block]) < max(2*r.last.Hold, 4*reorderTime) {
			continue
		}
		r.asked[block] = now
		if n := len(wants); n > 0 && wants[n-1].Run > 0 && wants[n-1].Block+uint32(wants[n-1].Run) == block && wants[n-1].Run < 1<<16-1 {
			wants[n-1].Run++
		} else {
			wants = append(wants, wire.Want{Block: block, Run: 1})
		}
	}
	return wants
}
