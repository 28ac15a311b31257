package link_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/link"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
)

// steadiness notes when bytes land.
type steadiness struct {
	*sink
	mu      sync.Mutex
	last    time.Time
	longest time.Duration // the longest time in which nothing landed
	landed  uint64
}

func (s *steadiness) Landed(upTo uint64) error {
	s.mu.Lock()
	now := time.Now()
	s.longest, s.last, s.landed = max(s.longest, now.Sub(s.last)), now, upTo
	s.mu.Unlock()
	return s.sink.Landed(upTo)
}

// A low rate is kept steadily, not as bursts with silence between them: a short link takes at once what is to last for seconds.
func TestLowRatesAreSteady(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	file, content := randomFile(t, 16<<20)
	for _, rate := range []uint64{4 << 10, 28 << 10, 1 << 20} {
		for _, plaintext := range []bool{false, true} {
			t.Run(fmt.Sprintf("rate=%d plaintext=%t", rate, plaintext), func(t *testing.T) {
				t.Parallel()
				parent, child := n.connect(t, wire.Hello{Stripes: 1, Plaintext: plaintext}, 0)
				if err := parent.SetMaxRate(rate); err != nil {
					t.Fatal(err)
				}
				store := &steadiness{sink: newSink(emptyFile(t), 0, 1<<20), last: time.Now()}
				begun := time.Now()
				time.AfterFunc(10*time.Second, func() { parent.Close() })
				transfer(t.Context(), parent, child, 0, &source{file: file, length: uint64(len(content))}, store)
				took := time.Since(begun)
				t.Logf("%d bytes in %v, none for %v at most", store.landed, took, store.longest)
				if took < 9*time.Second || store.longest > time.Second {
					t.Errorf("the link lived for %v; nothing came for %v", took, store.longest)
				}
				if want := float64(rate) * took.Seconds(); float64(store.landed) < 0.8*want || float64(store.landed) > 1.05*want+float64(rate)/10 {
					t.Errorf("%d bytes came in %v, want %.0f", store.landed, took, want)
				}
			})
		}
	}
}

var _ link.Store = (*steadiness)(nil)
