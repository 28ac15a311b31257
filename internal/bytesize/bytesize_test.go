package bytesize_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/bytesize"
)

func TestWhatIsWrittenCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := bytesize.Size(rapid.Uint64Range(0, 1<<53).Draw(t, "bytes"))
		var read bytesize.Size
		if err := read.Set(size.String()); err != nil || read != size {
			t.Errorf("%d is written %v and read %d (%v)", uint64(size), size, uint64(read), err)
		}
	})
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]bytesize.Size{"0": 0, "0.0B": 0, "17": 17, "1kB": 1000, "1KiB": 1024, "512MiB": 512 << 20, "4 GiB": 4 << 30, "100MB": 100e6} {
		var got bytesize.Size
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "much", "-1", "1 parsec", "0.5", "0.9B"} {
		if err := new(bytesize.Size).Set(text); err == nil {
			t.Errorf("%q is a number of bytes", text)
		}
	}
	for size, want := range map[bytesize.Size]string{0: "0B", 1: "1B", 1 << 20: "1MiB", 5e6: "5MB", 100e9: "100GB", 512000: "500KiB", 4<<30 + 1024: "4194305KiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d is %q, want %q", uint64(size), got, want)
		}
	}
}
