package datagram

import (
	wire "github.com/groupcast/groupcast/internal/wire/datagram"
)

const (
	// kept is how many of the latest datagrams are kept to compute others from. It is more than two
	// of the largest windows: anything older would be late.
	kept = 4 * wire.MaxCount
	// openWindows is how many windows are remembered.
	openWindows = 16
)

// Found is something to hand on after something came.
type Found struct {
	wire.Header
	Payload []byte
}

// Repair computes lost datagrams from parity, and lost parity from datagrams: an agent passes on
// whole windows, so that every link of a tree only has to repair its own loss.
type Repair struct {
	coders  coders
	blocks  [kept]slot
	windows [openWindows]window
}

// slot keeps the block of one datagram.
type slot struct {
	used     bool
	sequence uint64
	block    []byte
}

// window is a run of datagrams and its parity.
type window struct {
	used   bool
	first  uint64
	count  int
	shards [][]byte // by index; nil if it has not come
	known  int      // how many shards are known
	passed []bool   // by index: the shard was handed on
	done   bool     // every datagram of it is known
}

// NewRepair returns a repair for a code.
func NewRepair(code Code) *Repair { return &Repair{coders: newCoders(code.Parity)} }

// Data takes a datagram that came, and returns others that can now be computed.
func (r *Repair) Data(sequence, sent uint64, payload []byte) []Found {
	r.keep(sequence, sent, payload)
	for i := range r.windows {
		if w := &r.windows[i]; w.used && !w.done && sequence >= w.first && sequence-w.first < uint64(w.count) {
			return r.solve(w)
		}
	}
	return nil
}

// Parity takes a shard that came, and returns what to hand on: the shard itself, if it was not
// handed on before, and what can now be computed.
func (r *Repair) Parity(h wire.Header, block []byte) (found []Found) {
	w := r.window(h)
	if w == nil || w.passed[h.Index] || len(w.shards) > 0 && !w.fits(len(block)) {
		return nil
	}
	w.shards[h.Index] = append([]byte(nil), block...)
	w.known++
	// What is recovered goes first, so that the next node does not have to recover it, too.
	if found = r.solve(w); !w.passed[h.Index] {
		w.passed[h.Index] = true
		found = append(found, Found{h, w.shards[h.Index]})
	}
	return found
}

// fits reports whether a shard is as long as those before it.
func (w *window) fits(length int) bool {
	for _, shard := range w.shards {
		if shard != nil && len(shard) != length {
			return false
		}
	}
	return true
}

func (r *Repair) keep(sequence, sent uint64, payload []byte) {
	s := &r.blocks[sequence%kept]
	s.used, s.sequence, s.block = true, sequence, wire.AppendBlock(s.block[:0], sent, payload, 0)
}

func (r *Repair) block(sequence uint64) []byte {
	if s := r.blocks[sequence%kept]; s.used && s.sequence == sequence {
		return s.block
	}
	return nil
}

// window returns the window of a shard; a new one takes the place of the oldest. It returns nil if
// the window is older than all, or the shard contradicts earlier ones.
func (r *Repair) window(h wire.Header) *window {
	if int(h.Index) >= r.coders.parity {
		return nil
	}
	oldest := &r.windows[0]
	for i := range r.windows {
		w := &r.windows[i]
		if w.used && w.first == h.Sequence {
			if w.count != int(h.Count) {
				return nil
			}
			return w
		}
		if !w.used || oldest.used && w.first < oldest.first {
			oldest = w
		}
	}
	if oldest.used && h.Sequence < oldest.first {
		return nil
	}
	*oldest = window{
		used: true, first: h.Sequence, count: int(h.Count),
		shards: make([][]byte, r.coders.parity), passed: make([]bool, r.coders.parity),
	}
	return oldest
}

// missing returns how many datagrams of a window are not known.
func (r *Repair) missing(w *window) (n int) {
	for i := range w.count {
		if r.block(w.first+uint64(i)) == nil {
			n++
		}
	}
	return n
}

// solve computes what is missing of a window, if enough of it is known.
func (r *Repair) solve(w *window) (found []Found) {
	if w.done || r.missing(w) > w.known {
		return nil
	}
	w.done = true
	size, all := w.size(), make([][]byte, w.count+r.coders.parity)
	for i := range w.count {
		if block := r.block(w.first + uint64(i)); len(block) <= size && block != nil {
			all[i] = fill(append(make([]byte, 0, size), block...), size)
		}
	}
	copy(all[w.count:], w.shards)
	if err := r.coders.of(w.count).Reconstruct(all); err != nil {
		return nil // the shards do not fit together: a node upstream is wrong
	}
	return append(r.lost(w, all), w.unpassed(all)...)
}

func (w *window) size() int {
	for _, shard := range w.shards {
		if shard != nil {
			return len(shard)
		}
	}
	return 0
}

// lost returns the datagrams that were unknown before.
func (r *Repair) lost(w *window, all [][]byte) (found []Found) {
	for i, block := range all[:w.count] {
		sequence := w.first + uint64(i)
		if r.block(sequence) != nil {
			continue
		}
		sent, payload, err := wire.ParseBlock(block)
		if err != nil || len(payload) > wire.MaxPayload {
			return found
		}
		r.keep(sequence, sent, payload)
		found = append(found, Found{wire.Header{Kind: wire.Data, Sequence: sequence, Sent: sent}, payload})
	}
	return found
}

// unpassed returns the parity that has not been handed on yet.
func (w *window) unpassed(all [][]byte) (found []Found) {
	for i, passed := range w.passed {
		if passed {
			continue
		}
		w.passed[i] = true
		shard := Shard{w.first, w.count, i, all[w.count+i]}
		found = append(found, Found{shard.Header(), shard.Block})
	}
	return found
}
