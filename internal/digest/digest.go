// Package digest computes BLAKE3 hashes on the core that has the bytes already.
//
// The library's own hasher starts a goroutine for every 16 KiB; for the pieces that come
// from a network that costs two to ten times the hashing itself. This one goes through
// the same tree, with the library's kernels, in the caller's goroutine.
package digest

import "lukechampine.com/blake3/guts"

// Size is how many bytes a sum has.
const Size = 32

const (
	// group is what the kernels take at once: the leaves of a whole subtree.
	group       = guts.MaxSIMD * guts.ChunkSize
	groupHeight = 4 // of that subtree: 1<<4 chunks
)

// Hash is a hash of what was written to it. The zero value is that of nothing; a copy
// goes on by itself.
type Hash struct {
	// subtrees has the chaining value of a whole subtree of height i where bit i of
	// chunks is set, as the tree grows from the left.
	subtrees [64][8]uint32
	chunks   uint64
	// rest is what follows them. It is compressed when more comes: the last group takes
	// part in the root.
	rest   [group]byte
	length int // of rest
}

// Write adds bytes. It never fails.
func (h *Hash) Write(p []byte) (int, error) {
	n := len(p)
	if h.length > 0 {
		taken := copy(h.rest[h.length:], p)
		h.length += taken
		if p = p[taken:]; len(p) == 0 {
			return n, nil
		}
		h.add(&h.rest)
	}
	for ; len(p) > group; p = p[group:] {
		h.add((*[group]byte)(p))
	}
	h.length = copy(h.rest[:], p)
	return n, nil
}

// add compresses a whole group that is not the last.
func (h *Hash) add(bytes *[group]byte) {
	value := guts.ChainingValue(guts.CompressBuffer(bytes, group, &guts.IV, h.chunks, 0))
	height := groupHeight
	for ; h.chunks&(1<<height) != 0; height++ {
		value = guts.ChainingValue(guts.ParentNode(h.subtrees[height], value, &guts.IV, 0))
	}
	h.subtrees[height] = value
	h.chunks += guts.MaxSIMD
}

// Sum returns the hash of all that was written. More can be written after it.
func (h *Hash) Sum() [Size]byte {
	node := guts.CompressBuffer(&h.rest, h.length, &guts.IV, h.chunks, 0)
	for height := groupHeight; h.chunks>>height > 0; height++ {
		if h.chunks&(1<<height) != 0 {
			node = guts.ParentNode(h.subtrees[height], guts.ChainingValue(node), &guts.IV, 0)
		}
	}
	node.Flags |= guts.FlagRoot
	out := guts.WordsToBytes(guts.CompressNode(node))
	return [Size]byte(out[:])
}
