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
