package manager_test

import (
	"testing"
	"time"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
)

// cluster returns a cluster of a delivery's tree.
func (p *party) cluster(t *testing.T, id, name string) *groupv1.TreeCluster {
	t.Helper()
	for _, cluster := range p.get(t, id).GetTreeClusters() {
		if cluster.GetName() == name {
			return cluster
		}
	}
	return nil
}

// A change inside a cluster sends directives to no other: only its dispatcher has work (002 §3.1.2).
func TestDirectivesStayInTheirCluster(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	p.agent(t, "a3", "node-3", "zone-b")
	m3 := p.join(t, "m3", "node-3", receiveToo)
	id := p.create(t, p.sender, file(megabyte))
	m3.has(t, id, "fed by its node's agent", fedBy("a3"))
	a, b := p.cluster(t, id, "zone-a"), p.cluster(t, id, "zone-b")
	if a.GetAgents() != 1 || b.GetAgents() != 2 || b.GetMembers() != 2 || b.GetEntered() != 1 {
		t.Errorf("the clusters are %v and %v", a, b)
	}
	if nodes := uint64(b.GetAgents() + b.GetMembers()); b.GetDirectives() != nodes || a.GetDirectives() == 0 {
		t.Errorf("zone-a got %d directives, and zone-b %d for %d nodes", a.GetDirectives(), b.GetDirectives(), nodes)
	}
	p.leave(t, m3)
	told := func() bool { return p.cluster(t, id, "zone-b").GetDirectives() > b.GetDirectives() }
	eventually(t, 30*time.Second, "zone-b is told that m3 has left", told)
	if after := p.cluster(t, id, "zone-a").GetDirectives(); after != a.GetDirectives() {
		t.Errorf("a member of zone-b has left, and zone-a got %d directives", after-a.GetDirectives())
	}
}
