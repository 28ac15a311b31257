package manager_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A delivery to many members at once: assigned, reported, received.
func TestDeliveryToMany(t *testing.T) {
	const many = 300
	_, p := startParty(t)
	var agents, members []*node
	for i := range 10 {
		agents = append(agents, p.agent(t, fmt.Sprintf("a%d", i), fmt.Sprintf("node-%d", i), "zone"))
	}
	sender := p.join(t, "s", "node-0", send)
	for i := range many {
		members = append(members, p.join(t, fmt.Sprintf("m%03d", i), fmt.Sprintf("node-%d", i%10), receiveToo))
	}
	start := time.Now()
	id := p.create(t, sender, file(megabyte))
	for _, n := range members {
		n.has(t, id, "fed", func(a *groupv1.Assignment) bool { return a.GetParent() != nil })
	}
	t.Logf("all are assigned after %v", time.Since(start))
	sender.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte})
	p.seal(t, sender, id, megabyte)
	for _, n := range agents {
		n.report(&groupv1.DeliveryReport{Delivery: id, Bytes: megabyte})
	}
	start = time.Now()
	var receipts sync.WaitGroup
	for _, n := range members {
		receipts.Go(func() {
			if err := p.complete(t, n, id, megabyte); err != nil {
				t.Errorf("receipt of %s: %v", n.name, err)
			}
		})
	}
	receipts.Wait()
	t.Logf("all receipts are written after %v", time.Since(start))
	d := p.becomes(t, id, "complete", 10*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_COMPLETE))
	if len(d.GetReceipts()) != many || d.GetCompleteCount() != many {
		t.Errorf("%d receipts, %d complete", len(d.GetReceipts()), d.GetCompleteCount())
	}
	t.Logf("the delivery is complete after %v", time.Since(start))
}

// All members of a group get a delivery, even if they say more of themselves, taken together, than one message holds.
func TestDeliveryToAllThatSayMuch(t *testing.T) {
	const many = 80
	_, p := startParty(t)
	p.agent(t, "a1", "node-1", "")
	sender := p.join(t, "s", "node-1", send)
	labels := make(map[string]string)
	for i := range 64 {
		labels[fmt.Sprintf("%0253d", i)] = strings.Repeat("x", 253)
	}
	for i := range many { // 2.6 MiB
		join := &groupv1.JoinRequest{Group: partyGroup, Name: fmt.Sprintf("m%02d", i), Labels: labels, Roles: []groupv1.Role{receiveToo}}
		if _, err := p.sessions.Join(t.Context(), join); err != nil {
			t.Fatal(err)
		}
	}
	listed := make(map[string]bool)
	for token, more := "", true; more; more = token != "" {
		page, err := p.sessions.ListMembers(t.Context(), &groupv1.ListMembersRequest{Group: partyGroup, PageToken: token})
		if err != nil || len(page.GetMembers()) == 0 {
			t.Fatalf("a page of %d members: %v", len(page.GetMembers()), err)
		}
		for _, member := range page.GetMembers() {
			listed[member.GetName()] = true
		}
		token = page.GetNextPageToken()
	}
	if len(listed) != many+1 {
		t.Errorf("%d members are listed, want %d and the sender", len(listed), many)
	}
	if got := p.get(t, p.create(t, sender, file(megabyte))).GetMemberCount(); got != many {
		t.Errorf("it is delivered to %d members, want %d", got, many)
	}
}

// A page of replications is cut by how much there is to tell of them: names of many replicas, and long paths.
func TestManyReplicationsAreListed(t *testing.T) {
	const many = 100
	s := newSite(t, mustRead(t, managertest.Start(t).Access))
	s.replicator(t, "s", "rack1")
	s.replicator(t, "r1", "rack1")
	long := "/srv/" + strings.Repeat("x", 4000)
	for range many { // 1.2 MB
		begun, err := s.client.Replicate(t.Context(), sdk.ReplicationSpec{
			SourceNode: "s", SourcePath: long, TargetPath: long, Selector: "r1" + strings.Repeat(",r1", 1300),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CancelReplication(t.Context(), begun.ID); err != nil {
			t.Fatal(err)
		}
	}
	replications := replicav1.NewReplicationServiceClient(managertest.Dial(t, s.config))
	listed, pages, token := make(map[string]bool), 0, ""
	for ; pages == 0 || token != ""; pages++ {
		page, err := replications.ListReplications(t.Context(), &replicav1.ListReplicationsRequest{PageSize: 1000, PageToken: token})
		if err != nil || proto.Size(page) > 11<<20/10 {
			t.Fatalf("a page of %d bytes: %v", proto.Size(page), err)
		}
		for _, r := range page.GetReplications() {
			listed[r.GetId()] = true
		}
		token = page.GetNextPageToken()
	}
	if len(listed) != many || pages != 2 {
		t.Errorf("%d of %d are listed, in %d pages", len(listed), many, pages)
	}
}
