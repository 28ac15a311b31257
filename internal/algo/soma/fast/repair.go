package fast

import (
	"math/bits"
	"slices"

	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// parities is how many shards of parity a block can have.
const parities = wire.MaxShards - wire.PacketsPerBlock

// CodeOf returns how many shards of parity the code has of which so many are used: sender and receivers must take
// the same one.
func CodeOf(shards int) int { return min(1<<bits.Len(uint(shards-1)), parities) }

// repair is what is to be sent again of a block. A round of it begins with a poll after the
// last time that something was sent: answers to earlier polls did not know of that.
type repair struct {
	poll    uint32 // the latest when something was sent
	need    int    // packets that the neediest misses in this round
	sent    int    // shards of parity, in this round
	missing uint64 // by anybody in this round
	gone    uint64 // packets that were sent again in this round
	isPlain bool   // packets are sent again, not parity
	queued  bool
}

func (k *repair) isOver() bool {
	if k.isPlain {
		return k.missing&^k.gone == 0
	}
	return k.sent >= k.need
}

// repairs is what is to be sent again.
type repairs struct {
	blocks  map[uint32]*repair
	cursors cursors
	queue   []uint32
	refill  spans // whole blocks, for members that were away
}

// cursors is the next shard of parity of each block, in pages: it is known for longer than repairs are. A round that began with shards that
// a member has would be of no use to it, and so would the next one.
type cursors map[uint32]*[cursorPage]uint8

const cursorPage = 1 << 12

func (c cursors) of(block uint32) int {
	if page := c[block/cursorPage]; page != nil {
		return int(page[block%cursorPage])
	}
	return 0
}

func (c cursors) set(block uint32, cursor int) {
	page := c[block/cursorPage]
	if page == nil {
		page = new([cursorPage]uint8)
		c[block/cursorPage] = page
	}
	page[block%cursorPage] = uint8(cursor)
}

func (r *repairs) of(block uint32) *repair {
	known, has := r.blocks[block]
	if !has {
		known = &repair{}
		r.blocks[block] = known
	}
	return known
}

// want notes what a member misses of a block, in answer to a poll. If several members listen,
// parity is sent: one shard repairs whatever packet each has lost.
func (r *repairs) want(s Shape, poll uint32, w wire.Want, several bool) {
	known := r.of(w.Block)
	if known.isOver() && poll > known.poll {
		*known = repair{poll: known.poll, queued: known.queued}
		known.isPlain = !several || int(w.Need) > wire.PacketsPerBlock/2
	}
	known.need = max(known.need, int(w.Need))
	known.missing |= w.Missing & s.all(w.Block)
	if !known.isOver() && !known.queued {
		known.queued = true
		r.queue = append(r.queue, w.Block)
	}
}

// begins reports whether a want for a block, in answer to a poll, begins a round.
func (r *repairs) begins(poll, block uint32) bool {
	known := r.blocks[block]
	return known == nil || known.isOver() && poll > known.poll
}

// run notes that a member misses a whole block, and can wait.
func (r *repairs) run(poll uint32, block uint32) {
	if r.begins(poll, block) {
		r.refill.add(block)
	}
}

// next takes what to send for a block that waits.
func (r *repairs) next(poll uint32, room int) (d Decision, ok bool) {
	for len(r.queue) > 0 {
		block := r.queue[0]
		known := r.blocks[block]
		if known.isOver() {
			known.queued = false
			r.queue = r.queue[1:]
			continue
		}
		known.poll = poll
		if !known.isPlain {
			return r.parity(known, block, min(known.need-known.sent, room)), true
		}
		mask := lowest(known.missing&^known.gone, room)
		known.gone |= mask
		return Decision{Do: SendData, Block: block, Mask: mask, Repair: true}, true
	}
	return Decision{}, false
}

// upcoming returns the block that waits first.
func (r *repairs) upcoming() (block uint32, is bool) {
	at := slices.IndexFunc(r.queue, func(block uint32) bool { return !r.blocks[block].isOver() })
	if at < 0 {
		return 0, false
	}
	return r.queue[at], true
}

func (r *repairs) parity(k *repair, block uint32, count int) Decision {
	first := r.cursors.of(block)
	count = min(count, parities-first)
	k.sent += count
	r.cursors.set(block, (first+count)%parities)
	return Decision{Do: SendParity, Block: block, First: first, Count: count, Repair: true}
}

// again takes what to send of blocks that are sent whole, one after the other: what comes of one while the rest
// is still on its way is no news, and asks for nothing.
func (r *repairs) again(s Shape, poll uint32, room int) (d Decision, ok bool) {
	block, has := r.refill.first()
	if !has {
		return Decision{}, false
	}
	r.refill.drop()
	known := r.of(block)
	*known = repair{queued: true, isPlain: true, missing: s.all(block)}
	r.queue = append(r.queue, block)
	return r.next(poll, room)
}

// zeroed notes that blocks in a row were repaired by one word, of which the first was to be sent.
func (r *repairs) zeroed(first, end uint32) {
	known := r.of(first)
	known.sent, known.gone = known.need, known.missing
	r.refill.cut(first, end)
}

// forget drops what nobody can ask for any more, and rounds that are over and so old that answers to polls before them have long come:
// one member that is far behind would have all be kept.
func (r *repairs) forget(before, poll uint32) {
	for block, known := range r.blocks {
		if isOld := known.isOver() && poll-known.poll > pollMemory; !known.queued && (block < before || isOld) {
			delete(r.blocks, block)
		}
	}
	for page := range r.cursors {
		if page < before/cursorPage {
			delete(r.cursors, page)
		}
	}
}

// lowest returns the lowest bits of a mask, at most so many.
func lowest(mask uint64, most int) (low uint64) {
	for ; mask != 0 && most > 0; most-- {
		bit := mask & -mask
		low, mask = low|bit, mask&^bit
	}
	return low
}

// span is blocks in a row.
type span struct{ first, end uint32 }

// spans is blocks, in order.
type spans []span

// add puts in a block.
func (s *spans) add(block uint32) {
	at, _ := slices.BinarySearchFunc(*s, block, func(one span, b uint32) int {
		if one.end < b {
			return -1
		}
		return 1
	})
	all := *s
	switch {
	case at < len(all) && all[at].first <= block && block < all[at].end:
	case at < len(all) && all[at].end == block:
		all[at].end++
		if at+1 < len(all) && all[at+1].first == all[at].end {
			all[at].end = all[at+1].end
			*s = slices.Delete(all, at+1, at+2)
		}
	case at < len(all) && all[at].first == block+1:
		all[at].first--
	default:
		*s = slices.Insert(all, at, span{block, block + 1})
	}
}

// cut takes out blocks in a row.
func (s *spans) cut(first, end uint32) {
	var left spans
	for _, one := range *s {
		if before := (span{one.first, min(one.end, first)}); before.first < before.end {
			left = append(left, before)
		}
		if after := (span{max(one.first, end), one.end}); after.first < after.end {
			left = append(left, after)
		}
	}
	*s = left
}

func (s spans) first() (block uint32, ok bool) {
	if len(s) == 0 {
		return 0, false
	}
	return s[0].first, true
}

// drop takes out the first block.
func (s *spans) drop() {
	if (*s)[0].first++; (*s)[0].first == (*s)[0].end {
		*s = (*s)[1:]
	}
}
