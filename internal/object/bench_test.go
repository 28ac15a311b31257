package object_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/internal/testdisk"
)

// One file of 1 GiB lands in memory, hashed while it lands.
func BenchmarkLand(b *testing.B) {
	source := open(b, plantGibibyte(b))
	root := rootOf(b, source)
	to := testdisk.Memory(b, "size=1200m")
	b.SetBytes(int64(source.Info().Length))
	for b.Loop() {
		landing := land(b, to, source.Info())
		if err := deliver(source, landing, source.Info().Length, func(most int64) int64 { return min(most, 4<<20) }); err != nil {
			b.Fatal(err)
		}
		if err := landing.Complete(source.Info().Length, root, true); err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(filepath.Join(to, "it")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRoot(b *testing.B) {
	path := plantGibibyte(b)
	b.SetBytes(1 << 30)
	for b.Loop() {
		source := open(b, path)
		rootOf(b, source)
	}
}

// plantGibibyte makes a file of 1 GiB in memory.
func plantGibibyte(b *testing.B) (path string) {
	b.Helper()
	path = filepath.Join(testdisk.Memory(b, "size=1200m"), "it")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for i := range 1 << 10 {
		block[0], block[1] = byte(i), byte(i>>8)
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	return path
}
