package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
)

// within decides, with so much memory, about the clients of uploading: probe of priority 2, archive of 0, sensor of 1.
func within(t *testing.T, memory int) window.Decision {
	facts := uploading(32e3).Facts
	facts.Link.Memory = memory
	return newBench(t, window.Groupcast, window.Options{}).advance(2*second, facts)
}

// forTargets returns the windows that targets take, of those that were planned without a bound.
func forTargets(d window.Decision) (bytes [3]int, sum int) {
	for i, client := range uploading(0).Clients {
		w := float64(d.Shares[i].Windows[0].Bytes)
		bytes[i] = int(w * min(1, float64(client.Target/d.Shares[i].Rate)))
		sum += bytes[i]
	}
	return bytes, sum
}

func wantWithin(t *testing.T, d window.Decision, memory int, want ...int) {
	t.Helper()
	sum := 0
	for i, share := range d.Shares {
		got := share.Windows[0].Bytes
		sum += got
		if got < want[i]-2 || got > want[i]+2 {
			t.Errorf("%s: a window of %d bytes, want %d", share.Name, got, want[i])
		}
	}
	if sum > memory || d.Budget != sum {
		t.Errorf("windows of %d bytes in %d of memory, and %d are said", sum, memory, d.Budget)
	}
}

// All windows together are never more than the memory. What targets take comes first, and the rest goes
// as it would have gone.
func TestMemoryBoundsTheWindows(t *testing.T) {
	whole := within(t, 0)
	if whole.Scarce {
		t.Error("without a bound it is scarce")
	}
	targets, sum := forTargets(whole)
	rest := whole.Budget - sum
	half := sum + rest/2
	d := within(t, half)
	want := make([]int, 3)
	for i, share := range whole.Shares {
		want[i] = targets[i] + (share.Windows[0].Bytes-targets[i])*(rest/2)/rest
	}
	wantWithin(t, d, half, want...)
	if !d.Scarce {
		t.Error("it is not said that memory is scarce")
	}
}

// If targets take more than there is, everybody has three segments of 1000 bytes, and the rest goes by decreasing
// priority: the first has what its target takes, and then the second what is left.
func TestMemoryGoesByPriority(t *testing.T) {
	targets, _ := forTargets(within(t, 0))
	memory := targets[0] + 3000 + 3000
	wantWithin(t, within(t, memory), memory, targets[0], 3000, 3000)
	wantWithin(t, within(t, memory+1000), memory+1000, targets[0], 3000, 4000)
	wantWithin(t, within(t, 15000), 15000, 9000, 3000, 3000)
}

// If there is not even memory for three segments each, all have less, over one connection.
func TestNextToNoMemory(t *testing.T) {
	d := within(t, 3000)
	sum := 0
	for _, share := range d.Shares {
		if share.Connections != 1 || share.Windows[0].Bytes < 1 {
			t.Errorf("%s: %d bytes over %d connections", share.Name, share.Windows[0].Bytes, share.Connections)
		}
		sum += share.Windows[0].Bytes
	}
	if sum > 3000 || d.Budget != sum {
		t.Errorf("%d bytes of 3000, and %d are said", sum, d.Budget)
	}
}

// A client that stalls holds the window that it was shown. Of clients that come one after the other and send nothing, later ones are
// shown less, so that all that they may send fits the memory, except for three segments each.
func TestFirstWindowsOfThoseThatStallFitTheMemory(t *testing.T) {
	const memory, crowd, least = 4 << 20, 500, 4344
	b := newBench(t, window.Groupcast, window.Options{})
	facts := window.Facts{Link: window.Link{Memory: memory}}
	offered, beyond := 0, 0
	for i := range crowd {
		b.step(facts)
		first := b.First()
		offered += first
		beyond += min(first, least)
		one := window.Connection{ID: uint64(i + 1), RTT: 20 * time.Millisecond, LeastRTT: 20 * time.Millisecond, MSS: 1448, Offered: first, Idle: true}
		facts.Clients = append(facts.Clients, window.Client{Name: fmt.Sprint("c", i), Connections: []window.Connection{one}})
	}
	if offered > memory+beyond {
		t.Errorf("%d clients that stall may send %d bytes, want at most %d, and %d for the least", crowd, offered, memory, beyond)
	}
}

// Newcomers are at first shown no more than the free memory has for many of them, and at least three segments.
func TestFirstWindowFitsTheMemory(t *testing.T) {
	for memory, want := range map[int]int{0: 32 << 10, 64 << 20: 32 << 10, 1e6: 12e3, 1000: 4344} {
		b := newBench(t, window.Groupcast, window.Options{})
		facts := uploading(32e3).Facts
		facts.Link.Memory = memory
		b.step(facts)
		if got := b.First(); got > want+2000 || got < want-2000 {
			t.Errorf("of %d bytes the first window is %d, want about %d", memory, got, want)
		}
	}
}
