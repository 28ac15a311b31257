package gatherer_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/services/gatherer"
)

// counter is an interface's, as the kernel shows it.
type counter struct {
	*testing.T
	file string
	rate func() window.Rate
}

func (c *counter) shows(text string) {
	c.Helper()
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

// after lets time pass and the counter change, and compares the rate.
func (c *counter) after(d time.Duration, received uint64, want window.Rate) {
	c.Helper()
	time.Sleep(d) // in the bubble
	c.shows(strconv.FormatUint(received, 10) + "\n")
	if got := c.rate(); got != want {
		c.Errorf("%v later the counter is %d: %g bytes/s, want %g", d, received, got, want)
	}
}

// What came over an interface is told per second since the last call. The first call knows nothing, nor is anything known while the
// interface is gone, or after it was made anew.
func TestNeighboursAreCounted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rx_bytes")
	synctest.Test(t, func(t *testing.T) {
		c := &counter{T: t, file: file, rate: gatherer.CountIn(file)}
		c.after(0, 1_000_000, 0)
		c.after(500*time.Millisecond, 1_050_000, 100_000)
		c.after(2*time.Second, 1_050_000, 0)
		c.after(time.Second, 1_150_000, 100_000)
		if got := c.rate(); got != 0 {
			t.Errorf("asked again at once: %g bytes/s", got)
		}
		if err := os.Remove(c.file); err != nil {
			t.Fatal(err)
		}
		if got := c.rate(); got != 0 {
			t.Errorf("without an interface: %g bytes/s", got)
		}
		c.after(time.Second, 70, 0)
		c.after(time.Second, 1070, 1000)
		c.shows("many\n")
		if got := c.rate(); got != 0 {
			t.Errorf("of a counter that is none: %g bytes/s", got)
		}
	})
}

// Every interface has its counter where it is looked for; without a name nothing is counted.
func TestNeighboursOfAnInterface(t *testing.T) {
	if _, err := os.Stat(gatherer.CounterOf("lo")); err != nil {
		t.Error(err)
	}
	if got := gatherer.CountIn("")(); got != 0 || gatherer.CounterOf("") != "" {
		t.Errorf("without a name %q shows %g bytes/s", gatherer.CounterOf(""), got)
	}
}
