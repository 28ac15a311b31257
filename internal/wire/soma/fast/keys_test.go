package fast

import (
	"bytes"
	"testing"
)

// reliability D 8: what is sealed under one key is bounded. Each phase has a key of its own: the same under the same nonce is sealed
// differently.
func TestEachPhaseHasAKeyOfItsOwn(t *testing.T) {
	b := newBox(1, make([]byte, keySize), "label")
	var all [][]byte
	for _, number := range []uint64{0, 1, 2, MaxNumber >> phaseBits} {
		first, last := b.at(number<<phaseBits), b.at(number<<phaseBits+1<<phaseBits-1)
		if first.number != number || last.number != number {
			t.Errorf("phase %d: its first and last number are of phases %d and %d", number, first.number, last.number)
		}
		sealed := first.aead.Seal(nil, make([]byte, len(b.nonce)), []byte("same"), nil)
		for other, of := range all {
			if bytes.Equal(sealed, of) {
				t.Errorf("phases %d and %d have one key", number, other)
			}
		}
		all = append(all, sealed)
	}
}
