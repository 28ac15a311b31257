package delivery

import (
	"testing"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/services/manager/placement"
)

// What an agent says of its children is found by who they are, in its latest report. Where two have the same name, and an agent of an
// earlier version does not say which is which, the one that was given up counts.
func TestWhatIsSaidOfAChild(t *testing.T) {
	a := placement.AgentID("a")
	p := &progress{nodes: map[identity.ID]*nodeProgress{a: {report: new(groupv1.DeliveryReport)}, placement.AgentID("mute"): {}}}
	says := func(children ...*groupv1.ChildReport) {
		p.nodes[a].report = &groupv1.DeliveryReport{Children: children}
	}
	bytes := func(feeder identity.ID, name string) uint64 {
		return p.childReport(feeder, placement.MemberID(name)).GetSentBytes()
	}
	says(&groupv1.ChildReport{Name: "m", SentBytes: 1}, &groupv1.ChildReport{Name: "m", SentBytes: 2}, &groupv1.ChildReport{Name: "n", SentBytes: 3})
	if bytes(a, "m") != 1 || bytes(a, "n") != 3 || bytes(a, "o") != 0 {
		t.Errorf("said of m %d, of n %d, of o %d", bytes(a, "m"), bytes(a, "n"), bytes(a, "o"))
	}
	says(&groupv1.ChildReport{Name: "m", SentBytes: 4}, &groupv1.ChildReport{Name: "m", SentBytes: 5, Evicted: true})
	if bytes(a, "m") != 5 || bytes(a, "n") != 0 {
		t.Errorf("then said of m %d, of n %d", bytes(a, "m"), bytes(a, "n"))
	}
	says(&groupv1.ChildReport{Name: "m", Role: "agent", SentBytes: 6, Evicted: true}, &groupv1.ChildReport{Name: "m", Role: "member", SentBytes: 7})
	if of := p.childReport(a, placement.AgentID("m")).GetSentBytes(); bytes(a, "m") != 7 || of != 6 {
		t.Errorf("said of member m %d, of agent m %d", bytes(a, "m"), of)
	}
	for _, silent := range []identity.ID{placement.AgentID("mute"), placement.AgentID("nobody")} {
		if p.childReport(silent, placement.MemberID("m")) != nil {
			t.Errorf("%v says something", silent)
		}
	}
}
