package sim

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// A stream may pause for as long as it likes. A member that loses its agent in a pause gets another, and the rest: a pause does
// not count as being held up.
func TestPausedStreamOutlivesALink(t *testing.T) {
	s := scenario{
		agents:     []place{{"a1", "a1", "x", 16 << 20}, {"a2", "a2", "y", 16 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 64 << 10, stream: true}},
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		p := s.deliveries[0]
		content, err := os.ReadFile(w.write(p))
		w.must(err)
		from, to := io.Pipe()
		out, err := w.sending.SendStream(context.Background(), from, sdk.SendOptions{Name: p.name})
		w.must(err)
		_, err = to.Write(content[:p.size/2])
		w.must(err)
		time.Sleep(3 * time.Minute)
		w.network.Cut("r2", "a2")
		time.Sleep(10 * time.Second)
		_, err = to.Write(content[p.size/2:])
		w.must(err)
		w.must(to.Close())
		ended := w.awaitEnd(out.ID(), 2*time.Minute)
		w.checkOutcome(p, ended)
		if ended.State != sdk.DeliveryComplete {
			t.Errorf("the delivery is %s", standing(ended))
		}
	})
}

// A member leaves while a stream pauses. The agent that fed it alone is of no use any more, and harms nobody.
func TestPausedStreamOutlivesAMember(t *testing.T) {
	for _, leaver := range []string{"r1", "r2"} { // one of them is behind the agent that the other's agent feeds
		t.Run(leaver, func(t *testing.T) {
			s := twoAgents(sdk.Hop, 64<<10)
			inWorld(t, s, func(*world) {}, func(w *world) {
				content, to, out := w.beginStream(s.deliveries[0])
				_, err := to.Write(content[:len(content)/2])
				w.must(err)
				w.awaitBytes(out, uint64(len(content)/2), "r1", "r2")
				w.leaves.Store(true)
				w.programs[leaver].stop()
				w.isOver(w.programs[leaver])
				w.leaves.Store(false)
				time.Sleep(7 * time.Minute)
				now, err := w.operator.Delivery(context.Background(), out.ID())
				w.must(err)
				if now.State != sdk.DeliveryRunning || now.Failed != 1 {
					w.Errorf("the source merely pauses, and the delivery is %s", standing(now))
				}
				_, err = to.Write(content[len(content)/2:])
				w.must(err)
				w.must(to.Close())
				w.awaitEnd(out.ID(), 2*time.Minute)
			})
		})
	}
}
