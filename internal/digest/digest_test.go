package digest_test

import (
	"fmt"
	"testing"

	"lukechampine.com/blake3"
	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/digest"
)

// content is bytes that differ from place to place.
func content(n int) []byte {
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(i*i>>3 ^ i)
	}
	return bytes
}

// Every way to cut the bytes gives the library's hash, at every length around the
// borders of chunks, groups and subtrees.
func TestSumIsBLAKE3(t *testing.T) {
	bytes := content(1 << 20)
	for _, border := range []int{0, 64, 1024, 2048, 15 << 10, 16 << 10, 17 << 10, 32 << 10, 48 << 10, 64 << 10, 1<<20 - 1} {
		for length := max(0, border-1); length <= border+1; length++ {
			var hash digest.Hash
			_, _ = hash.Write(bytes[:length])
			if got, want := hash.Sum(), blake3.Sum256(bytes[:length]); got != want {
				t.Errorf("%d bytes: %x, want %x", length, got, want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var hash digest.Hash
		length := 0
		for _, piece := range rapid.SliceOfN(rapid.IntRange(0, 70<<10), 0, 10).Draw(t, "pieces") {
			_, _ = hash.Write(bytes[length : length+piece])
			length += piece
			if rapid.Bool().Draw(t, "sum between") {
				hash.Sum()
			}
		}
		if got, want := hash.Sum(), blake3.Sum256(bytes[:length]); got != want {
			t.Fatalf("%d bytes: %x, want %x", length, got, want)
		}
	})
}

// A copy is where the original was.
func TestCopyGoesOnByItself(t *testing.T) {
	bytes := content(100_000)
	var hash digest.Hash
	_, _ = hash.Write(bytes[:40_000])
	held := hash
	_, _ = hash.Write(bytes[40_000:])
	if held.Sum() != blake3.Sum256(bytes[:40_000]) || hash.Sum() != blake3.Sum256(bytes) {
		t.Error("a hash changed with its copy")
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{16 << 10, 64 << 10, 1 << 20} {
		bytes := content(size)
		b.Run(fmt.Sprintf("ours/%dKiB", size>>10), func(b *testing.B) {
			var hash digest.Hash
			b.SetBytes(int64(size))
			for b.Loop() {
				_, _ = hash.Write(bytes)
			}
		})
		b.Run(fmt.Sprintf("library/%dKiB", size>>10), func(b *testing.B) {
			hash := blake3.New(digest.Size, nil)
			b.SetBytes(int64(size))
			for b.Loop() {
				_, _ = hash.Write(bytes)
			}
		})
	}
}
