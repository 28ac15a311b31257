package gather_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/papers/gathering"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Cameras send a picture now and then, as large as it is, and the round trip that the kernel knows of them has their pauses in it. One
// client beside them that always has more gets what they leave.
func TestCamerasHoldUpNobody(t *testing.T) {
	t.Parallel()
	const cameras, before, from, end = 5, 10, 20, 40
	c := gathering.Case{
		Seed: 71, Access: link.Shape{Rate: 40 * link.Mbit, Queue: link.Size(200 * link.KiB)},
		Terminals: []gathering.Terminal{terminal("bulk", 5*time.Millisecond, gather.Share{})},
	}
	for i := range cameras {
		c.Terminals = append(c.Terminals, terminal(fmt.Sprint("camera", i), time.Duration(1+i)*time.Millisecond, gather.Share{}))
	}
	seen := observe(t, c, func(s *gathering.Site) error {
		for i := range cameras {
			if _, err := s.Record(fmt.Sprint("camera", i), 8000, 33*time.Millisecond); err != nil { // 1.9 Mbit/s
				return err
			}
		}
		if err := s.Until(before * time.Second); err != nil {
			return err
		}
		if _, err := s.Stream("bulk"); err != nil {
			return err
		}
		return s.Until(end * time.Second)
	})
	for _, name := range []string{"bulk", "camera0", "camera4"} {
		t.Logf("%s: %.2f Mbit/s, %.2f in its worst 5 s", name, seen.Rate(name, from, end), seen.Worst(name, 5, from, end))
	}
	// They leave 28.5. On a machine that does nothing else it has 27; if nobody looked for their pauses, 5.
	if got := seen.Rate("bulk", from, end); got < 14 {
		t.Errorf("beside cameras that take 10 Mbit/s the other has %.2f of 40", got)
	}
}
