package object_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/testdisk"
)

// An object with holes takes no more room than it was said to need, however short the holes are, and whether it comes in order, ahead, or
// on from what was kept: here the disk has room for no more.
func TestShortHolesTakeNoRoom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const size = 16 << 20
	content := make([]byte, size)
	var zeros uint64
	for at := 0; at < size; {
		end := min(size, at+(1+random.IntN(16))*4096)
		if random.IntN(2) == 0 {
			zeros += uint64(end - at)
		} else {
			for i := at; i < end; i++ {
				content[i] = byte(random.Uint32())
			}
		}
		at = end
	}
	disk := testdisk.Memory(t, "size=16m")
	data := size - zeros
	if err := os.WriteFile(filepath.Join(disk, "others"), make([]byte, 16<<20-data-256<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	info := object.Info{Name: "f", Kind: object.File, Length: size, Mode: 0o644, Zeros: zeros}
	landing := land(t, disk, info)
	ahead := map[int]int{} // from where to where
	for landing.Offset() < size {
		at := int(landing.Offset())
		if end, is := ahead[at]; is {
			if err := landing.Adopt(uint64(end - at)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		switch end := min(size, at+92_160); random.IntN(20) {
		case 0:
			if err := landing.Keep(); err != nil {
				t.Fatal(err)
			}
			if landing = land(t, disk, info); int(landing.Offset()) != at {
				t.Fatalf("it goes on from %d, and had %d", landing.Offset(), at)
			}
			clear(ahead)
		case 1:
			if next := min(size, end+92_160); next > end {
				if taken, err := landing.Ahead(uint64(end), content[end:next]); err != nil || !taken {
					t.Fatal(taken, err)
				}
				ahead[end] = next
			}
			fallthrough
		default:
			if _, err := landing.Write(content[at:end]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := landing.Complete(size, object.Sum(content), true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(disk, "f"))
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join(disk, "f"), &stat); err != nil || uint64(stat.Blocks)*512 > data {
		t.Errorf("it has %d bytes on disk, of which %d are no zeros: %v", stat.Blocks*512, data, err)
	}
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("what landed differs: %v", err)
	}
}
