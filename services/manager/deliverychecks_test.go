package manager_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

func TestDeliveryRefused(t *testing.T) {
	_, p := startParty(t)
	sender, receiver := p.join(t, "s", "node-1", send), p.join(t, "m1", "node-1", receiveToo)
	refused := func(from *node, spec *groupv1.DeliverySpec, reason string) {
		t.Helper()
		if _, err := p.tryCreate(t, from, spec); managertest.Reason(err) != reason {
			t.Errorf("%v, want %s", err, reason)
		}
	}
	refused(sender, file(1), "NO_AGENT")
	p.agent(t, "a1", "node-1", "")
	refused(receiver, file(1), "ROLE_NOT_ALLOWED")
	for _, name := range []string{"", ".", "..", "a/b", "a\x00b", string(make([]byte, 300))} {
		spec := file(1)
		spec.Name = name
		refused(sender, spec, "INVALID")
	}
	_, err := p.groups.UpdateGroup(t.Context(), &groupv1.UpdateGroupRequest{Name: partyGroup, Policy: &groupv1.Policy{
		Limits: &groupv1.Limits{MaxDeliveries: 1, MaxObjectBytes: 100, MaxBytesPerSecond: 5000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	refused(sender, file(101), "OBJECT_TOO_LARGE")
	spec := file(100)
	spec.MaxBytesPerSecond = 50000
	id := p.create(t, sender, spec)
	if got := sender.has(t, id, "assigned", func(a *groupv1.Assignment) bool { return a != nil }).GetSpec().GetMaxBytesPerSecond(); got != 5000 {
		t.Errorf("it may send %d bytes per second, want the group's 5000", got)
	}
	refused(sender, file(1), "TOO_MANY_DELIVERIES")
	p.leave(t, receiver)
	p.becomes(t, id, "ended", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_FAILED))
	refused(sender, file(1), "NO_RECEIVERS")
	spec = file(1)
	spec.SlowMember = &groupv1.SlowMemberPolicy{LagBytes: 5} // the group detaches slow members
	refused(sender, spec, "INVALID")
	stale := newNode("s")
	stale.member = &groupv1.Member{Incarnation: 1}
	refused(stale, file(1), "SESSION_ENDED")
}

func TestDeliveryOncePerRequest(t *testing.T) {
	_, p := startParty(t)
	p.agent(t, "a1", "node-1", "")
	sender := p.join(t, "s", "node-1", send)
	p.join(t, "m1", "node-1", receiveToo)
	request := &groupv1.CreateDeliveryRequest{
		Group: partyGroup, Sender: "s", Incarnation: sender.member.GetIncarnation(), Spec: file(1), RequestId: "once",
	}
	first, err := p.deliveries.CreateDelivery(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.deliveries.CreateDelivery(t.Context(), request)
	if err != nil || !proto.Equal(first, again) {
		t.Errorf("asked again: %v %v, want %v", again, err, first)
	}
	request.Spec.Length = 2
	if _, err := p.deliveries.CreateDelivery(t.Context(), request); managertest.Reason(err) != "REQUEST_ID_REUSED" {
		t.Errorf("another request with the same id: %v", err)
	}
	second := p.create(t, sender, file(1))
	page, err := p.deliveries.ListDeliveries(t.Context(), &groupv1.ListDeliveriesRequest{Group: partyGroup, PageSize: 1})
	if err != nil || len(page.GetDeliveries()) != 1 || page.GetDeliveries()[0].GetId() != second || page.GetNextPageToken() == "" {
		t.Fatalf("the first page is %v %v, want the newest", page, err)
	}
	page, err = p.deliveries.ListDeliveries(t.Context(), &groupv1.ListDeliveriesRequest{PageSize: 1, PageToken: page.GetNextPageToken()})
	if err != nil || len(page.GetDeliveries()) != 1 || page.GetDeliveries()[0].GetId() != first.GetDelivery().GetId() || page.GetNextPageToken() != "" {
		t.Errorf("the second page is %v %v, want the other", page, err)
	}
	other := "0"
	if second[31:] == other {
		other = "1"
	}
	for prefix, reason := range map[string]string{"abc": "INVALID", "word": "INVALID", second[:31] + other: "NOT_FOUND", second + "0": "INVALID"} {
		if _, err := p.deliveries.GetDelivery(t.Context(), &groupv1.GetDeliveryRequest{Delivery: prefix}); managertest.Reason(err) != reason {
			t.Errorf("%s: %v, want %s", prefix, err, reason)
		}
	}
}

func TestDeliveryReceiptsAreChecked(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	record := func(n *node, change func(*groupv1.RecordReceiptRequest)) string {
		request := &groupv1.RecordReceiptRequest{
			Delivery: id, Member: n.name, Incarnation: n.member.GetIncarnation(),
			State: groupv1.ReceiptState_RECEIPT_STATE_COMPLETE, Bytes: megabyte, Root: root(1),
		}
		change(request)
		_, err := p.deliveries.RecordReceipt(t.Context(), request)
		return managertest.Reason(err)
	}
	same := func(*groupv1.RecordReceiptRequest) {}
	if got := record(p.m1, same); got != "NOT_SEALED" {
		t.Errorf("before the seal: %s", got)
	}
	p.seal(t, p.sender, id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	_, err := p.deliveries.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{
		Delivery: id, Sender: "s", Incarnation: p.sender.member.GetIncarnation(), Length: megabyte, Root: root(2),
	})
	if managertest.Reason(err) != "SEALED_OTHERWISE" {
		t.Errorf("sealed otherwise: %v", err)
	}
	for want, change := range map[string]func(*groupv1.RecordReceiptRequest){
		"NOT_WHAT_WAS_SEALED": func(r *groupv1.RecordReceiptRequest) { r.Root = root(2) },
		"INVALID":             func(r *groupv1.RecordReceiptRequest) { r.State = groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN },
		"SESSION_ENDED":       func(r *groupv1.RecordReceiptRequest) { r.Incarnation-- },
	} {
		if got := record(p.m1, change); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := record(p.m1, func(r *groupv1.RecordReceiptRequest) { r.Bytes-- }); got != "NOT_WHAT_WAS_SEALED" {
		t.Errorf("a byte less: %s", got)
	}
	if got := record(p.sender, same); got != "NO_PART" {
		t.Errorf("the sender's own: %s", got)
	}
	if got := record(p.m1, same); got != "" {
		t.Errorf("a good one: %s", got)
	}
}

// What went wrong is told however long its description is: it may name paths of any length.
func TestDeliveryLongDetails(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id, long := p.create(t, p.sender, file(megabyte)), "write "+strings.Repeat("ä", 1000)
	_, err := p.deliveries.RecordReceipt(t.Context(), &groupv1.RecordReceiptRequest{
		Delivery: id, Member: "m1", Incarnation: p.m1.member.GetIncarnation(),
		State: groupv1.ReceiptState_RECEIPT_STATE_FAILED, Reason: "no_room", Detail: long,
	})
	if err != nil {
		t.Fatalf("a receipt: %v", err)
	}
	_, err = p.deliveries.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{
		Delivery: id, Sender: "s", Incarnation: p.sender.member.GetIncarnation(), Reason: "source_changed", Detail: long,
	})
	if err != nil {
		t.Fatalf("a sender that gives up: %v", err)
	}
	d := p.becomes(t, id, "failed", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_FAILED))
	for member, reason := range map[string]string{"m1": "no_room", "m2": "source_changed"} {
		got := receipt(d, member)
		if got.GetReason() != reason || !strings.HasPrefix(long, got.GetDetail()) || len(got.GetDetail()) < 1000 {
			t.Errorf("%s: %s, %d bytes: %q", member, got.GetReason(), len(got.GetDetail()), got.GetDetail())
		}
	}
}

func TestDeliveryAndGroupDeletion(t *testing.T) {
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	for _, force := range []bool{false, true} {
		_, err := p.groups.DeleteGroup(t.Context(), &groupv1.DeleteGroupRequest{Name: partyGroup, Force: force})
		if want := map[bool]string{false: "GROUP_IN_USE"}[force]; managertest.Reason(err) != want {
			t.Errorf("force %v: %v, want %q", force, err, want)
		}
	}
	d := p.becomes(t, id, "canceled", 5*time.Second, ended(groupv1.DeliveryState_DELIVERY_STATE_FAILED))
	if d.GetReason() != "canceled" {
		t.Errorf("it ended as %v", d)
	}
}

// While nobody is joined, a delivery may still wait for a member that is not heard of.
func TestDeliveryKeepsItsGroup(t *testing.T) {
	t.Parallel()
	_, party := startParty(t)
	p := newPair(t, party)
	id := p.create(t, p.sender, file(megabyte))
	p.passOn(id, megabyte)
	p.seal(t, p.sender, id, megabyte)
	p.mustComplete(t, p.m2, id, megabyte)
	p.m1.stop()
	p.becomes(t, id, "m1 unknown", 20*time.Second, func(d *groupv1.Delivery) bool {
		return receipt(d, "m1").GetState() == groupv1.ReceiptState_RECEIPT_STATE_UNKNOWN
	})
	p.leave(t, p.m2)
	p.leave(t, p.sender)
	if _, err := p.groups.DeleteGroup(t.Context(), &groupv1.DeleteGroupRequest{Name: partyGroup}); managertest.Reason(err) != "GROUP_IN_USE" {
		t.Errorf("%v, want GROUP_IN_USE", err)
	}
}

func TestDeliveryOfMembersTheirOwn(t *testing.T) {
	m, p := startParty(t)
	p.agent(t, "a1", "node-1", "")
	sender := p.join(t, "alice", "node-1", send)
	p.join(t, "bob", "node-1", receiveToo)
	id := p.create(t, sender, file(1))
	as := func(name string, groups ...string) groupv1.DeliveryServiceClient {
		return groupv1.NewDeliveryServiceClient(managertest.Dial(t, m.Enroll(t, sdk.Token{Role: "member", Name: name, Groups: groups})))
	}
	alice, bob, stranger := as("alice", partyGroup), as("bob", partyGroup), as("mallory", "elsewhere")
	if _, err := bob.GetDelivery(t.Context(), &groupv1.GetDeliveryRequest{Delivery: id[:8]}); err != nil {
		t.Errorf("a member of the group: %v", err)
	}
	_, real := stranger.GetDelivery(t.Context(), &groupv1.GetDeliveryRequest{Delivery: id})
	ghostID := strings.Repeat("0", 32)
	_, ghost := stranger.GetDelivery(t.Context(), &groupv1.GetDeliveryRequest{Delivery: ghostID})
	if managertest.Reason(real) != "NOT_FOUND" || strings.ReplaceAll(real.Error(), id, ghostID) != ghost.Error() {
		t.Errorf("to a stranger, a delivery: %v; none: %v", real, ghost)
	}
	if _, err := bob.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: id}); managertest.Reason(err) != "DENIED" || !strings.Contains(err.Error(), "its sender, alice, and operators may") {
		t.Errorf("canceled by a receiver: %v", err)
	}
	if _, err := bob.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{Delivery: id, Sender: "alice"}); managertest.Reason(err) != "DENIED" {
		t.Errorf("sealed by a receiver: %v", err)
	}
	if _, err := bob.SealDelivery(t.Context(), &groupv1.SealDeliveryRequest{Delivery: id, Sender: "bob"}); managertest.Reason(err) != "DENIED" {
		t.Errorf("sealed by a receiver as itself: %v", err)
	}
	if _, err := alice.RecordReceipt(t.Context(), &groupv1.RecordReceiptRequest{Delivery: id, Member: "bob"}); managertest.Reason(err) != "DENIED" {
		t.Errorf("a receipt by somebody else: %v", err)
	}
	if _, err := alice.ListDeliveries(t.Context(), &groupv1.ListDeliveriesRequest{}); managertest.Reason(err) != "DENIED" || !strings.Contains(err.Error(), "name a group") {
		t.Errorf("all groups' deliveries: %v", err)
	}
	if _, err := alice.CancelDelivery(t.Context(), &groupv1.CancelDeliveryRequest{Delivery: id}); err != nil {
		t.Errorf("canceled by the sender: %v", err)
	}
}
