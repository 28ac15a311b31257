package sim

import (
	"os"
	"testing"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/sdk"
)

// A member goes on with the part of an object that came before it was interrupted. If that part
// turns out to belong to something else, or to be damaged, the member takes everything again.
func TestPartialOfSomethingElse(t *testing.T) {
	s := scenario{
		agents:     []place{{"a1", "a1", "x", 1 << 20}},
		receivers:  []place{{name: "r1", node: "a1"}, {name: "r2", node: "a1"}},
		policy:     sdk.Policy{ControlMode: sdk.Hop},
		deliveries: []parcel{{name: "object-0", size: 2 << 20}},
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		path := w.write(s.deliveries[0])
		w.leavePartial("r1", path)
		out := w.send(s.deliveries[0], path)
		ended := w.awaitEnd(out.ID(), endTime)
		w.checkOutcome(s.deliveries[0], ended)
		if ended.State != sdk.DeliveryComplete {
			t.Errorf("the delivery is %s", standing(ended))
		}
	})
}

// leavePartial leaves at a member what an interrupted delivery of a file would have left, but with other content.
func (w *world) leavePartial(member, path string) {
	w.Helper()
	source, err := object.Open(w.Context(), path)
	w.must(err)
	defer func() { w.must(source.Close()) }()
	w.must(os.MkdirAll(w.into(member), 0o755))
	landing, err := object.Land(w.Context(), w.into(member), source.Info())
	w.must(err)
	_, err = landing.Write(make([]byte, 1<<20))
	w.must(err)
	w.must(landing.Keep())
}
