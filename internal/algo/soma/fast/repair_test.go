package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// What is known of blocks that were repaired does not grow with the object, however far behind somebody is: here nearly all are repaired,
// and one member joins late, and misses the first until the others have all.
func TestRepairsAreForgottenThoughOneIsBehind(t *testing.T) {
	n := begin(t, setting{length: 300e6, members: 4, uplink: cable{rate: mbit100, queue: 200}, seed: 46, cable: func(i int) cable {
		c := lan(mbit100)(i)
		c.loss = 0.01
		return c
	}})
	n.run(100 * time.Millisecond)
	down := lan(mbit100)(0)
	n.join(&down)
	most := 0
	for range 60 {
		n.run(time.Second)
		if n.sender.Passed() < n.shape.Blocks() {
			most = max(most, n.sender.Remembered())
		}
	}
	n.wantComplete()
	t.Logf("of %d blocks, %d at most were known; %+v", n.shape.Blocks(), most, n.sender.Counts())
	if most > int(n.shape.Blocks())/3 {
		t.Errorf("of %d blocks, %d were known at once", n.shape.Blocks(), most)
	}
}

// A member that asks for more of a block after a long time, as one of very many does, gets shards that it does not have yet.
func TestLateRoundHasOtherParity(t *testing.T) {
	shape, err := fast.ShapeOf(100*92_160, datagram)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	s, err := fast.NewSender(fast.Settings{Shape: shape, Ceiling: 1.25e9, Window: 1000, Patience: time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	s.Join(now)
	s.Join(now)
	var shards []int
	asked := uint32(0) // the poll that was answered by asking
	for step := 0; step < 100_000 && len(shards) < 2; step++ {
		switch d := s.Next(now, 44); d.Do {
		case fast.Wait:
			now = now.Add(time.Millisecond)
		case fast.SendParity:
			shards = append(shards, d.First)
		case fast.SendPoll:
			now = now.Add(100 * time.Microsecond)
			r := wire.Reported{Poll: d.Poll.Poll, Seen: d.Number + 1, Received: d.Number + 1}
			if d.Poll.Passed > 0 && (asked == 0 || d.Poll.Poll-asked > 2000) {
				asked = d.Poll.Poll
				r.Wants = []wire.Want{{Block: 0, Need: 1, Missing: 1}}
			}
			for id := range fast.ID(2) {
				if err := s.Report(id, r, now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(shards) != 2 || shards[0] != 0 || shards[1] != 1 || s.Remembered() > 1 {
		t.Errorf("shards %v, %d blocks known", shards, s.Remembered())
	}
}
