package relay_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
)

// An agent and a member of one name, as on a node that has both, are two children: neither ends the other's link, and what one has is not
// taken for what the other has.
func TestAgentAndMemberOfOneName(t *testing.T) {
	for name, spec := range modes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4<<20+5, spec)
			a := w.start("sa1", 64<<20)
			w.start("n1", 64<<20)
			w.tree("sa1", "sender")
			w.tree("n1", "sa1", "r2")
			a.children = []*groupv1.Neighbour{{Name: "n1", Role: string(identity.Agent)}, {Name: "n1", Role: string(identity.Member)}}
			w.assign("sa1", false)
			slow := newMember("n1")
			slow.pace = time.Millisecond
			w.deliver("sa1", map[*member]string{slow: "sa1", newMember("r2"): "n1"})
			if sent := a.count(w, "sent_bytes"); sent != 2*float64(len(w.content)) {
				t.Errorf("SA1 sent %v bytes, want twice the object", sent)
			}
			acked := make(map[string]uint64)
			for _, child := range a.Reports()[0].GetChildren() {
				acked[child.GetRole()+" "+child.GetName()] = child.GetAckedOffset()
			}
			if all := uint64(len(w.content)); len(acked) != 2 || acked["agent n1"] != all || acked["member n1"] != all {
				t.Errorf("SA1 reports of its children what they have as %v, want all of both", acked)
			}
		})
	}
}
