package sim

import (
	"fmt"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// The objects that agents keep for latecomers give way to later ones, however many there were and however long they are.
func TestManyObjectsOneAfterTheOther(t *testing.T) {
	s := scenario{
		agents:    []place{{"a1", "a1", "x", 1 << 20}, {"a2", "a2", "y", 1 << 20}},
		receivers: []place{{name: "r1", node: "a1"}, {name: "r2", node: "a2"}},
		policy:    sdk.Policy{ControlMode: sdk.Hop},
	}
	for i := range 20 {
		s.deliveries = append(s.deliveries, parcel{name: fmt.Sprintf("object-%c", 'a'+i), size: 200_000 + 7_001*i})
	}
	inWorld(t, s, func(*world) {}, func(w *world) {
		for _, p := range s.deliveries {
			ended := w.awaitEnd(w.send(p, w.write(p)).ID(), endTime)
			w.checkOutcome(p, ended)
			if ended.State != sdk.DeliveryComplete {
				t.Fatalf("%s is %s", p.name, standing(ended))
			}
		}
	})
}
